package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestExamplesAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name     string
		pattern  string
		kind     Kind
		match    []string
		notMatch []string
		ok       bool
	}{
		{"right", "run_bash(git push --force*)", DenyRule, []string{"git push --force origin x", "git push origin -f"}, []string{"git push origin x"}, true},
		{"match that does not", "run_bash(git push --force*)", DenyRule, []string{"git push origin x"}, nil, false},
		{"not_match that does", "run_bash(git *)", AskRule, nil, []string{"git log"}, false},
		{"path", "read_file(.env)", DenyRule, []string{".env", "a/.env"}, []string{"x.env"}, true},
		{"host", "web_fetch(*.a.test)", AllowRule, []string{"https://b.a.test/"}, []string{"https://a.test/"}, true},
		{"effect", "effect(write /etc/**)", DenyRule, []string{"/etc/passwd"}, []string{"/tmp/x"}, true},
		{"effect, delete", "effect(delete ./keep)", DenyRule, []string{"keep"}, []string{"drop"}, true},
		{"agent", "Agent(Explore)", DenyRule, []string{"Explore"}, []string{"Plan"}, true},
		{"server", "mcp__s__query(drop *)", DenyRule, []string{"drop table"}, []string{"select 1"}, true},
	} {
		_, err := NewRuleSet([]Rule{{Kind: tt.kind, Pattern: tt.pattern, Match: tt.match, NotMatch: tt.notMatch}}, Base{Workspace: "/w"})
		example, isExample := errors.AsType[*ExampleError](err)
		if (err == nil) != tt.ok || err != nil && !isExample {
			t.Errorf("%s: %v", tt.name, err)
		}
		if isExample && example.WantMatch != (len(tt.match) > 0) {
			t.Errorf("%s: %+v", tt.name, example)
		}
	}
}

// verdicts checks scripts against one configuration.
func verdicts(t *testing.T, e *Engine, want map[string]Verdict) {
	t.Helper()
	for script, v := range want {
		if d := e.Check(t.Context(), BashCall(script, "")); d.Verdict != v {
			t.Errorf("%.100q: %v (%.100v), want %v", script, d.Verdict, d.Reason.String(), v)
		}
	}
}

func all(v Verdict, scripts ...string) map[string]Verdict {
	m := map[string]Verdict{}
	for _, s := range scripts {
		m[s] = v
	}
	return m
}

func TestCasesFromTheField(t *testing.T) {
	_, cfg := place(t)
	open := cfg
	open.Default = Allow
	t.Run("S001 git push in every spelling asks", func(t *testing.T) {
		e := engine(t, open, ask("Bash(git push*)"))
		verdicts(t, e, all(Ask, "git -C /r push", "GIT_TRACE=1 git push", "cd /r && git push", "git --no-pager push", "command git push", "/usr/bin/git push"))
		verdicts(t, e, all(Allow, "git status", "echo git push"))
	})
	t.Run("S032 an option before the sub-command does not hide it", func(t *testing.T) {
		e := engine(t, open, deny("Bash(git checkout -- *)"), allow("Bash(git checkout *)"))
		verdicts(t, e, all(Deny, "git -C r checkout -- f", "git -c a.b=c checkout -- f", "git checkout -- f"))
		verdicts(t, e, all(Allow, "git checkout main"))
	})
	t.Run("S035 an allowed command does not carry another", func(t *testing.T) {
		c := cfg
		c.Mode = ModeDontAsk
		e := engine(t, c, allow("Bash(git log:*)"))
		verdicts(t, e, all(Deny, "git log -1; touch /w/pwned", "git log -1 && touch /w/pwned", "git log -1\ntouch /w/pwned", "git log -1 | tee x", "git log $(touch x)", "git log > x"))
		verdicts(t, e, all(Allow, "git log -1", "git log"))
	})
	t.Run("S042 plan writes nothing, not even /tmp", func(t *testing.T) {
		c := cfg
		c.Mode, c.PrivateTmp, c.Default = ModePlan, true, Allow
		e := engine(t, c)
		verdicts(t, e, all(Ask, "touch /tmp/x", "touch x", "echo > x"))
		verdicts(t, e, all(Allow, "ls", "cat /etc/hostname"))
		c.AllowConfined, c.Confinement = true, FullyConfined
		verdicts(t, engine(t, c), map[string]Verdict{"touch x": Ask, "ls": Allow, "make test": Allow})
	})
	t.Run("S050 both stages of a pipe are allowed, or it asks", func(t *testing.T) {
		e := engine(t, cfg, allow("Bash(grep *)"), allow("Bash(head *)"))
		verdicts(t, e, map[string]Verdict{"grep p f | head -20": Allow, "grep p f | sh": Ask, "grep p f | head -20 > x": Ask})
	})
	t.Run("S057 an entry of the table can be switched off", func(t *testing.T) {
		e := engine(t, open)
		verdicts(t, e, map[string]Verdict{"vim x": Ask, "nano x": Ask})
		c := open
		c.DangerOff = []DangerException{{Pattern: "nano *", Source: Source{Kind: SourceUser, File: "policy.toml", Line: 2}}}
		e = engine(t, c)
		verdicts(t, e, map[string]Verdict{"vim x": Ask, "nano x": Allow})
		d := e.Check(t.Context(), BashCall("nano x", ""))
		if note := stage(d, StageSafety).Text; !strings.Contains(note, "policy.toml:2") {
			t.Errorf("the trace does not tell who switched it off: %q", note)
		}
		c.DangerOff[0].Pattern = "nanoo *"
		if _, err := NewEngine(c); err == nil {
			t.Error("an exception for an entry that is not there was accepted")
		}
	})
}

