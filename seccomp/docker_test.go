package seccomp

import (
	"slices"
	"testing"

	docker "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// dockerAllows evaluates Docker's default profile for a container without added
// capabilities on a recent kernel: which calls are allowed without, and which
// with conditions on their arguments.
func dockerAllows(arch string) (always, sometimes map[string]bool) {
	always, sometimes = map[string]bool{}, map[string]bool{}
	for _, rule := range docker.DefaultProfile().Syscalls {
		if rule.Action != specs.ActAllow {
			continue
		}
		if in := rule.Includes; in != nil && (len(in.Caps) > 0 || len(in.Arches) > 0 && !slices.Contains(in.Arches, arch)) {
			continue
		}
		if out := rule.Excludes; out != nil && slices.Contains(out.Arches, arch) {
			continue
		}
		for _, name := range rule.Names {
			if len(rule.Args) == 0 {
				always[name] = true
			} else {
				sometimes[name] = true
			}
		}
	}
	return always, sometimes
}

// weAllow is the same for the profile "default" with every option that adds.
func weAllow() (always, sometimes map[string]bool) {
	always, sometimes = map[string]bool{}, map[string]bool{}
	refusedFor := map[string]bool{}
	for _, r := range defaultRefuse {
		for _, call := range r.Calls {
			refusedFor[call] = true
		}
	}
	p, _ := ByName("default")
	_, when := alternatives(p.Allow, Options{Inet: true, Unix: true, OwnPID: true, OwnIPC: true})
	for call, alternatives := range when {
		if len(alternatives[0]) == 0 && !refusedFor[call] {
			always[call] = true
		} else {
			sometimes[call] = true
		}
	}
	return always, sometimes
}

// TestEveryDifferenceToDockerHasAReason compares with the profile that most
// containers of the world run under.
func TestEveryDifferenceToDockerHasAReason(t *testing.T) {
	// What we allow and Docker does not.
	wider := map[string]string{
		"rseq_slice_yield": "pairs with rseq, gives up the rest of a time slice; newer than Docker's list",
		"unshare":          "without namespace flags: own table of descriptors or working directory, as threads of file servers use",
	}
	// What Docker allows whatever its arguments, and we on a condition only.
	narrower := map[string]string{
		"open": "set-user-id files", "openat": "set-user-id files", "creat": "set-user-id files",
		"chmod": "set-user-id files", "fchmod": "set-user-id files", "fchmodat": "set-user-id files",
		"fchmodat2": "set-user-id files", "mknod": "set-user-id files, devices", "mknodat": "set-user-id files, devices",
		"ioctl":      "terminal injection, inode flags",
		"prctl":      "list of operations",
		"sendto":     "fast open connects without connect",
		"sendmsg":    "fast open connects without connect",
		"sendmmsg":   "fast open connects without connect",
		"socketpair": "datagram pairs can send to sockets that have a path",
	}
	ours, oursIf := weAllow()
	usedWider, usedNarrower := map[string]bool{}, map[string]bool{}
	for _, arch := range architectures {
		theirs, theirsIf := dockerAllows(arch)
		for call := range loadNumbers(t, arch) {
			we, they := ours[call] || oursIf[call], theirs[call] || theirsIf[call]
			reason := slices.ContainsFunc(refusals, func(r Refusal) bool { return slices.Contains(r.Calls, call) })
			switch {
			case we && !they:
				if wider[call] == "" {
					t.Errorf("%s: %s is allowed by us, not by Docker, without a reason", arch, call)
				}
				usedWider[call] = true
			case they && !we:
				if !reason {
					t.Errorf("%s: %s is allowed by Docker, not by us, without a reason", arch, call)
				}
			case theirs[call] && !ours[call]:
				if narrower[call] == "" {
					t.Errorf("%s: %s has conditions with us, none with Docker, without a reason", arch, call)
				}
				usedNarrower[call] = true
			case ours[call] && !theirs[call] && we:
				t.Errorf("%s: %s has conditions with Docker, none with us", arch, call)
			}
		}
		if len(theirs) < 300 {
			t.Fatalf("%s: only %d calls in Docker's profile", arch, len(theirs))
		}
	}
	for call := range wider {
		if !usedWider[call] {
			t.Errorf("%s is listed as a difference and is none", call)
		}
	}
	for call := range narrower {
		if !usedNarrower[call] {
			t.Errorf("%s is listed as a difference and is none", call)
		}
	}
}
