package policy

import (
	"fmt"
	"strings"

	"sandboxd/policy/bash"
)

// Explanation is the heuristic reading of a call, for the person who is asked.
// It never changes a decision.
type Explanation struct {
	// RiskLevel is LOW, MEDIUM or HIGH.
	RiskLevel string `json:"risk_level"`
	// Explanation is what the call does, Reasoning why it has this level, Risk
	// what could go wrong.
	Explanation string `json:"explanation"`
	Reasoning   string `json:"reasoning"`
	Risk        string `json:"risk"`
}

// Explain reads a call. It decides nothing.
func (e *Engine) Explain(c Call) Explanation {
	r := &run{e: e, st: e.state.Load(), trace: newTracer(e.now)}
	r.when = e.when(r.st)
	r.facts = e.gather(c, r.st.rules)
	return r.explain()
}

// riskLevel orders the levels.
type riskLevel uint8

const (
	lowRisk riskLevel = iota
	mediumRisk
	highRisk
)

func (l riskLevel) String() string {
	switch l {
	case mediumRisk:
		return "MEDIUM"
	case highRisk:
		return "HIGH"
	case lowRisk:
		return "LOW"
	}
	return "HIGH"
}

// explainer collects what is said about a call; the highest level gives the
// reason and the risk.
type explainer struct {
	level     riskLevel
	does      []string
	reasoning string
	risk      string
}

func (x *explainer) note(level riskLevel, reasoning, risk string) {
	if x.reasoning == "" || level > x.level {
		x.level, x.reasoning, x.risk = level, reasoning, risk
	}
}

func (x *explainer) result() Explanation {
	return Explanation{RiskLevel: x.level.String(), Explanation: strings.Join(x.does, "; "), Reasoning: x.reasoning, Risk: x.risk}
}

// maxExplained bounds how many commands are described one by one.
const maxExplained = 6

func (r *run) explain() Explanation {
	x := &explainer{}
	f := r.facts
	if f.isScript {
		r.explainScript(x)
	} else {
		x.does = append(x.does, toolText(f))
	}
	for i := range f.accesses {
		r.explainAccess(x, &f.accesses[i])
	}
	for i := range f.hosts {
		x.note(mediumRisk, "contacts "+readable(f.hosts[i].text), "what is sent leaves this machine, and what comes back may be hostile text")
	}
	if !f.declared {
		x.note(mediumRisk, "nothing is known about the tool "+f.call.Tool, "it may do anything its server can do")
	}
	if f.declared && !f.isScript && !f.tool.ReadOnly {
		x.note(mediumRisk, "the tool changes something", "the change may be wrong")
	}
	x.note(lowRisk, "only reads inside the roots", "what is read becomes part of the conversation")
	return x.result()
}

func toolText(f *facts) string {
	what := f.canonical
	for i := range f.accesses {
		if !f.declared {
			break
		}
		verb := "reads "
		if f.accesses[i].verb != effectRead {
			verb = "writes "
		}
		what += ": " + verb + f.accesses[i].raw
	}
	for i := range f.hosts {
		what += ": fetches " + readable(f.hosts[i].text)
	}
	return what
}

func (r *run) explainScript(x *explainer) {
	f := r.facts
	for i := range f.analysis.Unknown {
		if u := &f.analysis.Unknown[i]; u.Unreadable() {
			x.note(highRisk, withText(u.Kind.String(), readable(u.Text)), "commands that nobody saw may run")
		} else {
			x.note(mediumRisk, withText(u.Kind.String(), readable(u.Text)), "what happens is known at run time only")
		}
	}
	for i := range f.analysis.Dangers {
		d := &f.analysis.Dangers[i]
		x.note(highRisk, d.Kind.String()+": "+readable(d.Text), "it reaches beyond the work at hand")
	}
	for i := range f.commands {
		v := &f.commands[i]
		if len(v.argv) == 0 {
			continue
		}
		if len(x.does) < maxExplained {
			x.does = append(x.does, describeCommand(v))
		}
		if rule := r.e.danger.on.dangerRule(v); rule != nil {
			x.note(highRisk, v.base+": "+rule.Reason, "it cannot be undone, or it affects the whole host")
		}
		r.explainCommand(x, v)
	}
	if n := len(f.commands); n > maxExplained {
		x.does = append(x.does, fmt.Sprintf("and %d more commands", n-maxExplained))
	}
}