func stage(d Decision, name StageName) Stage {
	for _, s := range d.Trace {
		if s.Name == name {
			return s
		}
	}
	return Stage{}
}

// TestPublishedBypasses: kinds of ways round other checkers.
func TestPublishedBypasses(t *testing.T) {
	dir, cfg := place(t)
	secret := filepath.Join(filepath.Dir(dir), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustLink(t, secret, filepath.Join(dir, "alias"))
	for _, tt := range []struct {
		name     string
		rules    []Rule
		caught   []string
		harmless []string
	}{
		{"prefix compare", []Rule{allow("Bash(git *)"), allow("Bash(ls)")},
			[]string{"gitevil x", "git-evil x", "lsevil", "ls; rm x", "ls&&rm x", "ls|sh", "ls&rm x", "ls\nrm x"}, []string{"git frob x", "ls"}},
		{"find actions", []Rule{allow("Bash(find *)"), deny("Bash(rm *)")},
			[]string{`find . -exec rm {} \;`, "find . -execdir rm {} +", `find . -ok rm {} \;`}, []string{"find . -name x"}},
		{"find actions without a rule about find", nil,
			[]string{"find . -delete", "find . -fprint x", `find . -exec touch {} \;`}, []string{"find . -name '*.go'"}},
		{"sed e and w", nil, []string{"sed '1e date' f", "sed 's/a/b/e' f", "sed 'w out' f", "sed -i s/a/b/ f", "sed -n 's/a/b/w out' f"}, []string{"sed -n 1,20p f", "sed s/a/b/ f"}},
		{"awk", nil, []string{`awk 'BEGIN{system("date")}'`, `awk '{print > "x"}' f`, `awk '{"date"|getline}' f`}, []string{"awk '{print $1}' f"}},
		{"other readers that write", nil, []string{"sort -o x f", "uniq a b", "tee x < f", "file -C -m x", "date -s 12:00"}, []string{"sort f", "uniq a", "file x", "date"}},
		{"env prefix", []Rule{deny("Bash(rm *)")}, []string{"X=1 rm x", "env rm x", "env X=1 rm x", "env -S 'rm x'", "env -i rm x"}, []string{"CI=1 ls"}},
		{"newline", []Rule{deny("Bash(rm *)")}, []string{"ls\nrm x", "ls \\\n; rm x", "true\n\n  rm x"}, []string{"ls\nls"}},
		{"process substitution", []Rule{deny("Bash(rm *)")}, []string{"cat <(rm x)", "ls > >(rm x)", "diff <(ls) <(rm x)"}, []string{"diff <(ls a) <(ls b)"}},
		{"substitution", []Rule{deny("Bash(rm *)")}, []string{"echo $(rm x)", "echo `rm x`", `echo "$(rm x)"`, "cat <<E\n$(rm x)\nE", "echo $(( $(rm x) ))", "echo ${a:-$(rm x)}"}, []string{"cat <<'E'\n$(rm x)\nE", "echo '$(rm x)'"}},
		{"expansion that runs", []Rule{deny("Bash(rm *)")}, []string{`a='$(rm x)'; echo "${a@P}"`}, []string{"a='$(rm x)'; echo ${a}"}},
		{"IFS", []Rule{deny("Bash(rm *)")}, []string{"rm${IFS}x", "a=rm; $a x", "IFS=,; a=rm,x; $a"}, []string{"echo a${IFS}b"}},
		{"quotes and escapes", []Rule{deny("Bash(rm *)")}, []string{`r\m x`, `'r'm x`, `"rm" x`, `$'\x72m' x`, "/bin/rm x", `\rm x`, "{rm,x}"}, []string{"echo rm x"}},
		{"wrappers", []Rule{deny("Bash(rm *)")}, []string{"nohup timeout 5 nice rm -rf x", "time rm x", "stdbuf -o0 rm x", "command rm x", "exec rm x", "xargs rm < f", "setsid rm x", "busybox rm x", "sh -c 'rm x'", "bash -c \"bash -c 'rm x'\"", "eval rm x", "eval 'r''m x'"}, []string{"timeout 5 ls"}},
		{"short options", []Rule{deny("Bash(rm -rf *)")}, []string{"rm -fr x", "rm -r -f x", "rm x -rf", "rm --recursive --force x", "rm -v -r -i -f x"}, nil},
		{"more than fifty commands", []Rule{deny("Bash(rm *)")}, []string{strings.Repeat("true; ", 60) + "rm x", strings.Repeat("true && ", 500) + "rm x"}, []string{strings.Repeat("true; ", 60) + "ls"}},
		{"nested eight deep", []Rule{deny("Bash(rm *)")}, []string{"( ( ( ( ( ( ( ( rm x ) ) ) ) ) ) ) )", "{ { { { { { { { rm x; }; }; }; }; }; }; }; }", "if true; then while true; do case a in a) rm x;; esac; done; fi", "f() { rm x; }; f"}, nil},
		{"link to a denied file", []Rule{deny("Read(" + secret + ")")}, []string{"cat alias", "cat ./src/../alias", "head -1 < alias", "grep x alias"}, []string{"cat src/x"}},
		{"reads in Bash", []Rule{deny("Read(.env)")}, []string{"cat .env", "cat a/.env", "cat ./.env | head", "head -1 .env", "cp .env x", "grep x < .env", "cd src; cat ../.env"}, []string{"cat env"}},
		{"writes in Bash", []Rule{deny("Write(keep)")}, []string{"echo > keep", "cp a keep", "tee keep < a", "sed -i s/a/b/ keep", "rm keep", "mv keep x", "cd src; echo > ../keep"}, []string{"cat keep"}},
		{"a denied place goes with its tree", []Rule{deny("effect(delete ./deploy/keys)")}, []string{"rm -rf deploy", "rm -r ./deploy/keys", "mv deploy x"}, nil},
		{"NUL and control characters", nil, []string{"ls \x00 x", "ls\r", "ls \x1b[0m", "ls\u00a0x"}, nil},
		{"empty host list is no permission", nil, []string{"curl https://a.test/"}, nil},
		{"a settings file that does not exist yet", nil, []string{"echo x > .git/hooks/pre-commit", "echo x > .envrc", "mkdir -p .claude && echo x > .claude/settings.json", "echo x > sandboxd.toml", "cp x .mcp.json"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cfg
			c.Mode, c.Rules = ModeDefault, tt.rules
			e := engine(t, c)
			for _, s := range tt.caught {
				d := e.Check(t.Context(), BashCall(s, ""))
				if d.Verdict == Allow {
					t.Errorf("%.80q: allowed (%v)", s, d.Reason)
				}
				if len(tt.rules) > 0 && tt.rules[len(tt.rules)-1].Kind == DenyRule && d.Verdict != Deny {
					t.Errorf("%.80q: %v (%v), want deny", s, d.Verdict, d.Reason)
				}
			}
			for _, s := range tt.harmless {
				if d := e.Check(t.Context(), BashCall(s, "")); d.Verdict != Allow {
					t.Errorf("%.80q: %v (%v), want allow", s, d.Verdict, d.Reason)
				}
			}
		})
	}
}

func TestReadOnlyCommandsNeverAsk(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg)
	verdicts(t, e, all(Allow, "grep -rn x src | head -20", "git log --oneline | head", "sed -n 1,20p f", "find . -name '*.go'", "ls -la", "pwd", "cat src/a 2>/dev/null",
		"echo hi", "wc -l < src/a", "cd src && ls", "true", "X=1", "# nothing", "cat /etc/os-release", "ls /usr/bin", "git status", "git diff HEAD~1", "which go", "test -f x && echo y", "for f in a b; do echo $f; done"))
	verdicts(t, e, all(Ask, "cat /root/x", "ls ..", "cat ~/.bashrc", "go test ./...", "make", "python script.py", "npm install", "touch x"))
}

