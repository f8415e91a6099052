package test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	makeRepository = "git init -q -b main . && echo a >a && git add a && git commit -qm first"
	upstream       = "mkdir up && git -C up init -q -b main && (cd up && echo a >a && git add a && git commit -qm first)"
)

func gitTools() []tool {
	git := []string{"git"}
	full := func(part string) map[string]string { return map[string]string{"full": part} }
	return []tool{
		{name: "git init and commit", needs: git, script: makeRepository + " && git log --format=%s:%an", want: "first:A Caller"},
		{name: "git clone", needs: git, before: upstream, script: "git clone -q up down && cat down/a && cd down && echo b >b && git add b && git commit -qm two && git log --oneline | wc -l", want: "2"},
		{name: "git branch and merge", needs: git, before: makeRepository,
			script: "git switch -qc side && echo b >b && git add b && git commit -qm side && git switch -q main && echo c >c && git add c && git commit -qm c && git merge -q --no-edit side && ls | tr '\\n' ' '", want: "a b c"},
		{name: "git rebase", needs: git, before: makeRepository,
			script: "git switch -qc side && echo b >b && git add b && git commit -qm side && git switch -q main && echo c >c && git add c && git commit -qm c && git switch -q side && git rebase -q main && git log --format=%s | tr '\\n' ' '", want: "side c first"},
		{name: "git stash", needs: git, before: makeRepository, script: "echo b >>a && git stash -q && cat a && git stash pop -q && cat a | tr '\\n' ' '", want: "a b"},
		{name: "git gc", needs: git, before: makeRepository, script: "git gc -q && git repack -adq && git fsck && git count-objects -v", want: "packs: 1"},
		{name: "git worktree", needs: git, before: makeRepository, script: "git worktree add -q tree && cd tree && echo b >b && git add b && git commit -qm tree && cd .. && git worktree list | wc -l && git worktree remove tree && git worktree list | wc -l", want: "2\n1"},
		{name: "git tag and bisect", needs: git, before: makeRepository, script: "git tag v1 && git tag -am note v2 && git notes add -m n && git bisect start && git bisect reset && git tag | tr '\\n' ' '", want: "v1 v2"},
		{name: "git push to a path", needs: git, before: "git init -q --bare -b main bare.git && git init -q -b main . && git remote add origin bare.git",
			script: "echo a >a && git add a && git commit -qm first && git push -q origin main && git -C bare.git log --format=%s main", want: "first"},
		{name: "git config", needs: git, before: makeRepository, script: "git config user.nick x", refused: full(""), says: []string{"--unprotect", ".git/config"}},
		{name: "git remote add", needs: git, before: makeRepository, script: "git remote add o /x", refused: full(""), says: []string{"--unprotect", ".git/config"}},
		{name: "git branch -m", needs: git, before: makeRepository, script: "git branch -m other", refused: full(""), says: []string{"--unprotect", ".git/config"}},
		{name: "git config granted", needs: git, flags: []string{"--unprotect", ".git/config"}, before: makeRepository,
			script: "git config user.nick x && git remote add o /x && git branch -m other && git config user.nick && git remote", want: "x\no"},
	}
}

func languageTools() []tool {
	const goMod, goMain = "module m\n\ngo 1.26\n", "package main\n\nfunc main() { println(sum(1, 1)) }\n\nfunc sum(a, b int) int { return a + b }\n"
	const goTest = "package main\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif sum(1, 1) != 2 {\n\t\tt.Fatal()\n\t}\n}\n"
	python, node := []string{"python3"}, []string{"node"}
	return []tool{
		{name: "go build and test", needs: []string{"go"}, files: map[string]string{"go.mod": goMod, "m.go": goMain, "m_test.go": goTest},
			script: "go build -o m . && ./m 2>&1 && go vet . && go test .", want: "ok"},
		{name: "gcc and make", needs: []string{"gcc", "make"}, files: map[string]string{"a.c": "#include <stdio.h>\nint main(void){puts(\"built\");return 0;}\n", "Makefile": "all: a\na: a.o\n\tgcc -o $@ $^\n"},
			script: "make -s -j2 CC=gcc && ./a", want: "built"},
		{name: "python venv", needs: python, script: "python3 -m venv v && v/bin/python -c 'import sys; print(sys.prefix)' && v/bin/pip --version", want: "/v"},
		{name: "python unittest", needs: python, files: map[string]string{"test_a.py": "import unittest, tempfile\nclass T(unittest.TestCase):\n  def test(self):\n    with tempfile.TemporaryDirectory() as d: self.assertTrue(d)\n"},
			script: "python3 -m unittest 2>&1", want: "OK"},
		{name: "python multiprocessing", needs: python, files: map[string]string{"a.py": "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n  with m.Pool(2) as p: print(p.map(f, [1, 2, 3]))\n"},
			script: "python3 a.py", want: "[1, 4, 9]", refused: map[string]string{"base": "/dev/shm"}},
		{name: "python subprocess and threads", needs: python, files: map[string]string{"a.py": "import subprocess, concurrent.futures as c\nwith c.ThreadPoolExecutor(4) as e: print(list(e.map(lambda n: subprocess.check_output(['echo', str(n)]).decode().strip(), range(4))))\n"},
			script: "python3 a.py", want: "['0', '1', '2', '3']"},
		{name: "sqlite", needs: python, files: map[string]string{"a.py": "import sqlite3\nc = sqlite3.connect('a.db')\nprint(c.execute('pragma journal_mode=wal').fetchone())\nc.execute('create table t(a)')\nc.execute('insert into t values (41)')\nc.commit()\nprint(sqlite3.connect('a.db').execute('select a + 1 from t').fetchone())\n"},
			script: "python3 a.py && ls", want: "(42,)"},
		{name: "node test", needs: node, files: map[string]string{"a.test.js": "const t = require('node:test');\nt('one', () => {});\n"},
			script: "node --test", want: "pass 1"},
		{name: "npm install of a tarball", needs: []string{"node", "npm"}, files: map[string]string{"p/package.json": `{"name":"p","version":"1.0.0"}`, "p/index.js": "module.exports = 42\n", "q/package.json": `{"name":"q","version":"1.0.0"}`},
			script: "(cd p && npm pack --silent) && cd q && npm install --silent ../p/p-1.0.0.tgz && node -p 'require(\"p\")'", want: "42"},
		{name: "cargo build", needs: []string{"cargo"}, files: map[string]string{"Cargo.toml": "[package]\nname = \"c\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/main.rs": "fn main() { println!(\"built\"); }\n"},
			script: "cargo build -q && ./target/debug/c", want: "built"},
	}
}

