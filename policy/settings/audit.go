package settings

import (
	"fmt"

	"sandboxd/policy"
)

// Audit is the table [audit].
type Audit struct {
	// OnFailure is what becomes of a call whose row cannot be written: "refuse", which
	// holds where nothing is said, or "run". Any source may say refuse; run is the
	// managed policy's to say.
	OnFailure Value[string]
	// Run says that sbx run, which needs no daemon, writes rows too.
	Run Value[bool]
}

const (
	auditRefuse = "refuse"
	auditRun    = "run"
)

// audit decodes one key of [audit].
func (d *decoder) audit(m member) (err error) {
	switch a := &d.p.Audit; m.key {
	case "on_failure":
		a.OnFailure, err = d.word(m.value, "audit.on_failure", []string{auditRefuse, auditRun})
	case "run":
		var yes bool
		yes, err = d.boolOf(m.value, "audit.run")
		a.Run = set(yes, d.from(m.value))
	}
	return err
}

// audit merges the table [audit]. A log that the machine's administrator wants is not
// given up by those whose calls stand in it.
func (m *merger) audit(l layer) {
	out, in := &m.out.Policy.Audit, l.Audit
	pick(m, l, "audit.run", &out.Run, in.Run, switchedOff)
	switch v := in.OnFailure; {
	case !v.Set:
	case v.V == auditRefuse:
		out.OnFailure = v
	case l.Source.Kind != policy.SourceManaged:
		m.ignore(v.From, fmt.Sprintf("audit.on_failure = %s", v.V), "only the managed policy says so, or the daemon's --on-audit-failure")
	case out.OnFailure.V != auditRefuse:
		out.OnFailure = v
	}
}

// RefusesUnrecorded and RunsUnrecorded say what the policy has for calls whose row
// cannot be written; where both are false it has nothing to say.
func (a Audit) RefusesUnrecorded() bool { return a.OnFailure.V == auditRefuse }

// RunsUnrecorded is the contrary of [Audit.RefusesUnrecorded].
func (a Audit) RunsUnrecorded() bool { return a.OnFailure.V == auditRun }