func TestANameIsNotTheProgram(t *testing.T) {
	dir, cfg := place(t)
	cfg.Mode = ModeAcceptEdits
	e := engine(t, cfg)
	verdicts(t, e, all(Ask, "./ls", dir+"/grep x a", "src/touch a", "../cat a"))
	verdicts(t, e, all(Allow, "/bin/ls", "/usr/bin/grep x a", "/usr/bin/touch a"))
}

func TestDontAskTakesExplicitAllowsOnly(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode, cfg.Default = ModeDontAsk, Allow
	e := engine(t, cfg, allow("Bash(touch *)"))
	verdicts(t, e, map[string]Verdict{"touch a": Allow, "ls": Allow, "mkdir a": Deny})
	cfg.AllowConfined, cfg.Confinement = true, FullyConfined
	verdicts(t, engine(t, cfg), all(Allow, "mkdir a"))
}

func TestRegularExpressions(t *testing.T) { // requirement 35
	_, cfg := place(t)
	e := engine(t, cfg, allow("Bash(re:touch a)"), allow(`Bash(re:make (x|y)( .*)?)`))
	verdicts(t, e, map[string]Verdict{"touch a": Allow, "touch ab": Ask, "xtouch a": Ask, "touch a b": Ask, "make x -j": Allow, "make z": Ask, "make x; rm y": Ask, "make x\nrm y": Ask, "make x $(rm y)": Ask})
	e = engine(t, cfg, deny(`Bash(re:\brm\b.*-[a-z]*r)`), allow("Bash"))
	verdicts(t, e, map[string]Verdict{"rm -r x": Deny, "ls; rm -fr x": Deny, "rm x": Allow})
	// Longer than what is run: a deny rule matches, an allow rule does not.
	long := "touch a" + strings.Repeat(" a", maxRegexpText)
	verdicts(t, engine(t, cfg, deny("Bash(re:nothing)")), all(Deny, long))
	verdicts(t, engine(t, cfg, allow("Bash(re:touch.*)")), all(Ask, long))
}

