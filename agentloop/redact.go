package agentloop

import (
	"regexp"
	"slices"
	"strings"
	"sync"
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
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	return r
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
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
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

// secretForms are the forms of tokens that say what they are. The last group of
// each is the secret, what stands before it is kept.
var secretForms = sync.OnceValue(func() []*regexp.Regexp {
	var list []*regexp.Regexp
	for _, form := range []string{
		`()(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z))`,
		`()\b((?:AKIA|ASIA)[0-9A-Z]{16})\b`,
		`()\b(gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255})`,
		`()\b(glpat-[A-Za-z0-9_-]{16,})`,
		`()\b(xox[abeoprs]-[A-Za-z0-9-]{10,})`,
		`()\b(sk-[A-Za-z0-9_-]{16,})`,
		`()\b(AIza[A-Za-z0-9_-]{30,})`,
		`()\b(npm_[A-Za-z0-9]{30,})`,
		`()\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`,
		`(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})`,
		`(?i)(://[^\s/:@]*:)([^\s/@]+)(?:@)`,
		`(?i)((?:[a-z0-9_-]*(?:token|secret|passwd|password|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential)[a-z0-9_-]*)["']?\s*[=:]\s*["']?)([^\s"'&;|<>]{4,})`,
		`(?i)(--(?:password|passwd|token|secret|api-key|access-key|auth-token)[= ]["']?)([^\s"'&;|<>]{4,})`,
	} {
		list = append(list, regexp.MustCompile(form))
	}
	return list
})

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
	for _, form := range secretForms() {
		s = maskGroup(form, s)
	}
	return s
}

// maskGroup replaces the second group of every match.
func maskGroup(form *regexp.Regexp, s string) string {
	found := form.FindAllStringSubmatchIndex(s, -1)
	if found == nil {
		return s
	}
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
		for _, form := range secretForms() {
			for _, m := range form.FindAllStringSubmatch(s, -1) {
				if len(m[2]) >= minSecret && m[2] != mask && !slices.Contains(out.values, m[2]) {
					out.values = append(out.values, m[2])
				}
			}
		}
	}
	slices.SortFunc(out.values, func(a, b string) int { return len(b) - len(a) })
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
