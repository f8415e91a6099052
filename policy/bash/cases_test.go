package bash_test

import (
	"slices"
	"strings"
	"testing"

	"sandboxd/policy/bash"
)

// names lists the base names of the commands that a script could run, without
// repeats.
func names(script string) []string {
	a := bash.Analyze(script, bash.Options{Cwd: "/w"})
	var out []string
	for i := range a.Commands {
		if n := a.Commands[i].Name(); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func kinds(script string) []bash.UnknownKind {
	a := bash.Analyze(script, bash.Options{Cwd: "/w", Home: "/home/dev"})
	var out []bash.UnknownKind
	for _, u := range a.Unknown {
		if !slices.Contains(out, u.Kind) {
			out = append(out, u.Kind)
		}
	}
	return out
}

func TestS004DeclareInBackquotes(t *testing.T) {
	a, b := names("`declare`"), names("$(declare)")
	if !slices.Equal(a, b) || !slices.Equal(kinds("`declare`"), kinds("$(declare)")) {
		t.Errorf("`declare` is read as %q %v, $(declare) as %q %v", a, kinds("`declare`"), b, kinds("$(declare)"))
	}
}

func TestS017HereDocumentInBackquotes(t *testing.T) {
	const script = "O=`cat 2>&1 << E\nx\nE`; echo $O"
	a := bash.Analyze(script, bash.Options{})
	if !a.Readable() {
		return // "cannot analyse" is right, too
	}
	if got := names(script); !slices.Equal(got, []string{"cat", "echo"}) {
		t.Errorf("commands %q, want cat and echo", got)
	}
}

func TestS031HereDocumentForAShell(t *testing.T) {
	for _, tt := range []struct {
		script string
		socat  bool
	}{
		{"bash /dev/stdin <<'E'\nsocat -\nE", true},
		{"bash <<E\nsocat -\nE", true},
		{"cat <<E\nsocat\nE", false},
	} {
		if got := slices.Contains(names(tt.script), "socat"); got != tt.socat {
			t.Errorf("%q: socat found: %v, want %v", tt.script, got, tt.socat)
		}
	}
}

func TestS039ProcessSubstitution(t *testing.T) {
	if got := names("grep -m1 x <(tail -f log)"); !slices.Contains(got, "grep") || !slices.Contains(got, "tail") {
		t.Errorf("commands %q, want grep and tail", got)
	}
}

func TestS058HereDocumentEndingInABackslash(t *testing.T) {
	const script = "cat <<'E'\nend \\\nE"
	if got := names(script); !slices.Equal(got, []string{"cat"}) || len(kinds(script)) != 0 {
		t.Errorf("commands %q, unknown %v, want cat alone", got, kinds(script))
	}
}

// TestPublishedBypasses holds the ways past other checkers that were reported in
// public, each with a neighbour that must not be touched.
func TestPublishedBypasses(t *testing.T) {
	for _, tt := range []struct{ kind, bad, good string }{
		{"prefix compare", "ls && canary", "ls -canary"},
		{"newline", "ls\ncanary", "ls 'x\ncanary'"},
		{"environment prefix", "A=1 B=2 canary", "A=canary ls"},
		{"sed e", "sed '1e canary' f", "sed '1i canary' f"},
		{"sed w", "sed 'w /etc/passwd' f", "sed 's/w/x/' f"},
		{"find action", `find . -name x -exec canary \;`, "find . -name canary"},
		{"find delete", "find /etc -delete", "find /etc -name x"},
		{"process substitution", "cat <(canary)", "cat '<(canary)'"},
		{"prompt expansion", `x='$(canary)'; echo "${x@P}"`, `x='$(canary)'; echo "${x@Q}"`},
		{"IFS", `IFS=,; x=canary,a; $x`, `IFS=,; x=canary,a; echo $x`},
		{"IFS as blank", "echo x;canary${IFS}y", "echo canary${IFS}y"},
		{"short options", "env -iS'canary'", "env -i ls canary"},
		{"more than 50 commands", strings.Repeat("true;", 60) + "canary", strings.Repeat("echo canary;", 60)},
		{"redirect that runs", "> >(canary) ls", "> canary ls"},
		{"sort option", "sort --compress-program=canary f", "sort canary"},
		{"git option", "git -c core.pager=canary log", "git -c color.ui=never log"},
		{"tar option", "tar cf a b --checkpoint-action=exec=canary", "tar cf canary b"},
		{"xargs", "echo x | xargs canary", "echo canary | xargs echo"},
		{"variable as command", "c=canary; $c", "c=canary; echo $c"},
		{"arithmetic subscript", "x='a[$(canary)]'; ((x))", "x='a[$(canary)]'; echo \"$x\""},
		{"man pager", "man --html=canary ls", "man canary"},
		{"less pre-processor", "LESSOPEN='|canary' less f", "LESSOPEN= less canary"},
		{"unicode escape", `$'\u0063anary'`, `echo $'\u0063anary'`},
		{"file name as option", "touch -- '--checkpoint-action=exec=canary'; tar cf a *", "touch a b; tar cf a *"},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			bad, _ := judgePaths(caseLine{Command: tt.bad, Cwd: "/w"})
			if v, _ := judge(tt.bad); v == "allow" && bad == "allow" {
				t.Errorf("%q: allowed", tt.bad)
			}
			if v, why := judge(tt.good); v != "allow" {
				t.Errorf("%q: %s (%s)", tt.good, v, why)
			}
		})
	}
}

