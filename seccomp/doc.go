// Package seccomp limits which system calls a command may make.
//
//	p, err := seccomp.ByName("default")
//	f, err := seccomp.Cached(dir, p, runtime.GOARCH, seccomp.Options{Inet: true})
//	// f.BPF goes to the child, which installs it as its last step before exec.
//
// A [Profile] is data: the calls that are allowed, with conditions on their
// arguments; everything else is refused with EPERM. [Profile.Compile] turns it
// into BPF with libseccomp; this package never installs a filter in the calling
// process. docs/seccomp.md lists what is out and why.
//
// # Limits
//
// A filter sees numbers and scalar arguments, not what a pointer points to: it
// knows no paths and no addresses. What follows from that:
//
//   - clone3(2) and openat2(2) keep their flags and modes in memory. They are
//     answered with ENOSYS; libc then uses clone(2) and openat(2).
//   - Allowed calls that name a path (chmod, setxattr, ...) or an address
//     (connect, sendto) are held by Landlock, mounts or the network namespace.
//   - Without a pid namespace kill(2) reaches whatever Landlock's signal scope
//     permits; the filter does not look at its target.
//   - set-group-id bits may be set, since set-group-id directories are ordinary.
//   - A new program can be made in anonymous memory, as every JIT compiler does;
//     [Options.NoExecWrite] closes memory files only.
//   - Numbers above the newest one that both the profile and libseccomp know are
//     answered with ENOSYS, whatever they are; see [Filter.Unknown].
package seccomp
