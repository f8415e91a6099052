package test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each variable that stands for a flag does what the flag does, for sbx run and for
// sbx exec, seen by what the command could do. The names are those of the help.
func TestEachVariableHoldsForRunAndExec(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	own, err := os.Readlink("/proc/self/ns/net")
	d.must(err)
	const sh = "sh -c"
	tests := map[string]struct {
		value, command string
		held           func(r result) bool
	}{
		"timeout":       {"600ms", "sleep 1.5", func(r result) bool { return r.Code == 124 }},
		"memory":        {"48MiB", "python3 -c x=bytearray(160<<20)", func(r result) bool { return r.Code != 0 }},
		"pids":          {"8", sh + ` for i in $(seq 60); do sleep 1.2 & done && wait`, func(r result) bool { return r.Code != 0 }},
		"cpu":           {"1s", "python3 -c exec('import time\\nwhile time.process_time()<1.3: pass')", func(r result) bool { return r.Code != 0 }},
		"file-size":     {"1KiB", sh + " head -c 5000 /dev/zero >made-file", func(r result) bool { return r.Code != 0 }},
		"output-limit":  {"10", "printf 0123456789abcdef", func(r result) bool { return r.Stdout == "0123456789" }},
		"syscalls":      {"nonsense", "true", func(r result) bool { return r.Code == 125 && strings.Contains(r.Stderr, "nonsense") }},
		"user":          {"1234", "id -u", func(r result) bool { return r.Stdout == "1234\n" || r.Code == 125 && os.Getuid() != 0 }},
		"tier":          {"base", "readlink /proc/self/ns/net", func(r result) bool { return r.Stdout == own+"\n" }},
		"net":           {"full", "readlink /proc/self/ns/net", func(r result) bool { return r.Stdout == own+"\n" }},
		"no-exec-write": {"1", sh + " cp /bin/true ./copied-COPY && ./copied-COPY", func(r result) bool { return r.Code == 126 }},
		"best-effort":   {"1", "true", nil}, // below: it needs something that is refused without it
		"quiet":         {"1", "false", func(r result) bool { return !strings.Contains(r.Stderr, "sbx: note: false exited") }},
		"verbose":       {"1", "false", func(r result) bool { return strings.Contains(r.Stderr, "SANDBOXD_SOCKET") }},
	}
	help := d.sbxTo(d, "run", "--help").Stdout
	m := regexp.MustCompile(`(?s)A variable stands for .*?--file-size: those of (.*?)\.\n`).FindStringSubmatch(help)
	if m == nil {
		t.Fatalf("the help lists no variables: %s", help)
	}
	names := regexp.MustCompile(`,\s*and with 1 or 0\s+|,\s*|\s+and\s+`).Split(m[1], -1)
	if len(names) != len(tests) {
		t.Errorf("the help names %d variables, %d are tried: %q", len(names), len(tests), names)
	}
	for _, name := range names {
		tt, ok := tests[strings.TrimSpace(name)]
		if !ok {
			t.Errorf("%s is not tried", name)
			continue
		}
		variable := "SANDBOXD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		for _, route := range [][]string{{"run"}, {"exec", "--mode", "bypassPermissions", "--no-ask"}} {
			t.Run(name+"/"+route[0], func(t *testing.T) {
				try := func(flags []string, env ...string) result {
					copied := fmt.Sprintf("%s-%s-%d", name, route[0], len(env))
					argv := strings.Fields(tt.command)
					if strings.HasPrefix(tt.command, sh) || strings.HasPrefix(tt.command, "python3 -c ") {
						argv = strings.SplitN(strings.ReplaceAll(tt.command, "COPY", copied), " ", 3)
					}
					c := d.toDaemon(d, append(append(append(slices.Clone(route), flags...), "--"), argv...)...)
					c.Env = append(c.Env, env...)
					return d.finish(c)
				}
				if name == "best-effort" {
					// The base tier cannot hide a file of the workspace.
					flags := []string{"--tier", "base", "--deny", d.file(d.Work+"/hidden", "x")}
					if r := try(flags); r.Code != 125 {
						t.Errorf("without the variable: %+v", r)
					}
					if r := try(flags, variable+"="+tt.value); r.Code != 0 {
						t.Errorf("with %s=%s: %+v", variable, tt.value, r)
					}
					return
				}
				if r := try(nil); tt.held(r) {
					t.Errorf("without the variable: %+v", r)
				}
				if r := try(nil, variable+"="+tt.value); !tt.held(r) {
					t.Errorf("with %s=%s: %+v", variable, tt.value, r)
				}
			})
		}
	}
	t.Run("a flag outranks it", func(t *testing.T) {
		c := d.toDaemon(d, "exec", "--mode", "bypassPermissions", "--timeout", "1m", "--", "sleep", "0.5")
		c.Env = append(c.Env, "SANDBOXD_TIMEOUT=100ms")
		if r := d.finish(c); r.Code != 0 {
			t.Errorf("%+v", r)
		}
		c = d.toDaemon(d, "exec", "--", "touch", "ran")
		c.Env = append(c.Env, "SANDBOXD_TIMEOUT=soon")
		if r := d.finish(c); r.Code != 125 || !strings.Contains(r.Stderr, `SANDBOXD_TIMEOUT stands for --timeout: `) || exists(d.Work+"/ran") {
			t.Errorf("%+v", r)
		}
	})
}

// The variables of limits and of the network hold for an agent's calls too; that of the
// time of one command does not stand for a flag of sbx agent.
func TestVariablesHoldForAgents(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	c := d.agent(d, `
steps:
  - calls: [{tool: run_bash, args: {command: "head -c 5000 /dev/zero > big; wc -c < big; sleep 0.5; echo end > ended"}}]
  - say: done
`, "--mode", "bypassPermissions", "go")
	c.Env = append(c.Env, "SANDBOXD_FILE_SIZE=1KiB", "SANDBOXD_TIMEOUT=200ms")
	r := d.finish(c)
	if n := len(d.content(d.Work + "/big")); r.Code != 0 || n == 0 || n > 1024 || !exists(d.Work+"/ended") {
		t.Errorf("%d bytes, %+v", n, r)
	}
}
