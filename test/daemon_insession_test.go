package test

import (
	"os"
	"strings"
	"testing"
)

// Each flag of sbx exec --session is either held or refused by name; none is dropped.
func TestFlagsOfExecInASession(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	d.must(os.MkdirAll(d.Work+"/dir", 0o755))
	d.own(d.Work + "/dir")
	d.file(d.Work+"/dir/note", d.Token)
	d.file(d.Work+"/p.toml", "mode = \"plan\"\n")
	d.file(d.Work+"/prog", "#!/bin/sh\necho ran\n")
	d.must(os.Chmod(d.Work+"/prog", 0o755))
	c := d.toDaemon(d, "sessions", "new", "--mode", "bypassPermissions", "--net", "full")
	r := d.finish(c)
	if r.Code != 0 { // the flags of sessions new may be fewer
		r = d.sbxTo(d, "sessions", "new", "--mode", "bypassPermissions")
	}
	session := strings.TrimSpace(r.Stdout)
	if r.Code != 0 || session == "" {
		t.Fatalf("%+v", r)
	}
	in := func(flags []string, argv ...string) result {
		args := append([]string{"exec", "--quiet", "--session", session}, flags...)
		return d.sbxTo(d, append(append(args, "--"), argv...)...)
	}
	if r := in(nil, "sh", "-c", "cat dir/note; ./prog; echo x >>dir/note; printenv SHELL HOME >/dev/null; pwd"); r.Code == 125 || !strings.HasPrefix(r.Stdout, d.Token+"ran\n") {
		t.Fatalf("without flags: %+v", r)
	}
	for _, tt := range []struct {
		flags []string
		argv  []string
		code  int // 0: it must not succeed
	}{
		{[]string{"--deny", "dir"}, []string{"cat", "dir/note"}, 0},
		{[]string{"--deny", d.Work + "/dir"}, []string{"cat", "dir/note"}, 0},
		{[]string{"--protect", "dir"}, []string{"sh", "-c", "echo x >>dir/note"}, 0},
		{[]string{"--no-exec-write"}, []string{"./prog"}, 0},
		{[]string{"--net", "none"}, []string{"sh", "-c", "! grep -q 'eth0\\|ens\\|enp\\|wlan' /proc/net/dev && exit 7"}, 7},
		{[]string{"--timeout", "300ms"}, []string{"sleep", "30.7"}, 124},
		{[]string{"--file-size", "1KiB"}, []string{"dd", "if=/dev/zero", "of=dir/big", "bs=1M", "count=1"}, 0},
		{[]string{"--pids", "2"}, []string{"sh", "-c", "sleep 0.3 & sleep 0.3 & sleep 0.3 & wait; sleep 0.1"}, 0},
		{[]string{"--output-limit", "1KiB", "--json"}, []string{"seq", "10000"}, -1},
	} {
		r := in(tt.flags, tt.argv...)
		if strings.Contains(r.Stderr, "cannot be applied") || strings.Contains(r.Stdout, d.Token) || tt.code == 0 && r.Code == 0 || tt.code > 0 && r.Code != tt.code {
			t.Errorf("%q %q: exit %d, %s", tt.flags, tt.argv, r.Code, clip(r.Stderr))
		}
		if tt.code == -1 && (r.Code != 0 || !strings.Contains(r.Stdout, `"truncated":true`)) {
			t.Errorf("%q: exit %d, %s", tt.flags, r.Code, clip(r.Stdout))
		}
	}
	for _, tt := range []struct {
		flags []string
		field string
	}{
		{[]string{"--ro", "/srv"}, "--ro"},
		{[]string{"--rw", "/srv"}, "--rw"},
		{[]string{"--unprotect", ".git/config"}, "--unprotect"},
		{[]string{"--net", "full"}, "--net"},
		{[]string{"--unix", "/run/x.sock"}, "--unix"},
		{[]string{"--env", "NAME"}, "--env"},
		{[]string{"--env", "NAME=value"}, "--env"},
		{[]string{"--policy", "p.toml"}, "--policy"},
		{[]string{"--profile", "p.toml"}, "--profile"},
		{[]string{"--mode", "plan"}, "--mode"},
		{[]string{"--syscalls", "debug"}, "--syscalls"},
		{[]string{"--user", "caller"}, "--user"},
		{[]string{"--workspace", d.Work}, "--workspace"},
		{nil, "SANDBOXD_SYSCALLS=debug"},
		{nil, "SANDBOXD_USER=caller"},
		{nil, "SANDBOXD_NET=full"},
	} {
		c := d.toDaemon(d, append(append([]string{"exec", "--quiet", "--session", session}, tt.flags...), "--", "touch", "acted")...)
		name, _, variable := strings.Cut(tt.field, "=")
		if variable {
			c.Env = append(c.Env, tt.field)
		}
		r := d.finish(c)
		if r.Code != 125 || !strings.Contains(r.Stderr, "sbx: error: usage: "+name+" cannot be applied in a session") || exists(d.Work+"/acted") {
			t.Errorf("%q, %s: exit %d, %s, it ran: %v", tt.flags, tt.field, r.Code, clip(r.Stderr), exists(d.Work+"/acted"))
		}
	}
	for field, more := range map[string]string{
		"env": `"env":["A=b"]`, "policy": `"policy":["p.toml"]`, "profile": `"profile":"p.toml"`, "mode": `"mode":"plan"`,
		"grant.workspace": `"grant":{"workspace":"` + d.Work + `"}`, "grant.user": `"grant":{"user":"caller"}`, "grant.unix": `"grant":{"unix":["/run/x.sock"]}`,
		"grant.env_pass": `"grant":{"env_pass":["NAME"]}`, "grant.env_set": `"grant":{"env_set":["NAME=value"]}`, "grant.syscalls": `"grant":{"syscalls":"debug"}`,
		"grant.network": `"grant":{"network":["full"]}`, `grant.paths[0]: ro \"/srv\"`: `"grant":{"paths":[{"path":"/srv","access":"ro"}]}`,
		`grant.paths[0]: rw \"/srv\"`: `"grant":{"paths":[{"path":"/srv","access":"rw"}]}`, `grant.paths[0]: unprotect \"x\"`: `"grant":{"paths":[{"path":"x","access":"unprotect"}]}`,
	} {
		body := `{"session_id":"` + session + `","argv":["touch","acted"],"cwd":"` + d.Work + `",` + more + `}`
		if text, code := d.request("POST", "/api/exec", body); code != 400 || !strings.Contains(text, field+" cannot be applied") || exists(d.Work+"/acted") {
			t.Errorf("%s by the API: %d %s", field, code, text)
		}
	}
}
