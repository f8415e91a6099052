// Package path answers two questions about a name in the file system: is it
// inside the roots, and is it one that other programs take orders from.
//
//	r := path.Resolver{Roots: []string{"/home/me/src"}, Home: "/home/me", Cwd: "/home/me/src"}
//	got, err := r.Resolve("docs/../.git/hooks/pre-commit")
//	// got.Inside is true and got.Protected names the Git hook directory.
//
// The table of protected names is shared: policy asks before a tool writes
// one, agentloop hands those that exist to exec, which makes them read-only, and
// looks after a run at those that appeared. [JudgeGitConfig] and its
// neighbours tell content that runs programs from content that does not.
//
// # Limits
//
// A resolved path is true for the moment it was resolved. Whoever goes on to
// open it must do so with [OpenBeneath], which resolves again, in the kernel.
// Hard links cannot be seen: two names of one file are two files here.
// Build inputs (Makefile, package.json, workflow files of CI) are not
// protected: they are the work itself, and are run by someone who builds.
package path
