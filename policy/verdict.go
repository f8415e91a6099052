package policy

import "fmt"

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

// MarshalText writes allow, ask or deny.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// ParseVerdict reads allow, ask or deny. On an error the verdict is Deny.
func ParseVerdict(s string) (Verdict, error) {
	for _, v := range []Verdict{Deny, Ask, Allow} {
		if v.String() == s {
			return v, nil
		}
	}
	return Deny, fmt.Errorf("unknown verdict %q: want allow, ask or deny", s)
}