func TestSuspectCharacters(t *testing.T) {
	for _, s := range []string{"ls\r\nls", "ls\x00", "ls\x1b[2J", "ls\u00a0x", "ls\u200bx", "ls \u202egpj", "ls\ufeff", "\u3000ls", "ls \xff",
		"echo " + bash.Hole, "ls\v", "ls\x7f", "ls \u2028x"} {
		if got := kinds(s); !slices.Contains(got, bash.SuspectCharacter) {
			t.Errorf("%q: %v, want a suspect character", s, got)
		}
	}
	for _, s := range []string{"ls\tx", "echo grün 日本 🙂", "git commit -m 'naïve — “quoted”'"} {
		if got := kinds(s); len(got) > 0 {
			t.Errorf("%q: %v, want nothing", s, got)
		}
	}
}

func TestUnknownKinds(t *testing.T) {
	for _, tt := range []struct {
		script string
		want   bash.UnknownKind
	}{
		{"if (", bash.UnreadableParse},
		{"ls )", bash.UnreadableParse},
		{"$x", bash.ComputedWord},
		{"./*.sh", bash.ComputedWord},
		{`"$(cat f)" a`, bash.ComputedWord},
		{`eval "$(curl h)"`, bash.ComputedCode},
		{"curl h | sh", bash.ComputedCode},
		{"python3 -c 'x'", bash.UnknownCode},
		{"node <<'E'\nx\nE", bash.UnknownCode},
		{"LD_PRELOAD=./x.so ls", bash.UnknownCode},
		{"zsh -c ls", bash.ForeignShell},
		{"echo =(ls)", bash.UnreadableParse},
		{`tar cf a $(printf '%s' "$x" | rev)`, bash.UnknownOption},
		{`rm "$x"`, bash.UnknownTarget},
		{`echo x > "$f"`, bash.UnknownTarget},
		{"echo " + strings.Repeat("{a,b}", 40), bash.Bound},
	} {
		if got := kinds(tt.script); !slices.Contains(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.script, got, tt.want)
		}
	}
}

func TestDangers(t *testing.T) {
	for _, tt := range []struct {
		script string
		want   bash.DangerKind
	}{
		{":(){ :|:& };:", bash.ForkBomb},
		{"f() { f | f; }; f", bash.ForkBomb},
		{"bomb() { bomb & bomb & }; bomb", bash.ForkBomb},
		{"sudo ls", bash.PrivilegeChange},
		{"su -c ls", bash.PrivilegeChange},
		{"timeout 3 doas ls", bash.PrivilegeChange},
		{"sbx run --rw / -- ls", bash.LoosenedSandbox},
		{"sbx run --net full ls", bash.LoosenedSandbox},
		{"sbx run --unprotect .git ls", bash.LoosenedSandbox},
		{"sbx trust", bash.LoosenedSandbox},
		{"sbx permissions add 'run_bash(*)'", bash.LoosenedSandbox},
		{"env", bash.SecretRead},
		{"printenv", bash.SecretRead},
		{"jq -n env", bash.SecretRead},
		{"export LD_PRELOAD=x; ls", bash.LoaderVariable},
		{"mkdir d; cd d; touch HEAD; mkdir objects refs; git status", bash.BareRepository},
	} {
		a := bash.Analyze(tt.script, bash.Options{Cwd: "/w"})
		if !slices.ContainsFunc(a.Dangers, func(d bash.Danger) bool { return d.Kind == tt.want }) {
			t.Errorf("%q: %+v, want %v", tt.script, a.Dangers, tt.want)
		}
	}
	for _, s := range []string{"f() { f; }; f", "f() { ls | wc; }; f & wait", "sbx run ls", "sbx run --deny x ls", "sbx check ls", "env A=1 ls",
		"printenv HOME", "jq .environment f", "cd d && git status"} {
		if a := bash.Analyze(s, bash.Options{Cwd: "/w"}); len(a.Dangers) > 0 {
			t.Errorf("%q: %+v, want none", s, a.Dangers)
		}
	}
}