func TestTextInQuotesIsNoCommand(t *testing.T) { // requirement 100
	_, cfg := place(t)
	e := engine(t, cfg, deny("Bash(ssh *)"), deny("Bash(sudo *)"), deny("Bash(vim *)"))
	verdicts(t, e, map[string]Verdict{
		`grep "ssh_config" src/a`: Allow, `echo "use sudo carefully"`: Allow, "cat src/vim/vimrc": Allow,
		"vim x": Deny, "$(echo sud; echo o) x": Ask, "python script.py": Ask,
	})
}

func TestEmptyCommandsAndBareShellsAreRefused(t *testing.T) { // requirement 98
	_, cfg := place(t)
	cfg.Default, cfg.Mode = Allow, ModeAcceptEdits
	e := engine(t, cfg, allow("Bash"))
	verdicts(t, e, all(Deny, "", "  \n", "bash", "sh", "dash -i", "zsh", "bash -c"))
	verdicts(t, e, all(Allow, "bash --version", "bash -c ls"))
	if d := e.Check(t.Context(), Call{Tool: "Bash", Args: Args{}}); d.Verdict != Deny {
		t.Errorf("no command: %v", d.Verdict)
	}
}

func TestWorkingDirectoryStaysInTheRoots(t *testing.T) { // requirement 109
	dir, cfg := place(t)
	mustLink(t, filepath.Dir(dir), filepath.Join(dir, "up"))
	e := engine(t, cfg)
	for wd, want := range map[string]Verdict{"src": Allow, dir: Allow, "..": Deny, "/": Deny, "up": Deny, "~": Deny} {
		d := e.Check(t.Context(), Call{Tool: "Bash", Args: Args{"command": "ls", "working_dir": wd}})
		if d.Verdict != want {
			t.Errorf("working_dir %s: %v (%v), want %v", wd, d.Verdict, d.Reason, want)
		}
	}
	e = engine(t, cfg, deny("Write(src/keep)"))
	if d := e.Check(t.Context(), Call{Tool: "Bash", Args: Args{"command": "echo > keep", "working_dir": "src"}}); d.Verdict != Deny {
		t.Errorf("relative to the working directory: %v", d.Verdict)
	}
}

func TestRedirects(t *testing.T) { // requirement 120
	_, cfg := place(t)
	cfg.Mode = ModeAcceptEdits
	e := engine(t, cfg)
	for _, op := range []string{">", ">>", ">|", "&>", "&>>", "<>", "2>", "2>>", "1>", "3>"} {
		verdicts(t, e, map[string]Verdict{
			"echo x " + op + " src/out":       Allow,
			"echo x " + op + " /etc/out":      Ask,
			"echo x " + op + " .git/config":   Ask,
			"echo x " + op + " ../out":        Ask,
			"echo x " + op + " .vscode/a":     Ask,
			"echo x " + op + ` "$(cat name)"`: Ask,
		})
	}
	verdicts(t, e, all(Allow, "ls 2>&1", "ls >/dev/null 2>&1", "cat <<<x", "cat < src/a", "ls > >(cat)", "exec 3>&1"))
}

func TestAcceptEditsAllowsEditCommandsInTheWorkspace(t *testing.T) {
	_, cfg := place(t)
	cfg.Mode = ModeAcceptEdits
	e := engine(t, cfg)
	verdicts(t, e, all(Allow, "mkdir -p a/b", "touch x", "mv a b", "cp a b", "rm x", "sed -i s/a/b/ src/x", "mkdir a && touch a/x", "cat /etc/shadow.txt"))
	verdicts(t, e, all(Ask, "mkdir ../a", "touch /etc/x", "mv a ..", "cp a .git/hooks/x", "rm -rf /", "rm -rf ..", "rm -rf .", "make", "touch $(cat x)", "./touch x", "LD_PRELOAD=x touch y"))
}

