package policy

import "testing"

func TestOneProgramByAnyName(t *testing.T) {
	dir, cfg := tree(t)
	for _, tt := range []struct {
		rule      string
		bad, good []string
	}{
		{"run_bash(git push*)", []string{"git push", "git-push", "/usr/lib/git-core/git-push", "/usr/lib/git-core/git-push origin", "/usr/lib/git-core/git push", "busybox sh -c 'git push'", "env -S 'git push'", "command git push", "exec git push", "exec -a x git push", "(exec -a x git-push)"},
			[]string{"git pull", "git-pull", "git status", "echo git push", "/usr/lib/git-core/git-status"}},
		{"run_bash(rm *)", []string{"busybox rm x", "toybox rm x", "grm x", "/bin/rm x", "env -S 'rm x'", "command -p rm x"}, []string{"busybox ls", "gls"}},
		{"run_bash(python *)", []string{"python3 x.py", "python3.11 x.py", "python2.7 x.py", "/usr/bin/python3.13 x.py", "env python3 x.py"}, []string{"pythonx x.py", "perl x.pl"}},
		{"run_bash(python3 *)", []string{"python x.py", "python3.11 x.py"}, []string{"node x.js"}},
		{"run_bash(pip install *)", []string{"pip3 install x", "pip3.11 install x", "pip-3 install x", "python -m pip install x", "python3 -mpip install x", "python3.12 -I -m pip install x", "python3 -W ignore -m pip install x"}, []string{"pip list", "python3 -m pip list", "python3 -m pipx install x"}},
		{"run_bash(pytest*)", []string{"python -m pytest", "python3 -m pytest -x"}, []string{"python -m unittest"}},
		{"run_bash(gcc *)", []string{"gcc-12 x.c", "cc x.c", "/usr/bin/gcc-13 x.c", "clang x.c"}, []string{"go build"}},
		{"run_bash(g++ *)", []string{"c++ x.cc", "g++-12 x.cc"}, []string{"gcc x.c"}},
		{"run_bash(nc *)", []string{"ncat h 1", "netcat h 1", "busybox nc h 1"}, []string{"ncdu"}},
		{"effect(exec python3)", []string{"python x.py", "python3.11 x.py"}, []string{"perl x.pl"}},
		{"run_bash(awk *)", []string{"gawk 1 x", "mawk 1 x"}, []string{"sed -n 1p a.go"}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			e := engine(t, cfg, deny(tt.rule))
			refused(t, e, dir, tt.bad, tt.good)
			for _, s := range tt.bad {
				if d := e.Check(t.Context(), BashCall(s, dir)); d.Verdict != Deny {
					t.Errorf("%q: %v, want deny", s, d.Verdict)
				}
			}
		})
	}
	// An allow rule matches as written.
	cfg.Default = Ask
	e := engine(t, cfg, allow("run_bash(pip install *)"), allow("run_bash(python3 x.py)"))
	for _, s := range []string{"pip3 install x", "python -m pip install x", "python x.py"} {
		if d := e.Check(t.Context(), BashCall(s, dir)); d.Verdict != Ask {
			t.Errorf("%q: %v, want ask", s, d.Verdict)
		}
	}
}

func TestProgramsRunInsideTheRoots(t *testing.T) {
	dir, cfg := tree(t)
	e := engine(t, cfg)
	refused(t, e, dir, []string{
		"cd /etc && make", "cd /srv; prog", "cd /; python3 x.py", "pushd /etc; prog", "(cd /var/lib && ./x)", "env -C /etc prog", "cd /etc && git init", "cd /srv && sqlite3 x 'create table t(a)'", "cd /srv && unzip x", "cd /usr/share && npm install",
		"cd /srv && nohup prog", "sh -c 'cd /srv && make'", "cd /srv; timeout 5 make",
	}, []string{
		"cd /etc && ls", "cd /usr/share && grep -r x doc | head", "cd src && make", "cd /tmp && prog", "cd /etc && cat hosts; cd - >/dev/null", "cd /usr && timeout 5 ls", "ssh h.test 'cd /srv && make'", "docker exec c sh -c 'cd /app && make'", "cd " + dir + "/src && go test ./...",
	})
	// The start directory of a call counts alike.
	for _, cwd := range []string{"/etc", "/nope", "/", "/etc/../etc"} {
		refused(t, e, cwd, []string{"make", "prog x", "git init", "python3 x.py"}, []string{"ls", "echo x"})
		d := e.Check(t.Context(), BashCall("make", cwd))
		if r, ok := d.Reason.(SafetyReason); d.Verdict != Ask || !ok || r.Check != "working-dir" {
			t.Errorf("make in %q: %v (%v)", cwd, d.Verdict, d.Reason)
		}
	}
	for _, cwd := range []string{dir, dir + "/src", dir + "/none", "/tmp", ""} {
		refused(t, e, cwd, nil, []string{"ls", "make"})
	}
}
