package test

import (
	"fmt"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// Hosts that lack what most have: a command runs, or one line with a hint says why
// not. Each is made in a mount namespace of its own.
func TestOddHosts(t *testing.T) {
	require.Root(t, "to mount")
	const fill = ` && { head -c 1000000 /dev/zero > "$0/full" 2>/dev/null; ! echo x > "$0/full2"; } 2>/dev/null`
	// Whoever has no home gets one below /tmp.
	const emptyTemp = `mount -t tmpfs -o mode=1777 none /tmp`
	for _, tt := range []struct {
		name, mounts, environ string
		uids                  []int
		// runs: the command runs. Otherwise one line must hold want.
		runs bool
		want string
	}{
		{"read-only root", `mount -o remount,bind,ro / && mount --bind "$1" "$1"`, `HOME="$0"`, nil, true, ""},
		{"no home", emptyTemp, "-u HOME", nil, true, ""},
		{"home that is missing", emptyTemp, `HOME="$0/missing"`, nil, true, ""},
		{"uid without an account", `chown 54321 "$0" "$1"`, `HOME="$0"`, []int{54321}, true, ""},
		{"full disk below the home", `mount -t tmpfs -o size=64k,mode=777 none "$0"` + fill, `HOME="$0"`, nil, false, "no space left on device"},
	} {
		for _, uid := range append(tt.uids, users()[len(tt.uids):]...) {
			for _, tier := range tiers() {
				t.Run(fmt.Sprintf("%s/uid%d/%s", strings.ReplaceAll(tt.name, " ", "-"), uid, tier), func(t *testing.T) {
					s := newScene(t, uid, tier)
					c := s.command("unshare", "-m", "--propagation", "private", "sh", "-c",
						tt.mounts+` && exec setpriv --reuid "$2" --regid "$2" --clear-groups env `+tt.environ+` "$3" run --quiet --tier "$4" --workspace "$1" -- sh -c 'echo ran; id -u; cd; touch x && echo home'`,
						s.Home, s.Work, fmt.Sprint(uid), s.program("sbx"), tier)
					c.SysProcAttr.Credential = nil
					r := s.finish(c)
					if exists(s.Home + "/missing") {
						t.Error("the home was made")
					}
					// Without mounts nothing but the workspace can be written there.
					homeless := tt.name == "read-only root" && tier == "base"
					ran := fmt.Sprintf("ran\n%d\n", uid)
					if r.Code == 0 && r.Stdout == ran+"home\n" && r.Stderr == "" || homeless && r.Stdout == ran {
						return
					}
					if tt.runs || r.Code != 125 || r.Stdout != "" || strings.Count(r.Stderr, "\n") != 2 ||
						!strings.Contains(r.Stderr, tt.want) || !strings.Contains(r.Stderr, "sbx: hint: ") {
						t.Errorf("exit %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
					}
				})
			}
		}
	}
}
