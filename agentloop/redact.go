package agentloop

import (
	"slices"
	"strings"
	"sync/atomic"

	"sandboxd/policy"
)

// Redactor masks secrets in texts that are kept or shown. It knows the values of
// variables whose names tell of a secret, and the usual forms of tokens. The zero
// Redactor knows the forms alone. It is safe for concurrent use.
//
// # Limits
//
// A secret of no known form that stands in no such variable is not found, nor is
// one that was encoded.
type Redactor struct {
	values []string // longest first
	later  atomic.Pointer[[]string]
}

// mask stands where a secret was.
const mask = "[secret]"

// minSecret is the shortest value that is looked for: a shorter one stands by
// chance in any text.
const minSecret = 6

// NewRedactor knows the values of the variables in environ that look secret.
func NewRedactor(environ []string) *Redactor {
	r := &Redactor{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if secretValue(name, value) && !slices.Contains(r.values, value) {
			r.values = append(r.values, value)
		}
	}
	longestFirst(r.values)
	return r
}

// longestFirst is the order in which values are replaced: one may be a part of
// another.
func longestFirst(values []string) {
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
}

// Learn makes r mask values that it is told of later. They are no variables' whose
// names could mislead: all of [minSecret] characters are masked.
func (r *Redactor) Learn(values ...string) {
	for {
		old := r.later.Load()
		var list []string
		if old != nil {
			list = slices.Clone(*old)
		}
		for _, v := range values {
			if len(v) >= minSecret && !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
		longestFirst(list)
		if r.later.CompareAndSwap(old, &list) {
			return
		}
	}
}

// learned are the values of Learn.
func (r *Redactor) learned() []string {
	if list := r.later.Load(); list != nil {
		return *list
	}
	return nil
}

// secretValue reports whether the value of a variable is to be masked. Paths are
// not: PWD and SSH_AUTH_SOCK name places.
func secretValue(name, value string) bool {
	return secretName(name) && len(value) >= minSecret && !strings.HasPrefix(value, "/")
}

// secretField is secretName for the fields of arguments, where words such as key
// and pass have honest uses.
func secretField(name string) bool {
	upper := strings.ToUpper(strings.ReplaceAll(name, "_", ""))
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(upper, part) })
}

// Mask returns s with every secret that is found replaced.
func (r *Redactor) Mask(s string) string {
	if s == "" {
		return s
	}
	if r != nil {
		for _, list := range [][]string{r.values, r.learned()} {
			for _, v := range list {
				s = strings.ReplaceAll(s, v, mask)
			}
		}
	}
	low := newLowered(s)
	for _, form := range secretForms() {
		if found := form.find(s, low); found != nil {
			s = maskGroup(found, s)
			low = newLowered(s)
		}
	}
	return s
}

// maskGroup replaces the second group of every match.
func maskGroup(found [][]int, s string) string {
	var b strings.Builder
	at := 0
	for _, m := range found {
		b.WriteString(s[at:m[4]])
		b.WriteString(mask)
		at = m[5]
	}
	b.WriteString(s[at:])
	return b.String()
}

// learning returns a Redactor that also masks the secrets of a known form in texts
// wherever else they occur.
func (r *Redactor) learning(texts ...string) *Redactor {
	out := &Redactor{}
	if r != nil {
		out.values = slices.Concat(r.values, r.learned())
	}
	for _, s := range texts {
		out.values = formSecrets(s, out.values)
	}
	longestFirst(out.values)
	return out
}

// MaskWords masks the words of a command line: a secret may be known by the flag
// before it.
func (r *Redactor) MaskWords(words []string) []string {
	var out []string
	before := ""
	for _, w := range words {
		out = append(out, r.maskAfter(before, w))
		before = w
	}
	return out
}

// maskAfter masks word, which stands after another one.
func (r *Redactor) maskAfter(before, word string) string {
	if pair := r.Mask(before + " " + word); strings.HasPrefix(before, "-") && strings.HasPrefix(pair, before+" ") {
		return pair[len(before)+1:]
	}
	return r.Mask(word)
}

// MaskArgs returns a copy of args with every secret that is found replaced. A
// value whose name tells of a secret is replaced as a whole.
func (r *Redactor) MaskArgs(args policy.Args) policy.Args {
	if args == nil {
		return nil
	}
	out := make(policy.Args, len(args))
	for name, v := range args {
		out[r.Mask(name)] = r.maskValue(name, v)
	}
	return out
}

func (r *Redactor) maskValue(name string, v any) any {
	switch v := v.(type) {
	case string:
		if secretField(name) && v != "" {
			return mask
		}
		return r.Mask(v)
	case []any:
		out, before := make([]any, len(v)), ""
		for i := range v {
			word, isText := v[i].(string)
			if isText && !secretField(name) {
				out[i] = r.maskAfter(before, word)
			} else {
				out[i] = r.maskValue(name, v[i])
			}
			before = word
		}
		return out
	case map[string]any:
		return map[string]any(r.MaskArgs(v))
	}
	return v
}

// MaskEnviron returns environ without the variables that look secret.
func MaskEnviron(environ []string) []string {
	var out []string
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); !secretName(name) || strings.HasPrefix(value, "/") {
			out = append(out, entry)
		}
	}
	return out
}