func serviceTools() []tool {
	const agent = "eval $(ssh-agent) >/dev/null; trap 'ssh-agent -k >/dev/null' EXIT; ssh-keygen -q -t ed25519 -N '' -f key && ssh-add -q key && ssh-add -l"
	return []tool{
		{name: "ssh-agent", needs: []string{"ssh-agent"}, script: agent, want: "ED25519", refused: map[string]string{"base": ""}},
		{name: "ssh-agent with sockets", needs: []string{"ssh-agent"}, flags: []string{"--unix", "%W"}, script: agent, want: "ED25519"},
		{name: "http server and client", needs: []string{"python3"}, files: map[string]string{"page": "hello\n"},
			script: "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & for i in $(seq 20); do python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123/page\").read())' 2>/dev/null && exit 0; sleep 0.3; done; exit 1",
			want:   "hello", refused: map[string]string{"base": "loopback"}},
		{name: "postgres", needs: []string{"initdb", "pg_ctl", "psql"}, ordinary: true, refused: map[string]string{"base": "System V"},
			script: "initdb -D data -A trust >/dev/null && mkdir s && pg_ctl -D data -w -o \"-c listen_addresses= -k $PWD/s\" -l log start >/dev/null && psql -h $PWD/s postgres -Atc 'select 41 + 1' && pg_ctl -D data -m fast stop >/dev/null", want: "42"},
		{name: "tar and find", needs: []string{"tar", "find"}, files: map[string]string{"d/a": "a\n", "d/b": "b\n"},
			script: "tar czf d.tgz d && rm -r d && tar xzf d.tgz && find . -name '[ab]' | sort | tr '\\n' ' '", want: "./d/a ./d/b"},
		{name: "bash pipelines", needs: []string{"bash"},
			script: "seq 1000 | sort -rn | head -3 | paste -sd+ | { read x; echo $((x)); }; diff <(echo a) <(echo a); cat <<<word | tee f | tr a-z A-Z; set -o pipefail; false | true || echo failed", want: "2997\nWORD\nfailed"},
		{name: "temporary files", needs: []string{"bash"}, script: "f=$(mktemp) && echo x >$f && cat $f && printf '#!/bin/sh\\necho ran\\n' >$f && chmod +x $f && $f && rm $f", want: "ran"},
	}
}

// A toolchain below the caller's home is in view, with what lies beside it not.
func TestToolchainBelowTheHome(t *testing.T) {
	for _, uid := range users() {
		for _, tier := range tiers() {
			t.Run(fmt.Sprintf("uid%d/%s", uid, tier), func(t *testing.T) {
				s := newScene(t, uid, tier)
				s.file(s.Home+"/.secret", s.Token)
				s.file(s.Home+"/.tools/mytool-1.2/share/data", "its own data\n")
				s.file(s.Home+"/.tools/mytool-1.2/bin/mytool", "#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")\"/../share/data\n")
				s.must(os.Chmod(s.Home+"/.tools/mytool-1.2/bin/mytool", 0o755))
				s.link("../../.tools/mytool-1.2/bin/mytool", s.Home+"/.local/bin/mytool")
				s.Env = []string{"PATH=" + s.Home + "/.local/bin:" + systemPath()}
				if r := s.plain("/usr/bin/python3", "-m", "venv", "--without-pip", s.Home+"/.venvs/v"); r.Code != 0 {
					t.Fatalf("no venv: %s", r.Stderr)
				}
				s.Env[0] = "PATH=" + s.Home + "/.venvs/v/bin:" + s.Home + "/.local/bin:" + systemPath()
				r := s.sbx(nil, "bash", "-ec", "mytool; python -c 'import sys; print(sys.prefix)'; cat ~/.secret "+s.Home+"/.secret || true")
				if r.Code != 0 || !strings.Contains(r.Stdout, "its own data") || !strings.Contains(r.Stdout, "/.venvs/v") {
					t.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
				}
				if leaks(s, r) {
					t.Error("the home's secret is readable")
				}
			})
		}
	}
}
