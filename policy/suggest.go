package policy

import (
	"strings"
	"sync"

	"sandboxd/policy/bash"
)

// Suggestion says how a call could be allowed.
type Suggestion struct {
	// Rules are allow rules that together would have allowed this call: the
	// narrowest there are. Empty when no rule can or should.
	Rules []string `json:"rules"`
	// AlsoAllows is what else they would allow, for people.
	AlsoAllows string `json:"also_allows,omitempty"`
	// Instead is what can be done where no rule is suggested, and why.
	Instead string `json:"instead,omitempty"`
}

// opensAnything are programs that run whatever they are told, by an argument,
// a file or their input. No rule that allows one is ever suggested.
var opensAnything = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for _, list := range []string{
		// shells and interpreters
		"bash sh dash zsh ksh mksh fish csh tcsh rbash ash busybox toybox python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit",
		"tclsh wish guile racket sbcl clisp R Rscript julia octave gawk awk mawk nawk sed ed ex vi vim nvim emacs gdb lldb java jshell scala kotlin ghci runghc swift dotnet pwsh erl elixir iex ipython irb bc dc m4 sqlite3 psql mysql",
		// launchers
		"env timeout nice nohup time stdbuf setsid ionice taskset chrt flock watch command builtin exec eval source . xargs find fd parallel sudo su doas pkexec chroot unshare nsenter strace ltrace script expect ssh scp sftp rsync tmux screen",
		"make gmake cmake ninja just task npx npm pnpm yarn pip pip3 pipx uv uvx poetry cargo go gradle mvn ant bazel rake bundle composer docker podman kubectl systemd-run at batch crontab sbx sandboxd socat nc ncat tar zip git",
	} {
		for _, name := range strings.Fields(list) {
			m[name] = true
		}
	}
	return m
})

// exactIsFine are programs of that list whose sub-commands are closed enough
// that one exact command line opens nothing further.
var exactIsFine = map[string]string{
	"git":   " status log diff show branch add commit fetch pull push stash tag remote rev-parse ls-files blame describe ",
	"go":    " build test vet fmt list version doc mod env ",
	"cargo": " build test check clippy fmt doc tree metadata ",
	"npm":   " test ci ls outdated audit ",
	"pnpm":  " test ls ",
	"yarn":  " test ",
	"pip":   " list show freeze check ",
	"pip3":  " list show freeze check ",
	"tar":   "",
}

// suggest returns how the call could be allowed, or why nothing is suggested.
func (r *run) suggest() *Suggestion {
	if r.facts == nil {
		return nil
	}
	if why, ok := r.reason.(RuleReason); ok && why.Kind == DenyRule && !why.Possible {
		return &Suggestion{Rules: []string{}, Instead: "narrow the deny rule; no other rule, flag or mode overrides it"}
	}
	if r.floor != nil {
		return &Suggestion{Rules: []string{}, Instead: floorAdvice(r.floor)}
	}
	s := &Suggestion{Rules: []string{}}
	for i := range r.parts {
		if r.verdicts[i].decided && r.verdicts[i].verdict == Allow {
			continue
		}
		rule, also, why := r.ruleFor(&r.parts[i])
		if rule == "" {
			return &Suggestion{Rules: []string{}, Instead: why}
		}
		if len(rule) > maxShownWord {
			return &Suggestion{Rules: []string{}, Instead: "the command is too long for a rule about it"}
		}
		s.Rules = appendNew(s.Rules, rule)
		opened, why := r.readsToOpen(&r.parts[i])
		if why != "" {
			return &Suggestion{Rules: []string{}, Instead: why}
		}
		for _, p := range opened {
			// Without it the command would be allowed and find nothing there.
			s.Rules = appendNew(s.Rules, "effect(read "+escapeGlob(p)+")")
			s.AlsoAllows = strings.TrimPrefix(s.AlsoAllows+"; every tool and command to read "+p+", with all below it", "; ")
		}
		if also != "" && !strings.Contains(s.AlsoAllows, also) {
			s.AlsoAllows = strings.TrimPrefix(s.AlsoAllows+"; "+also, "; ")
		}
	}
	if len(s.Rules) == 0 || !r.suffices(s.Rules) {
		return nil
	}
	return s
}

// suffices checks that the suggested rules leave nothing to ask about.
func (r *run) suffices(patterns []string) bool {
	rules := make([]Rule, len(patterns))
	for i, p := range patterns {
		rules[i] = Rule{Kind: AllowRule, Pattern: p, Source: Source{Kind: SourceSession}}
	}
	set, err := NewRuleSet(rules, r.st.rules.Base())
	if err != nil {
		return false
	}
	st := &state{rules: set, mode: r.st.mode}
	for i := range r.parts {
		if r.verdicts[i].decided && r.verdicts[i].verdict == Allow {
			continue
		}
		if m := st.allow(r.facts, &r.parts[i], r.when); m.rule == nil {
			return false
		}
	}
	return true
}

// floorAdvice says what would help where a check asks in every mode.
func floorAdvice(why Reason) string {
	switch w := why.(type) {
	case RuleReason:
		if w.Kind == AskRule {
			return "narrow the ask rule; an allow rule does not override it"
		}
		return "write what is known at run time only as plain text, so that the deny rule can be compared with it"
	case HookReason:
		return "the hook " + w.Name + " asks; change the hook"
	case SafetyReason:
		switch w.Check {
		case "outside-roots":
			return "grant the directory ([filesystem] write)"
		case "protected-path":
			return "protected names are asked about each time; make the change by hand"
		case "dangerous-command":
			return "switch the entry of the table off in a trusted policy file"
		case "unreadable":
			return "write the command out in plain words"
		}
	}
	return "this check asks in every mode"
}

