package policy

// Verdict orders decisions by strictness. The zero value denies, so a
// forgotten assignment can never open anything.
type Verdict uint8

const (
	Deny Verdict = iota
	Ask
	Allow
)

// Strictest returns the stricter of a and b.
func Strictest(a, b Verdict) Verdict { return min(a, b) }

func (v Verdict) String() string {
	switch v {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	case Deny:
		return "deny"
	}
	return "deny"
}