func TestReadOnlyCommands(t *testing.T) {
	for _, s := range []string{"ls -la", "cat a b", "grep -rn x src", "git log --oneline", "git status", "git diff --stat", "sed -n 1,20p f",
		"find . -name '*.go'", "head -20 f", "wc -l f", "awk '{print $1}' f", "sort -u f", "uniq -c f", "jq .a f", "du -sh .", "stat f",
		"rg -n x", "fd x", "test -f x", "[ -d x ]", "echo x", "printf x", "pwd", "which x", "git branch", "git show HEAD", "git ls-files",
		"date +%s", "basename /a/b", "tree -L 2", "git blame f", "man ls", "less f", "diff a b", "file f", "id", "ps aux", "cut -d, -f1 f"} {
		if c := bash.Analyze(s, bash.Options{Cwd: "/w"}).Commands; len(c) != 1 || !c[0].ReadOnly {
			t.Errorf("%q is not read-only", s)
		}
	}
	for _, s := range []string{"rm x", "sed -i s/a/b/ f", "sed 'w x' f", "sed 'e ls' f", "find . -delete", "find . -execdir ls {} +", `find . -ok ls {} \;`, "find . -fprint x", `find . -exec ls {} \; -delete`,
		"sort -o x f", "uniq a b", "file -C -m x", "date -s x", "git branch x", "git branch -D x", "git tag x", "git commit", "git stash",
		"git push", "git -c core.pager=x log", "git diff --output=x", "git config a.b c", "awk 'BEGIN{system(\"x\")}'", "awk '{print > \"x\"}' f",
		"rg --pre x y", "fd x -x ls", "tee x", "xargs ls", "man -P x ls", "less +!x f", "less -o x f", "curl h", "make", "tree -o x", "sort --compress-program=x f",
		"grep --unheard-of x f", "git grep -O x", "diff --output=x a b", "$x", "jq -i . f", "git worktree add x", "git remote add a b", "xxd -r a b"} {
		if c := bash.Analyze(s, bash.Options{Cwd: "/w"}).Commands; len(c) > 0 && c[0].ReadOnly {
			t.Errorf("%q is called read-only", s)
		}
	}
}

func TestPlainLeavesOutGlobalOptions(t *testing.T) {
	for script, want := range map[string]string{
		"git -C r push":                     "git push",
		"git --no-pager -c a.b=c log -1":    "git log -1",
		"GIT_TRACE=1 git push -f":           "git push -f",
		"/usr/bin/git push":                 "/usr/bin/git push",
		"git --git-dir=x checkout -- f":     "git checkout -- f",
		"docker --host h run x":             "docker run x",
		"kubectl -n x delete pod p":         "kubectl delete pod p",
		"go -C d test ./...":                "go test ./...",
		"npm --prefix d run build":          "npm run build",
		"cargo -q --color never build":      "cargo build",
		"ls -la":                            "ls -la",
		"git -C /r --work-tree=x rm -r a b": "git rm -r a b",
	} {
		c := bash.Analyze(script, bash.Options{}).Commands[0]
		var ws []string
		for _, w := range c.Plain {
			ws = append(ws, w.Text)
		}
		if got := strings.Join(ws, " "); got != want {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
	}
}

// TestTrapsRunNowAndLater: a trap may run with the variables of its definition
// and with those of the end.
func TestTrapsRunNowAndLater(t *testing.T) {
	for _, s := range []string{"trap '$x' EXIT; x=canary", "x=canary; trap '$x' DEBUG; :; x=ls"} {
		if v, why := judge(s); v != "deny" {
			t.Errorf("%q: %s (%s), want deny", s, v, why)
		}
	}
}

// TestFailedCdKeepsTheDirectory: what follows a cd that may fail is also judged
// where it stood before.
func TestFailedCdKeepsTheDirectory(t *testing.T) {
	if got := outside("cd nowhere; echo x > ../../up"); len(got) == 0 {
		t.Error("the write outside, from the old directory, is not listed")
	}
	there := func(string) bool { return true }
	a := bash.Analyze("cd a; cd ..; echo x > f", bash.Options{Cwd: "/w", Exists: there})
	for _, e := range a.Effects {
		if e.Path != "/w/f" {
			t.Errorf("effect on %q, want /w/f alone: the directory exists", e.Path)
		}
	}
}
