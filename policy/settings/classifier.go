package settings

import (
	"fmt"
	"time"

	"sandboxd/policy"
)

// Classifier is the table [classifier], of mode auto: above AllowAbove a call is
// allowed, below DenyBelow denied. Timeout bounds one try, Patience is how long a
// person is not bothered meanwhile.
type Classifier struct {
	AllowAbove, DenyBelow Value[float64]
	Timeout, Patience     Value[time.Duration]
}

// Documented defaults: policy.Thresholds and policy.Config.
const (
	defaultAllowAbove = 0.8
	defaultDenyBelow  = 0.2
)

func (d *decoder) classifier(m member) error {
	c := &d.p.Classifier
	var err error
	switch m.key {
	case "allow_above":
		if c.AllowAbove, err = d.score(m.value, "classifier.allow_above"); err == nil && c.AllowAbove.V == 0 {
			err = d.errorf(m.value, "classifier.allow_above = 0 would allow what is certainly harmful; to allow without asking there is default = \"allow\"")
		}
	case "deny_below":
		c.DenyBelow, err = d.score(m.value, "classifier.deny_below")
	case "timeout":
		c.Timeout, err = d.shortWait(m.value, "classifier.timeout")
	case "patience":
		c.Patience, err = d.shortWait(m.value, "classifier.patience")
	}
	return err
}

func (d *decoder) score(n *node, what string) (Value[float64], error) {
	v, ok := number(n)
	if !ok || !(v >= 0 && v <= 1) {
		return Value[float64]{}, d.errorf(n, "%s must be a number from 0 to 1", what)
	}
	return set(v, d.from(n)), nil
}

// shortWait is a duration of at most two minutes, as long as a person is waited for.
func (d *decoder) shortWait(n *node, what string) (Value[time.Duration], error) {
	v, err := d.duration(n, what)
	if err == nil && (v.V < 0 || v.V > 2*time.Minute) {
		return v, d.errorf(n, "%s must be at most 2m", what)
	}
	return v, err
}

// classifierTable merges [classifier]. To allow less and to deny more is tighter;
// how long is waited is neither.
func (m *merger) classifierTable(l layer) {
	out, in := &m.out.Policy.Classifier, l.Classifier
	threshold := func(name string, dst *Value[float64], v Value[float64], unset float64) {
		old := Value[float64]{V: unset, Set: true}
		if dst.Set {
			old = *dst
		}
		if v.Set && !l.trusted && v.V < old.V {
			m.ignore(v.From, fmt.Sprintf("%s = %v", name, v.V), untrusted)
		} else if v.Set && !(l.Source.Kind == policy.SourceManaged && dst.Set && dst.V >= v.V) {
			*dst = v
		}
	}
	threshold("classifier.allow_above", &out.AllowAbove, in.AllowAbove, defaultAllowAbove)
	threshold("classifier.deny_below", &out.DenyBelow, in.DenyBelow, defaultDenyBelow)
	for _, w := range []struct {
		name string
		dst  *Value[time.Duration]
		v    Value[time.Duration]
	}{{"classifier.timeout", &out.Timeout, in.Timeout}, {"classifier.patience", &out.Patience, in.Patience}} {
		switch {
		case !w.v.Set:
		case !l.trusted:
			m.ignore(w.v.From, fmt.Sprintf("%s = %v", w.name, w.v.V), untrusted)
		default:
			*w.dst = w.v
		}
	}
}

// thresholds are those in force. A tightened bound that passes the other one takes
// it along: what is denied is not allowed.
func (c Classifier) thresholds() policy.Thresholds {
	t := policy.Thresholds{AllowAbove: defaultAllowAbove, DenyBelow: defaultDenyBelow}
	if c.AllowAbove.Set {
		t.AllowAbove = c.AllowAbove.V
	}
	if c.DenyBelow.Set {
		t.DenyBelow = c.DenyBelow.V
	}
	t.AllowAbove = max(t.AllowAbove, t.DenyBelow)
	return t
}