func TestPatternsDoNotWriteThroughLinks(t *testing.T) {
	dir, cfg := place(t)
	cfg.Mode = ModeAcceptEdits
	for _, name := range []string{"a1", "a2", "b1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustLink(t, "/etc/passwd", filepath.Join(dir, "b2"))
	e := engine(t, cfg)
	verdicts(t, e, map[string]Verdict{"tee a* < x": Allow, "tee b* < x": Ask, "rm b*": Allow, "touch .*": Ask})
}

func TestUnknownCode(t *testing.T) {
	_, cfg := place(t)
	scripts := []string{"python3 -c 'print(1)'", "node <<'E'\nx\nE", "perl -e 1"}
	hidden := []string{"strange canary", "strange --run=canary x", "strange 'sh canary'"}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		rules  []Rule
		want   Verdict
	}{
		{"default = allow does not cover it", func(c *Config) { c.Default = Allow }, nil, Ask},
		{"default = deny does", func(c *Config) { c.Default = Deny }, nil, Deny},
		{"a rule that names the launcher", nil, []Rule{allow("Bash(python3 *)"), allow("Bash(node:*)"), allow("Bash(perl *)"), allow("Bash(strange *)")}, Allow},
		{"a rule for the whole tool does not, with a deny rule there", nil, []Rule{allow("Bash")}, Ask},
		{"confined", func(c *Config) { c.AllowConfined, c.Confinement = true, FullyConfined }, nil, Allow},
		{"confined in part", func(c *Config) { c.AllowConfined, c.Confinement = true, PartlyConfined }, nil, Ask},
		{"bypass", func(c *Config) { c.Mode = ModeBypass }, nil, Ask},
		{"bypass in full confinement", func(c *Config) { c.Mode, c.Confinement = ModeBypass, FullyConfined }, nil, Allow},
		{"acceptEdits", func(c *Config) { c.Mode = ModeAcceptEdits }, nil, Ask},
		{"dontAsk", func(c *Config) { c.Mode, c.Default = ModeDontAsk, Allow }, nil, Deny},
	} {
		c := cfg
		c.Bypass.EnabledAtStart = true
		if tt.change != nil {
			tt.change(&c)
		}
		e := engine(t, c, append(tt.rules, deny("Bash(canary *)"), deny("Bash(canary)"))...)
		verdicts(t, e, all(tt.want, append(scripts, hidden...)...))
	}
	// Without a rule that could hide there, an unknown program is only unknown.
	c := cfg
	c.Default = Allow
	verdicts(t, engine(t, c), all(Allow, hidden...))
	verdicts(t, engine(t, c, deny("Bash(canary *)")), all(Allow, "strange other", "make test", "./script.sh canary.txt"))
}

func TestUnreadableIsAFloor(t *testing.T) {
	_, cfg := place(t)
	cfg.Default, cfg.AllowConfined, cfg.Confinement, cfg.Bypass.EnabledAtStart = Allow, true, FullyConfined, true
	for _, mode := range Modes() {
		cfg.Mode = mode
		e := engine(t, cfg, allow("Bash"), allow("Bash(*)"), allow("Bash(cat *)"))
		want := Ask
		if mode == ModeDontAsk {
			want = Deny
		}
		verdicts(t, e, all(want, "$(cat x) y", "grep p x | sh", `eval "$(cat x)"`, "if", "ls\r", `bash -c "$(cat x)"`))
	}
}

func TestManyWordsDoNotHideADeny(t *testing.T) {
	_, cfg := place(t)
	cfg.Default = Allow
	e := engine(t, cfg, deny("Bash(git push *)"), deny("Bash(rm -rf *)"), allow("Bash"))
	for _, s := range []string{"git " + strings.Repeat("-c a=b ", 3000) + "push x", "rm " + strings.Repeat("x ", 5000) + "-rf", "git " + strings.Repeat("-x ", 9000) + "push x"} {
		if d := e.Check(t.Context(), BashCall(s, "")); d.Verdict == Allow {
			t.Errorf("%.40q: allowed by %.100v", s, d.Reason.String())
		}
	}
	if d := e.Check(t.Context(), BashCall("git "+strings.Repeat("-c a=b ", 300)+"push x", "")); d.Verdict != Deny {
		t.Errorf("300 options: %v", d.Verdict)
	}
}

func TestPossibleDenyIsAFloor(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, deny("Bash(git push *)"), allow("Bash(git *)"))
	verdicts(t, e, map[string]Verdict{
		"git $(cat cmd) origin": Ask, "git log $(cat rev)": Allow, "git push origin": Deny,
	})
	d := e.Check(t.Context(), BashCall("git $(cat cmd) origin", ""))
	if r, ok := d.Reason.(RuleReason); !ok || !r.Possible || r.Kind != DenyRule {
		t.Errorf("reason %#v", d.Reason)
	}
}

func TestDangers(t *testing.T) {
	_, cfg := place(t)
	cfg.Default = Allow
	e := engine(t, cfg, allow("Bash"))
	verdicts(t, e, all(Ask, "sudo ls", "su -c ls", "doas ls", ":(){ :|:& };:", "mkfs.ext4 /dev/sda", "shutdown -h now", "dd if=x of=/dev/sda", "timeout 5 vim x", "rm -rf /",
		"rm -fr --no-preserve-root /", "kill -9 -1", "crontab -r", "git rebase -i HEAD~2", "systemctl stop x", "LD_PRELOAD=x ls"))
	verdicts(t, e, all(Allow, "kill -9 123", "rm -rf build", "dd if=x of=y", "git rebase main", "echo shutdown", "tmux ls", "crontab -l"))
	if len(Dangers()) < 33 || DangerTableVersion < 1 {
		t.Error("the table shrank below the design document's 33 entries")
	}
	for _, d := range Dangers() {
		if d.Reason == "" || d.Pattern == "" {
			t.Errorf("entry without a reason: %+v", d)
		}
		if _, err := parsePattern("run_bash("+d.Pattern+")", DenyRule, base{}); err != nil {
			t.Errorf("%q: %v", d.Pattern, err)
		}
	}
}

