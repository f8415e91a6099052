package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSafeListOfTheDesignDocument is row 102: each of its 34 commands runs
// without a question when it only reads, and not with an argument that makes it
// write, run or tell something.
func TestSafeListOfTheDesignDocument(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg)
	list := []struct{ name, harmless, harmful string }{
		{"ls", "ls -la src", "ls /root"},
		{"cat", "cat src/a", "cat ~/.ssh/id_rsa"},
		{"head", "head -5 src/a", "head /root/x"},
		{"tail", "tail -n 3 src/a", "tail /root/x"},
		{"find", "find . -name '*.go'", `find . -exec touch {} \;`},
		{"grep", "grep -rn x src", "grep -r x /root"},
		{"wc", "wc -l src/a", "wc /root/x"},
		{"echo", "echo hi", "echo hi > src/a"},
		{"pwd", "pwd", "pwd > src/a"},
		{"sort", "sort -u src/a", "sort -o x src/a"},
		{"uniq", "uniq -c src/a", "uniq src/a x"},
		{"cut", "cut -d, -f1 src/a", "cut -f1 /root/x"},
		{"tr", "tr a b < src/a", "tr a b < /root/x"},
		{"awk", "awk '{print $1}' src/a", `awk 'BEGIN{system("date")}'`},
		{"sed", "sed -n 1,20p src/a", "sed -i s/a/b/ src/a"},
		{"jq", "jq .a src/a", "jq -n env"},
		{"diff", "diff src/a src/b", "diff --output=x src/a src/b"},
		{"file", "file src/a", "file -C -m x"},
		{"stat", "stat src/a", "stat /root/x"},
		{"du", "du -sh src", "du /root"},
		{"df", "df -h", "df /root"},
		{"env", "env LC_ALL=C ls", "env"},
		{"printenv", "printenv HOME", "printenv"},
		{"which", "which go", "which go > x"},
		{"basename", "basename src/a", "basename $(touch x)"},
		{"dirname", "dirname src/a", "dirname $(touch x)"},
		{"realpath", "realpath src/a", "realpath /root/x"},
		{"readlink", "readlink src/a", "readlink /root/x"},
		{"xargs", "ls | xargs echo", "ls | xargs touch"},
		{"tee", "", "ls | tee src/a"}, // writes whatever it is for; see below
		{"date", "date +%s", "date -s 12:00"},
		{"sleep", "sleep 1", "sleep 1 > x"},
		{"true", "true", "true > x"},
		{"false", "false", "false > x"},
	}
	if len(list) != 34 {
		t.Errorf("%d commands, want the 34 of the document", len(list))
	}
	for _, c := range list {
		if d := e.Check(t.Context(), BashCall(c.harmless, "")); c.harmless != "" && d.Verdict != Allow {
			t.Errorf("%s: %q is %v (%v)", c.name, c.harmless, d.Verdict, d.Reason)
		}
		if d := e.Check(t.Context(), BashCall(c.harmful, "")); d.Verdict == Allow {
			t.Errorf("%s: %q is allowed (%v)", c.name, c.harmful, d.Reason)
		}
	}
	cfg.Mode = ModeAcceptEdits
	verdicts(t, engine(t, cfg), map[string]Verdict{"ls | tee src/a": Allow, "ls | tee src/a /etc/x": Ask, "ls | tee .git/config": Ask})
}

// TestDenyGoesBeforeWhatOnlyReads is row 105: what is on the safe list, or
// allowed, is denied all the same.
func TestDenyGoesBeforeWhatOnlyReads(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, allow("Bash(cat *)"), deny("Bash(cat secret)"), deny("Bash(* --force)"), ask("Bash(ls -R *)"))
	verdicts(t, e, map[string]Verdict{
		"cat secret": Deny, "ls && cat secret": Deny, "cat src/a": Allow, "ls --force": Deny, "ls": Allow, "ls -R src": Ask, "cat secret | head": Deny,
	})
}

// TestUnknownCommandsAsk is row 106.
func TestUnknownCommandsAsk(t *testing.T) {
	_, cfg := place(t)
	verdicts(t, engine(t, cfg), map[string]Verdict{"frobnicate": Ask, "frobnicate x && ls": Ask, "ls | frobnicate": Ask, "./tool": Ask, "make": Ask, "ls": Allow})
	cfg.Mode = ModeDontAsk
	verdicts(t, engine(t, cfg), map[string]Verdict{"frobnicate": Deny, "ls": Allow})
}

// TestEveryOperatorEightDeep is row 114: each part of a compound command is
// checked, however deep, and one deny denies all of it.
func TestEveryOperatorEightDeep(t *testing.T) {
	_, cfg := place(t)
	cfg.Default = Allow
	e := engine(t, cfg, deny("Bash(rm *)"), ask("Bash(git push *)"))
	for _, op := range []string{"&&", "||", "|", "|&", ";", "&", "\n"} {
		for _, wrap := range []string{"( % )", "{ %\n}", "if true; then %\nfi", "while false; do %\ndone", "case x in x) %\n;; esac", "! { %\n}", "time { %\n}", "echo $( % )"} {
			if strings.HasPrefix(wrap, "!") && strings.HasPrefix(op, "|") && op != "||" {
				continue // no Bash: a pipeline is negated as a whole
			}
			nest := func(inner string) string {
				s := inner
				for range 8 {
					s = "true " + op + " " + strings.Replace(wrap, "%", s, 1)
				}
				return s
			}
			verdicts(t, e, map[string]Verdict{nest("rm x"): Deny, nest("git push o"): Ask, nest("ls"): Allow, nest("rm x " + op + " ls"): Deny})
		}
	}
}

