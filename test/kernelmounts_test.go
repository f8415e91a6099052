package test

import (
	"fmt"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// The tree of a chroot with its own /proc and /sys: what is mounted there is the
// host's. Reading the tree shows neither, writing it is refused, and the tree beside
// them is used as ever. The trial without confinement shows what would be reached.
func TestProcAndSysMountedElsewhere(t *testing.T) {
	require.Root(t, "to mount")
	onStages(t, func(s *scene) {
		s.file(s.Out+"/root/etc/motd", "hello\n")
		s.file(s.Out+"/root/a b/motd", "hello\n")
		for _, d := range []string{"/root/proc", "/root/sys", "/root/a b/p"} {
			s.mkdir(s.Out + d)
		}
		s.mkdir(s.Work + "/tree/proc")
		inNamespace := func(mounts, script string) result {
			s.Helper()
			c := s.command("unshare", "-m", "--propagation", "private", "sh", "-c",
				`mount -t proc proc "$0/root/proc" && mount -t sysfs sysfs "$0/root/sys" && mount --bind /proc/sys "$0/root/a b/p" && `+mounts+
					`exec setpriv --reuid "$1" --regid "$1" --clear-groups env SECRET_OF_TEST=1 `+script, s.Out, fmt.Sprint(s.UID), s.program("sbx"), s.Work, s.Tier)
			c.SysProcAttr.Credential = nil
			return s.finish(c)
		}
		const sbx = `"$2" run --quiet --tier "$4" --workspace "$3" `
		const look = `sh -c 'cat "$0/root/etc/motd" "$0/root/a b/motd"; ls "$0/root/proc" "$0/root/sys" "$0/root/a b/p" 2>/dev/null | grep -E "^(version|kernel|devices)$"; :' "$0"`
		if r := inNamespace("", look); !strings.Contains(r.Stdout, "hello\nhello\n") || !strings.Contains(r.Stdout, "version") || !strings.Contains(r.Stdout, "devices") {
			s.Fatalf("without confinement: %d %q %q", r.Code, r.Stdout, r.Stderr)
		}
		if r := inNamespace("", sbx+`--ro "$0" -- `+look); r.Code != 0 || r.Stdout != "hello\nhello\n" {
			s.Errorf("granted for reading: %d %q %q", r.Code, r.Stdout, r.Stderr)
		}
		for _, flags := range []string{`--rw "$0/root"`, `--rw "$0"`, `--rw "$0/root/proc"`, `--rw "$0/root/sys/kernel"`, `--rw "$0/root/a b/p/kernel"`, `--ro / --rw "$0/root/proc/sys"`} {
			r := inNamespace("", sbx+flags+` -- `+look)
			if r.Code != 125 || r.Stdout != "" || !strings.Contains(r.Stderr, "never writable") {
				s.Errorf("%s: %d %q %q", flags, r.Code, r.Stdout, r.Stderr)
			}
		}
		r := inNamespace("", sbx+`--rw "$0/root/etc" -- sh -c 'echo more >> "$0/root/etc/motd" && cat "$0/root/etc/motd"' "$0"`)
		if r.Code != 0 || r.Stdout != "hello\nmore\n" {
			s.Errorf("the directory beside: %d %q %q", r.Code, r.Stdout, r.Stderr)
		}
		r = inNamespace("", `"$2" run --verbose --tier "$4" --workspace "$3" --ro "$0/root/proc" -- sh -c 'cat "$0/root/proc/version"; echo x > "$0/root/proc/self/comm" && echo wrote' "$0"`)
		if !strings.HasPrefix(r.Stdout, "Linux") || strings.Contains(r.Stdout, "wrote") || !strings.Contains(r.Stderr, "is a proc file system") {
			s.Errorf("named for reading: %d %q %q", r.Code, r.Stdout, r.Stderr)
		}
		r = inNamespace(`mount -t proc proc "$3/tree/proc" && `, sbx+`-- true`)
		if r.Code != 125 || !strings.Contains(r.Stderr, "tree/proc is a proc file system") {
			s.Errorf("in the workspace: %d %q %q", r.Code, r.Stdout, r.Stderr)
		}
		if s.Tier == "full" {
			r = inNamespace(`mount -t proc proc "$3/tree/proc" && `, sbx+`--deny "$3/tree/proc" -- sh -c 'ls "$0"; touch made' "$3/tree/proc"`)
			if r.Code != 0 || r.Stdout != "" || !exists(s.Work+"/made") {
				s.Errorf("denied in the workspace: %d %q %q", r.Code, r.Stdout, r.Stderr)
			}
		}
	})
}