// ruleFor returns the narrowest allow rule for one part.
func (r *run) ruleFor(p *part) (rule, also, why string) {
	f := r.facts
	switch p.kind {
	case partCommand:
		return r.commandRuleFor(p)
	case partPath:
		a := &f.accesses[p.index]
		if !a.known() || a.err != "" || a.zone == outside && a.verb != effectRead {
			return "", "", "the path is not known or not inside the roots"
		}
		name := "file_write"
		if a.verb == effectRead {
			name = "read_file"
		}
		if f.declared && len(f.tool.Paths) > 0 {
			name = f.canonical
		}
		return name + "(" + escapeGlob(a.real) + ")", "the same for every content of " + a.real, ""
	case partRedirect:
		a := &f.accesses[p.index]
		if !a.known() {
			return "", "", "the target of the redirection is not known"
		}
		verb := "write"
		if a.verb == effectRead {
			verb = "read"
		}
		return "effect(" + verb + " " + escapeGlob(a.real) + ")", "every tool and command to " + verb + " " + a.real, ""
	case partHost:
		h := &f.hosts[p.index]
		if !h.known || h.target.broken != "" {
			return "", "", "the address is not known"
		}
		text := hostText(&h.target)
		return f.canonical + "(" + text + ")", "every address at " + text, ""
	case partTool:
		if f.isScript {
			return "", "", "a tool that nobody declared takes a command; no rule for it is suggested"
		}
		return f.call.Tool, "every call of " + f.call.Tool + ", whatever its arguments", ""
	}
	return "", "", ""
}

func hostText(t *hostTarget) string {
	host := t.host
	if t.addr.IsValid() {
		host = t.addr.String()
		if t.addr.Is6() {
			host = "[" + host + "]"
		}
	}
	if t.port != 0 {
		return host + ":" + utoa(t.port)
	}
	return host
}

func utoa(n uint16) string {
	var b [5]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

// commandRuleFor suggests the exact command, never a pattern.
func (r *run) commandRuleFor(p *part) (rule, also, why string) {
	v := &r.facts.commands[p.index]
	switch {
	case p.opaque != "":
		return "", "", "nothing is suggested for what is not known: " + p.opaque
	case v.holes || v.strict == "":
		return "", "", "the command has words that are known at run time only"
	case v.cmd.Kind == bash.ScriptFile, strings.Contains(v.name, "/") && !r.system(v.name):
		return "", "", "a program file that can be written can change after it was allowed"
	case opensAnything()[v.base] && !closedCommand(v):
		return "", "", v.base + " runs whatever it is told; allow what it should run, or write the rule yourself"
	case !harmlessAssigns(v.cmd.Assigns):
		return "", "", "variables set for a command can change what it runs"
	}
	words := make([]string, len(v.argv))
	for i, w := range v.argv {
		words[i] = quotePattern(w.Text)
	}
	text := strings.Join(words, " ")
	if strings.HasSuffix(text, ":\\*") || strings.ContainsAny(text, "\n\x00") {
		return "", "", "the command cannot be written as a rule"
	}
	if harmless := len(v.cmd.Assigns) > 0; harmless {
		also = "the same command without its variables"
	} else {
		also = "this exact command, with whatever its files say at that time"
	}
	return "run_bash(" + text + ")", also, ""
}

// readsToOpen are the paths outside of the roots that a command reads, which no view
// holds until a rule opens them.
func (r *run) readsToOpen(p *part) (paths []string, why string) {
	if p.kind != partCommand {
		return nil, ""
	}
	for _, j := range r.facts.byCommand[p.index] {
		a := &r.facts.accesses[j]
		switch {
		case a.verb != effectRead || a.known() && a.zone >= systemDir:
		case !a.known() || a.glob:
			return nil, "what it reads outside the roots is no single path; grant the directory ([filesystem] read)"
		default:
			paths = append(paths, a.real)
		}
	}
	return paths, ""
}

// usualProgram reports a program found by PATH, or named in a system directory:
// not one that merely has the name of a usual one.
func (r *run) usualProgram(v *commandView) bool { return v.name == v.base || r.system(v.name) }

// system reports a program in a directory that commands cannot write.
func (r *run) system(program string) bool {
	_, z := r.e.zoneOf(program)
	return z == systemDir
}

// closedCommand reports a sub-command whose exact command line runs what the
// project holds anyhow.
func closedCommand(v *commandView) bool {
	subs, ok := exactIsFine[v.base]
	if !ok || len(v.argv) < 2 || v.name != v.base || len(v.cmd.Via) > 0 {
		return false
	}
	if strings.HasPrefix(v.argv[1].Text, "-") || !strings.Contains(subs, " "+v.argv[1].Text+" ") {
		return false
	}
	for _, w := range v.argv[2:] {
		if t := w.Text; strings.HasPrefix(t, "-exec") || strings.HasPrefix(t, "-toolexec") || strings.HasPrefix(t, "--upload-pack") ||
			strings.HasPrefix(t, "--receive-pack") || strings.HasPrefix(t, "--config") || strings.HasPrefix(t, "--ext-diff") || strings.HasPrefix(t, "-vettool") {
			return false
		}
	}
	return true
}

// quotePattern writes a word so that [splitPattern] and [newGlob] read it back
// literally.
func quotePattern(w string) string {
	var b strings.Builder
	quote := w == "" || strings.ContainsAny(w, " \t\"'")
	if quote {
		b.WriteByte('"')
	}
	for _, c := range []byte(w) {
		if c == '*' || c == '\\' || c == '"' {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	if quote {
		b.WriteByte('"')
	}
	return b.String()
}