func (r *run) explainCommand(x *explainer, v *commandView) {
	key := v.base
	words := v.argv
	if v.plain != nil {
		words = v.plain
	}
	if len(words) > 1 {
		if k, ok := commandRisks()[v.base+" "+words[1].Text]; ok {
			x.note(k.level, v.base+" "+words[1].Text+" "+k.does, k.risk)
			return
		}
	}
	switch k, ok := commandRisks()[key]; {
	case ok:
		x.note(k.level, key+" "+k.does, k.risk)
	case v.cmd.ReadOnly:
		x.note(lowRisk, key+" only reads", "what is read becomes part of the conversation")
	case v.cmd.Kind == bash.Builtin, v.cmd.Kind == bash.Function:
		x.note(lowRisk, key+" is part of the script", "none by itself")
	default:
		x.note(mediumRisk, "nothing is known about "+readable(v.loose[0]), "it may change whatever it can reach")
	}
}

// describeCommand is one phrase about a command.
func describeCommand(v *commandView) string {
	text := readable(v.loose[0])
	if len(text) > 80 {
		cut := 77
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut] + "..."
	}
	if k, ok := commandRisks()[v.base]; ok {
		return text + " (" + k.does + ")"
	}
	return text
}

func (r *run) explainAccess(x *explainer, a *access) {
	if !r.facts.declared || a.zone == discard {
		return
	}
	where := a.real
	if where == "" {
		where = readable(a.raw)
	}
	switch {
	case a.verb == effectRead && secretPath(a.real):
		x.note(highRisk, "reads "+where+", where secrets are kept", "the secret becomes part of the conversation")
	case a.verb == effectRead && a.known() && a.zone == outside:
		x.note(mediumRisk, "reads "+where+", outside the roots", "what is read becomes part of the conversation")
	case a.verb == effectRead:
	case a.protected != "":
		x.note(highRisk, "changes "+where+": "+a.protected, "other programs take orders from this file")
	case a.known() && systemPath(a.real):
		x.note(highRisk, "changes "+where+", a part of the system", "the system may stop working")
	case a.known() && a.zone < writeRoot:
		x.note(highRisk, "changes "+where+", outside the roots", "it is not part of the work at hand")
	case a.verb == effectDelete && a.command >= 0 && r.facts.commands[a.command].base == "mv":
		x.note(mediumRisk, "moves "+where, "what was at the target before is replaced")
	case a.verb == effectDelete && a.tree:
		x.note(highRisk, "removes "+where+" with all below it", "what was not committed is lost")
	case a.verb == effectDelete:
		x.note(mediumRisk, "removes "+where, "what was not committed is lost")
	default:
		x.note(mediumRisk, "writes "+where, "what a file of this name holds is replaced")
	}
}

// systemPath reports paths that belong to the system as a whole.
func systemPath(p string) bool {
	for _, d := range []string{"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/dev", "/proc", "/sys", "/var/lib", "/var/log", "/root", "/opt"} {
		if within(p, d) {
			return true
		}
	}
	return p == "/"
}

// secretPath reports the usual places of secrets.
func secretPath(p string) bool {
	for _, part := range []string{"/.ssh/", "/.gnupg/", "/.aws/", "/.kube/", "/.config/gcloud/", "/.docker/config.json", "/.netrc", "/.npmrc", "/.pypirc",
		"/.git-credentials", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/.env", "/id_rsa", "/id_ed25519"} {
		if strings.HasSuffix(part, "/") && (strings.Contains(p, part) || strings.HasSuffix(p, part[:len(part)-1])) {
			return true
		}
		if strings.HasSuffix(p, part) {
			return true
		}
	}
	return false
}
