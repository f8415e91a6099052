package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// limitRoute is a way to start a script of Bash under a policy file; ran says how it
// ended, in the words of a result.
type limitRoute struct {
	name string
	ran  func(d *daemonRun, policy, script string) report
}

// limitRoutes are all ways in which a command is started for somebody, with the
// files that always hold and policy, if it is not empty.
func limitRoutes() []limitRoute {
	flagged := func(policy string, args ...string) []string {
		if policy != "" {
			args = append(args, "--policy", policy)
		}
		return args
	}
	object := func(d *daemonRun, text string) report {
		var r report
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			d.Errorf("%q: %v", text, err)
		}
		return r
	}
	plain := func(d *daemonRun, args []string, script string) report {
		r := d.sbxTo(d, append(args, "--json", "--quiet", "--", "bash", "-c", script)...)
		return object(d, r.Stdout)
	}
	request := func(d *daemonRun, policy string, more map[string]any) report {
		if policy != "" {
			more["policy"] = []string{policy}
		}
		text, _ := d.request("POST", "/api/exec", d.execBody(more))
		return object(d, text)
	}
	return []limitRoute{
		{"run", func(d *daemonRun, policy, script string) report { return plain(d, flagged(policy, "run"), script) }},
		{"exec", func(d *daemonRun, policy, script string) report {
			return plain(d, flagged(policy, "exec", "--mode", "bypassPermissions"), script)
		}},
		{"exec in a session", func(d *daemonRun, policy, script string) report {
			more := map[string]any{"mode": "bypassPermissions"}
			if policy != "" {
				more["policy"] = []string{policy}
			}
			return plain(d, []string{"exec", "--session", d.newSession(more)}, script)
		}},
		{"detached", func(d *daemonRun, policy, script string) report {
			args := append(flagged(policy, "exec", "--detach", "--mode", "bypassPermissions"), "--", "bash", "-c", script)
			job := strings.TrimSpace(d.sbxTo(d, args...).Stdout)
			var of struct{ Result report }
			d.until("the job has ended", func() bool {
				text, _ := d.get("/api/jobs/" + job)
				d.must(json.Unmarshal([]byte(text), &of))
				return strings.Contains(text, `"state":"ended"`)
			})
			return of.Result
		}},
		{"script", func(d *daemonRun, policy, script string) report {
			return request(d, policy, map[string]any{"argv": nil, "script": script})
		}},
		{"tool", func(d *daemonRun, policy, script string) report {
			return request(d, policy, map[string]any{"argv": nil, "tool": "run_bash", "args": map[string]any{"command": script}})
		}},
	}
}

// Each limit of a policy file holds on each way to a command, seen by what the command
// could do; without the limit the same command does all of it on that way.
func TestEachLimitHoldsOnEachRoute(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	for _, tt := range []struct {
		key, value, script string
		held               func(r report, left int) bool // left: bytes of the file that the script makes
	}{
		{"timeout", `"700ms"`, "sleep 1.6; echo all > FILE", func(r report, left int) bool { return r.Outcome == "timeout" && left == 0 }},
		{"cpu", `"1s"`, `python3 -c "import time
while time.process_time() < 1.4: pass"; test $? = 0 && echo all > FILE`, func(_ report, left int) bool { return left == 0 }},
		{"memory", `"48MiB"`, `python3 -c "x = bytearray(160 << 20)" && echo all > FILE`, func(_ report, left int) bool { return left == 0 }},
		{"tasks", "8", "for i in $(seq 100); do sleep 1.5 & done && wait && echo all > FILE", func(_ report, left int) bool { return left == 0 }},
		{"file_size", `"1KiB"`, "head -c 5000 /dev/zero > FILE", func(_ report, left int) bool { return left > 0 && left <= 1024 }},
		{"output", `"100"`, "head -c 5000 /dev/zero | tr '\\0' x; echo all > FILE", func(r report, left int) bool {
			return r.Stdout.Bytes == 5000 && r.Stdout.Dropped >= 4800 && left > 0
		}},
	} {
		policy := d.file(d.Home+"/"+tt.key+".toml", "[limits]\n"+tt.key+" = "+tt.value+"\n")
		d.must(os.Chmod(policy, 0o600))
		free := d.file(d.Home+"/free.toml", "[limits]\ntasks = \"unlimited\"\n")
		d.must(os.Chmod(free, 0o600))
		t.Run(tt.key, func(t *testing.T) {
			for i, route := range limitRoutes() {
				if tt.key == "output" && route.name == "detached" {
					continue // what a job prints is in its log, which has its own bound
				}
				t.Run(route.name, func(t *testing.T) {
					d := &daemonRun{scene: &scene{T: t, places: d.places, Token: d.Token, Env: d.Env}, socket: d.socket, uid: d.uid}
					var both sync.WaitGroup
					for _, limited := range []bool{true, false} {
						both.Go(func() {
							name := fmt.Sprintf("%s/made-%s-%d-%v", d.Work, tt.key, i, limited)
							file := free
							if limited {
								file = policy
							}
							r := route.ran(d, file, strings.ReplaceAll(tt.script, "FILE", name))
							left := -1
							if text, err := os.ReadFile(name); err == nil {
								left = len(text)
							}
							if held := tt.held(r, max(left, 0)); held != limited || !limited && (left <= 0 || r.ExitCode != 0) {
								t.Errorf("limited %v: %d bytes left, %+v", limited, left, r)
							}
						})
					}
					both.Wait()
				})
			}
		})
	}
}

// The limits of every layer hold on every route, those of a checkout that nobody trusted
// too; what a checkout loosens does not count.
func TestLimitsOfEachLayerHoldOnEachRoute(t *testing.T) {
	for _, layer := range []struct {
		name string
		set  func(d *daemonRun)
		held bool
	}{
		{"nothing", func(*daemonRun) {}, false},
		{"user", func(d *daemonRun) { d.limitsIn(d.Home + "/.config/sandboxd/policy.toml") }, true},
		{"project", func(d *daemonRun) { d.limitsIn(d.Work + "/sandboxd.toml") }, true},
		{"local", func(d *daemonRun) { d.limitsIn(d.Work + "/sandboxd.local.toml") }, true},
		{"looser project", func(d *daemonRun) {
			d.limitsIn(d.Home + "/.config/sandboxd/policy.toml")
			d.file(d.Work+"/sandboxd.toml", "[limits]\ntimeout = \"1h\"\n")
		}, true},
	} {
		t.Run(layer.name, func(t *testing.T) {
			d := startDaemon(t, os.Getuid())
			layer.set(d)
			var all sync.WaitGroup
			for _, route := range limitRoutes() {
				all.Go(func() {
					if r := route.ran(d, "", "sleep 1.8"); (r.Outcome == "timeout") != layer.held || r.Outcome != "timeout" && r.ExitCode != 0 {
						t.Errorf("%s: %+v, held %v", route.name, r, layer.held)
					}
				})
			}
			all.Wait()
		})
	}
}

// limitsIn writes a policy with a short time.
func (d *daemonRun) limitsIn(path string) {
	d.Helper()
	d.mkdir(filepath.Dir(path))
	d.must(os.Chmod(d.file(path, "[limits]\ntimeout = \"700ms\"\n"), 0o600))
}
