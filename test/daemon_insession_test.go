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
		{[]string{"--ro", "/srv"}, `grant.paths[0]: ro "/srv"`},
		{[]string{"--rw", "/srv"}, `grant.paths[0]: rw "/srv"`},
		{[]string{"--unprotect", ".git/config"}, "grant.paths[0]: unprotect"},
		{[]string{"--net", "full"}, "grant.network"},
		{[]string{"--unix", "/run/x.sock"}, "grant.unix"},
		{[]string{"--env", "NAME"}, "grant.env_pass"},
		{[]string{"--env", "NAME=value"}, "grant.env_set"},
		{[]string{"--policy", "p.toml"}, "policy"},
		{[]string{"--profile", "p.toml"}, "profile"},
		{[]string{"--mode", "plan"}, "mode"},
		{[]string{"--syscalls", "debug"}, "grant.syscalls"},
		{[]string{"--user", "caller"}, "grant.user"},
		{[]string{"--workspace", d.Work}, "grant.workspace"},
	} {
		r := in(tt.flags, "touch", "acted")
		if r.Code != 125 && r.Code != 2 || !strings.Contains(r.Stderr, tt.field) || !strings.Contains(r.Stderr, "cannot be applied in a session") || exists(d.Work+"/acted") {
			t.Errorf("%q: exit %d, %s, it ran: %v", tt.flags, r.Code, clip(r.Stderr), exists(d.Work+"/acted"))
		}
	}
	body := `{"session_id":"` + session + `","argv":["touch","acted"],"cwd":"` + d.Work + `","env":["A=b"]}`
	if os.Getuid() == d.uid {
		if text, code := d.request("POST", "/api/exec", body); code != 400 || !strings.Contains(text, "env cannot be applied") || exists(d.Work+"/acted") {
			t.Errorf("env by the API: %d %s", code, text)
		}
	}
}