func TestEffectRules(t *testing.T) {
	_, cfg := place(t)
	cfg.Default, cfg.Mode = Allow, ModeBypass
	cfg.Bypass.EnabledAtStart = true
	e := engine(t, cfg, deny("effect(write /etc/**)"), deny("effect(delete ./keep/**)"), deny("effect(read ./private)"), deny("effect(network evil.test)"), deny("effect(exec nmap)"))
	verdicts(t, e, all(Deny, "echo > /etc/x", "tee /etc/x < a", "cp a /etc/", "rm /etc/hosts", "sed -i s/a/b/ /etc/hosts",
		"rm keep/a", "rm -rf keep", "find keep -delete", "mv keep/a b", "cat private", "curl https://evil.test/x", "wget evil.test", "nmap x", "sudo nmap", "bash -c 'nmap x'"))
	verdicts(t, e, all(Allow, "cat /etc/hosts", "cat keep/a", "rm other", "curl https://good.test/", "echo nmap"))
	for _, c := range []Call{write("/etc/x"), read("private"), {Tool: "WebFetch", Args: Args{"url": "https://evil.test/"}}} {
		if d := e.Check(t.Context(), c); d.Verdict != Deny {
			t.Errorf("%v: %v (%v)", c, d.Verdict, d.Reason)
		}
	}
}

func TestAllowNeedsEveryPart(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, allow("Bash(go test *)"), allow("Bash(make)"), allow("effect(write ./log)"), allow("Bash(npm test && npm run lint)"))
	verdicts(t, e, map[string]Verdict{
		"go test ./...": Allow, "cd src && go test ./...": Allow, "timeout 60 go test ./...": Allow, "CI=1 go test ./...": Allow,
		"go test ./... | tail -5": Allow, "go test ./... && make": Allow, "make > log": Allow, "go test ./... > log": Allow,
		"go test ./... > other": Ask, "go test ./... && go run .": Ask, "GOFLAGS=-toolexec=x go test ./...": Ask,
		"GOFLAGS=-toolexec=x timeout 5 go test ./...": Ask, "export GOFLAGS=-toolexec=x; go test ./...": Ask, "GOFLAGS=-toolexec=x; go test ./...": Ask,
		"declare -x GOFLAGS=x; go test ./...": Ask, "export CI=1; go test ./...": Allow, "export FOO=1; go test ./...": Ask, "declare -x FOO=1; go test ./...": Ask, "declare FOO=1; ls": Allow, "x=1; go test ./... && echo $x": Allow,
		"env GOFLAGS=-toolexec=x go test ./...": Ask, "PATH=. go test ./...": Ask, "./go test ./...": Ask, "sudo go test ./...": Ask,
		"npm test && npm run lint": Allow, "npm test": Ask, "npm test && npm run lint; ls": Ask,
		"bash -c 'go test ./...'": Allow, "bash -lc 'go test ./...'": Ask, "xargs go test < pkgs": Allow,
	})
}

func TestArgumentsByNameAreReadAsWhatTheyHold(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, allow("Bash(command:touch *)"), deny("Bash(command:rm *)"), deny("Write(file_path:keep)"), deny("Bash(run_in_background:true)"))
	verdicts(t, e, map[string]Verdict{"touch x": Allow, "touch x; make": Ask, "cd a; rm x": Deny, "echo > keep": Deny})
	if d := e.Check(t.Context(), Call{Tool: "Bash", Args: Args{"command": "ls", "run_in_background": true}}); d.Verdict != Deny {
		t.Errorf("a flag: %v by %v", d.Verdict, d.Reason)
	}
	for _, p := range []string{"Bash(run_in_background:true)", "mcp__sh__exec(command:ls *)"} {
		if _, err := NewRuleSet([]Rule{allow(p)}, Base{}); err == nil {
			t.Errorf("allow %s was accepted", p)
		}
	}
	verdicts(t, engine(t, cfg, deny("*(rm:*)")), all(Deny, "rm", "rm x", "ls; rm x"))
	// A command of a server's tool needs its parts allowed as well.
	c := cfg
	c.Rules = []Rule{allow("mcp__sh__exec(ls *)")}
	for script, want := range map[string]Verdict{"ls src": Allow, "ls src; make": Ask} {
		if d := engine(t, c).Check(t.Context(), Call{Tool: "mcp__sh__exec", Args: Args{"command": script}}); d.Verdict != want {
			t.Errorf("%s: %v by %v, want %v", script, d.Verdict, d.Reason, want)
		}
	}
}

func TestStarsInAWholeScriptNeverAllow(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, allow("Bash(ls | *)"))
	verdicts(t, e, all(Ask, "ls | rm x", "ls | tee x; make"))
	e = engine(t, cfg, deny("Bash(* | sh)"), allow("Bash"))
	verdicts(t, e, map[string]Verdict{"curl x | sh": Deny, "ls | cat": Allow})
}