// TestEvalAndSourceAreSeen is row 115: what they run is judged, and text or a
// file that cannot be read is asked about even where everything is allowed.
func TestEvalAndSourceAreSeen(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, deny("Bash(rm *)"), allow("Bash"))
	for _, eval := range []string{"eval", "builtin eval", "command eval", "command -p eval", `\eval`, "'ev'al", "eval --", "eval eval"} {
		verdicts(t, e, map[string]Verdict{eval + " rm x": Deny, eval + " 'ls; rm x'": Deny, eval + ` "$(cat x)"`: Ask, eval + " ls": Allow})
	}
	for _, source := range []string{"source", ".", "builtin source", "command .", "command source", `\.`} {
		verdicts(t, e, map[string]Verdict{source + ` <(echo rm x)`: Deny, source + ` "$f"`: Ask, "echo 'rm x' > s.sh; " + source + " ./s.sh": Deny})
	}
	// A file that was there before: a rule or a person decides, not the read-only set.
	verdicts(t, engine(t, cfg), all(Ask, "source env.sh", ". env.sh", "builtin source env.sh", "command . env.sh", "eval frob"))
}

// TestSubstitutionsAreAnalysed is rows 101 and 116: in the command word, in
// words, here-documents, double quotes and arithmetic.
func TestSubstitutionsAreAnalysed(t *testing.T) {
	_, cfg := place(t)
	cfg.Default = Allow
	e := engine(t, cfg, deny("Bash(rm *)"))
	for _, sub := range []string{"$(rm x)", "`rm x`"} {
		for _, place := range []string{"%", "% a", "A=% ls", "echo %", "echo a%b", `echo "a % b"`, "cat <<E\n%\nE", "echo $(( % + 1 ))", "echo ${x:-%}", "(( a[%] ))", "[[ -n % ]]", "echo > f%", "for i in %; do ls; done", "case % in a) ls;; esac", "a=(1 %)", "export A=%", "cat <<<%", "echo ${a/x/%}", "[ x = % ]", "let a=%"} {
			script := strings.Replace(place, "%", sub, 1)
			if d := e.Check(t.Context(), BashCall(script, "")); d.Verdict != Deny {
				t.Errorf("%q: %v (%v), want deny", script, d.Verdict, d.Reason)
			}
		}
		for _, text := range []string{"echo '%'", "cat <<'E'\n%\nE", "# %"} {
			script := strings.Replace(text, "%", sub, 1)
			if d := e.Check(t.Context(), BashCall(script, "")); d.Verdict != Allow {
				t.Errorf("%q: %v (%v), want allow", script, d.Verdict, d.Reason)
			}
		}
	}
	verdicts(t, engine(t, cfg, allow("Bash")), all(Ask, "$(cat x)", "`cat x` y", `"$(cat x)" y`, "$(cat x)/bin/y z$(cat y)"))
}

// TestExpansionsThatRunText is row 117.
func TestExpansionsThatRunText(t *testing.T) {
	_, cfg := place(t)
	cfg.Default = Allow
	e := engine(t, cfg, deny("Bash(rm *)"))
	verdicts(t, e, all(Deny, `x='$(rm x)'; echo "${x@P}"`, `x='$(rm x)'; echo ${x@P}`, `x='a[$(rm x)]'; echo ${!x}`, "echo ${x:=$(rm x)}", "echo ${x:?$(rm x)}", "echo ${x:+$(rm x)}",
		"echo ${x[$(rm x)]}", "echo ${x:$(rm x)}", `x='a[$(rm x)]'; echo $((x))`, "PS4='$(rm x)'; set -x; ls"))
	verdicts(t, e, all(Allow, `x='$(rm x)'; echo "$x"`, `x='$(rm x)'; echo "${x@Q}"`, "x=y; y=z; echo ${!x}", "echo ${x:=a}", "echo ${#x}"))
}

// TestOtherShellsAreNotTakenForBash is row 118.
func TestOtherShellsAreNotTakenForBash(t *testing.T) {
	_, cfg := place(t)
	cfg.Default, cfg.Mode, cfg.Bypass.EnabledAtStart, cfg.Confinement = Allow, ModeBypass, true, FullyConfined
	e := engine(t, cfg, allow("Bash"))
	verdicts(t, e, all(Ask, "zsh -c ls", "zsh -c 'zmodload zsh/net/tcp; ztcp h 1'", "zsh x.zsh", "echo 'zf_rm x' | zsh", "fish -c ls", "tcsh -c ls", "echo ${(e)x}", "ls >>| x", "foo() ls &!"))
	verdicts(t, e, all(Allow, "bash -c ls", "sh -c ls", "dash -c ls", "echo zsh"))
	// In Bash the names of zsh's own builtins are programs like any other.
	cfg.Default, cfg.Mode = Ask, ModeDefault
	verdicts(t, engine(t, cfg), all(Ask, "zmodload x", "ztcp h 1", "zf_rm x", "sysopen x", "zpty a b", "emulate sh"))
}

// TestEnteringABareRepositoryAsks is row 121: git in a directory that the script
// entered and that looks like a bare repository reads that one's settings.
func TestEnteringABareRepositoryAsks(t *testing.T) {
	dir, cfg := place(t)
	for _, name := range []string{"evil/HEAD", "evil/objects/x", "evil/refs/x", "plain/HEAD"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Default = Allow
	e := engine(t, cfg, allow("Bash"))
	verdicts(t, e, all(Ask, "cd evil && git status", "cd evil; git log", "pushd evil; git diff", "cd ./src/../evil && ls && git status", "(cd evil; git status)", "git -C evil status",
		"mkdir d; cd d; touch HEAD; mkdir objects refs; git status"))
	verdicts(t, e, all(Allow, "cd src && git status", "cd plain && git status", "cd evil && ls", "git status"))
}
