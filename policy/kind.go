package policy

import "fmt"

// Kind is what a rule does with a call it matches. Smaller is stronger.
type Kind uint8

const (
	DenyRule Kind = iota
	AskRule
	AllowRule
)

func (k Kind) String() string {
	switch k {
	case AskRule:
		return "ask"
	case AllowRule:
		return "allow"
	case DenyRule:
		return "deny"
	}
	return "deny"
}

// MarshalText writes deny, ask or allow.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// ParseKind reads deny, ask or allow. On an error the kind is DenyRule.
func ParseKind(s string) (Kind, error) {
	v, err := ParseVerdict(s)
	if err != nil {
		return DenyRule, fmt.Errorf("unknown kind of rule %q: want deny, ask or allow", s)
	}
	return Kind(v), nil
}