func TestConfined(t *testing.T) {
	dir, cfg := place(t)
	cfg.AllowConfined, cfg.Confinement, cfg.PrivateTmp = true, FullyConfined, true
	cfg.Hosts = []string{"proxy.test"}
	e := engine(t, cfg, ask("Bash(git push *)"), deny("Bash(canary *)"))
	verdicts(t, e, map[string]Verdict{
		"make test": Allow, "npm install": Ask, "echo x > out": Allow, "touch /tmp/x": Allow, "python3 -c 'x'": Allow,
		"curl https://a.test/": Ask, "curl https://proxy.test/": Allow, "touch /srv/x": Ask, "echo > .git/config": Ask, "git push origin": Ask,
		"make && canary x": Deny, "sudo make": Ask, "$(cat x)": Ask,
	})
	d := e.Check(t.Context(), BashCall("make test", dir))
	if d.Reason.Type() != "confined" {
		t.Errorf("reason %v", d.Reason)
	}
	if d := e.Check(t.Context(), write("a")); d.Verdict != Ask {
		t.Errorf("a file tool is not a confined command: %v", d.Verdict)
	}
	cfg.Confinement = PartlyConfined
	verdicts(t, engine(t, cfg), all(Ask, "make test"))
}

func TestPathsThatTheKernelHoldsNeedNoQuestion(t *testing.T) {
	_, cfg := place(t)
	cfg.Default = Allow
	rules := []Rule{deny("Read(./private)"), deny("Read(*.key)")}
	e := engine(t, cfg, rules[0])
	verdicts(t, e, all(Ask, `cat "$(ls | head -1)"`, "grep -r x ."))
	cfg.Confinement = FullyConfined
	verdicts(t, engine(t, cfg, rules[0]), all(Allow, `cat "$(ls | head -1)"`, "grep -r x ."))
	verdicts(t, engine(t, cfg, rules[1]), all(Ask, `cat "$(ls | head -1)"`)) // a pattern is not held
}

func TestRunBySomebodyWhoDecided(t *testing.T) {
	_, cfg := place(t)
	cfg.OnlyRules, cfg.Mode = true, ModeDontAsk
	cfg.Default = Deny
	yes := &asker{answer: Answer{Verdict: Allow}}
	for _, tt := range []struct {
		argv   []string
		want   Verdict
		reason string
	}{
		{[]string{"sudo", "vim", "/etc/passwd"}, Allow, "default"},
		{[]string{"bash"}, Allow, "default"},
		{[]string{"bash", "-c", "$X; eval \"$Y\""}, Allow, "default"},
		{[]string{"rm", "-fr", "x"}, Deny, "rule"},
		{[]string{"bash", "-c", "cd a; rm -rf x"}, Deny, "rule"},
		{[]string{"echo", "rm -rf x"}, Allow, "default"},
		{[]string{"echo", "$(rm -rf x)"}, Allow, "default"}, // an argument, not a script
		{[]string{"echo", "a\rb\x01"}, Allow, "default"},
		{[]string{"npm", "publish"}, Deny, "headless"}, // no mode applies, dontAsk neither
	} {
		e := engine(t, cfg, deny("Bash(rm -rf *)"), ask("Bash(npm publish)"))
		d := e.Decide(t.Context(), ArgvCall(tt.argv, ""))
		if d.Verdict != tt.want || d.Reason.Type() != tt.reason {
			t.Errorf("%q: %v (%v), want %v by %s", tt.argv, d.Verdict, d.Reason, tt.want, tt.reason)
		}
	}
	cfg.Askers = []Asker{yes}
	if d := engine(t, cfg, ask("Bash(npm publish)")).Decide(t.Context(), ArgvCall([]string{"npm", "publish"}, "")); d.Verdict != Allow || yes.asked != 1 {
		t.Errorf("asked %d, %v", yes.asked, d.Verdict)
	}
}

func TestQuoteWordIsReadBackLiterally(t *testing.T) {
	_, cfg := place(t)
	cfg.OnlyRules = true
	for _, w := range []string{"", "a", "a b", "'", `"`, `\`, "$x", "`x`", "*", "~", "a=b", "#", "!", "a\nb", "\x01", "\x7f", "é", "-n", "{a,b}", "a'b\x02c", "\\x41"} {
		e := engine(t, cfg)
		d := e.Check(t.Context(), ArgvCall([]string{"prog", w}, ""))
		if len(d.Commands) != 1 || len(d.Commands[0].Argv) != 2 || d.Commands[0].Argv[1] != w {
			t.Errorf("%q: read as %+v", w, d.Commands)
		}
	}
}

func TestAnyToolRuleCatchesShellToolsOfServers(t *testing.T) { // requirement 31
	_, cfg := place(t)
	cfg.Default = Allow
	e := engine(t, cfg, deny("*(sudo *)"), deny("Bash(rm *)"), deny("mcp__sh__run(kill *)"))
	for _, c := range []Call{
		BashCall("sudo x", ""), BashCall("cd a && timeout 5 sudo x", ""),
		{Tool: "mcp__sh__exec", Args: Args{"command": "sudo x"}}, {Tool: "mcp__sh__exec", Args: Args{"cmd": "ls; sudo x"}},
		{Tool: "mcp__sh__exec", Args: Args{"argv": []any{"sudo", "x"}}}, {Tool: "mcp__sh__exec", Args: Args{"strange": "sudo x"}},
		{Tool: "mcp__sh__exec", Args: Args{"command": "/bin/rm x"}},
		{Tool: "mcp__sh__run", Args: Args{"command": "ls; timeout 5 kill x"}},
	} {
		if d := e.Check(t.Context(), c); d.Verdict != Deny {
			t.Errorf("%s %v: %v (%v)", c.Tool, c.Args, d.Verdict, d.Reason)
		}
	}
	for _, c := range []Call{BashCall("echo sudo x", ""), {Tool: "mcp__sh__exec", Args: Args{"command": "echo x"}}} {
		if d := e.Check(t.Context(), c); d.Verdict != Allow {
			t.Errorf("%s %v: %v (%v)", c.Tool, c.Args, d.Verdict, d.Reason)
		}
	}
}

func TestTwoCommandsInOneCallAreBothJudged(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, deny("Bash(rm *)"))
	d := e.Check(t.Context(), Call{Tool: "Bash", Args: Args{"command": "ls", "cmd": "rm x"}})
	if d.Verdict != Deny {
		t.Errorf("%v (%v)", d.Verdict, d.Reason)
	}
}

func TestSubCommandsHaveTheirOwnVerdicts(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, allow("Bash(make)"), deny("Bash(rm *)"), ask("Bash(git push *)"))
	for _, tt := range []struct {
		script string
		want   string
	}{
		{"make && ls && touch x", "make=allow ls=allow touch x=ask"},
		{"ls; git push o", "ls=allow git push o=ask"},
		{"ls; sudo ls", "ls=allow sudo ls=ask ls=allow"},
		{"make && ls && rm x && touch y", "make=allow ls=allow rm x=deny touch y=ask"},
		{"rm a; rm b", "rm a=deny rm b=deny"},
	} {
		d := e.Check(t.Context(), BashCall(tt.script, ""))
		var got []string
		for _, c := range d.Commands {
			got = append(got, fmt.Sprintf("%s=%v", strings.Join(c.Argv, " "), c.Verdict))
			if c.Reason == nil {
				t.Errorf("%q: %v has no reason", tt.script, c.Argv)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %v, want %s", tt.script, got, tt.want)
		}
	}
}

func TestPatternsAndTreesMeetPathRules(t *testing.T) {
	dir, cfg := place(t)
	for _, name := range []string{".env", "secret.key", "sub/.env", "plain"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Default = Allow
	e := engine(t, cfg, deny("Read(.env)"), deny("Read(secret.key)"), deny("Write(plain)"))
	verdicts(t, e, all(Deny, "cat .env", "cat s*", "cat sec*.key", "cat ./s*.key", "cat *", "head -1 se?ret.key", "rm p*", "rm -rf .", "grep -r x .", "grep -r x sub", "cp -r sub y"))
	verdicts(t, e, all(Allow, "cat pl*", "cat *.go", "grep -r x src", "rm x*"))
	// A name that the script makes itself is met too.
	verdicts(t, e, all(Deny, "cd src && touch plain2 && rm -f pl*n"))
}

func TestCostOfLargeScriptsIsBounded(t *testing.T) {
	_, cfg := place(t)
	e := engine(t, cfg, append(manyRules(), deny("Read(*.key)"), deny("Write(*.pem)"))...)
	for name, script := range map[string]string{
		"many commands":    strings.Repeat("cat a > b\n", 100_000),
		"many files":       "cat " + strings.Repeat("a b c d ", 120_000),
		"many options":     "git " + strings.Repeat("-x y ", 200_000) + "push",
		"many wrappers":    strings.Repeat("env A=B ", 100_000) + "ls",
		"deep":             strings.Repeat("(", 1000) + "ls" + strings.Repeat(")", 1000),
		"nested shells":    "bash -c '" + strings.Repeat("env A=B\n", 100_000) + "'",
		"different files":  manyFiles(20_000),
		"no end":           strings.Repeat("$(", 300_000),
		"one word":         strings.Repeat("a", 1<<20),
		"more than a MiB":  strings.Repeat("ls\n", 500_000),
		"unknown programs": strings.Repeat("strange canary\n", 50_000),
	} {
		start := cpuTime(t)
		d := e.Check(t.Context(), BashCall(script, ""))
		if took := cpuTime(t) - start; took > 5*time.Second {
			t.Errorf("%s: %v", name, took)
		} else {
			t.Logf("%s: %v (%v) in %v", name, d.Verdict, d.Reason.Type(), took)
		}
	}
}

// cpuTime is what this process has used, whatever else runs on the machine.
func cpuTime(t *testing.T) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func manyFiles(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "cat a%d > b%d\n", i, i)
	}
	return b.String()
}
