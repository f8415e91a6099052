package agentloop

import (
	"slices"
	"strings"
	"sync"

	"sandboxd/policy"
)

// maxLearned bounds the secrets that a session remembers of its calls; the oldest go.
const maxLearned = 256

// keptMask masks what is kept of a session on disk. Besides what the session's own
// mask knows it knows each secret that stood in the arguments of a call where its
// flag, its field or its form told of it: the same word is in the output, in a path
// or in the next call without them. What a model or a person gets is masked by the
// session's own mask alone, since such a word may have honest uses too. It is safe
// for concurrent use.
type keptMask struct {
	base *Redactor

	mu      sync.Mutex
	values  []string  // oldest first
	red     *Redactor // of base and values
	learned int       // how many values base had learned then
}

// learn adds secrets and returns the mask that knows all.
func (k *keptMask) learn(found ...string) *Redactor {
	k.mu.Lock()
	defer k.mu.Unlock()
	fresh := k.red == nil || len(k.base.learned()) != k.learned
	for _, v := range found {
		if !slices.Contains(k.values, v) {
			k.values, fresh = append(k.values, v), true
		}
	}
	if fresh {
		k.values = k.values[max(0, len(k.values)-maxLearned):]
		later := k.base.learned()
		k.learned = len(later)
		k.red = &Redactor{values: slices.Concat(k.base.values, later, k.values)}
		longestFirst(k.red.values)
	}
	return k.red
}

// Kept is the mask for what is kept of the session. It may know more with each call.
func (s *Session) Kept() *Redactor {
	if s.kept == nil {
		return s.secrets
	}
	return s.kept.learn()
}

// keptWith is Kept after it learned the secrets of arguments.
func (s *Session) keptWith(args policy.Args) *Redactor {
	if s.kept == nil {
		return s.secrets
	}
	return s.kept.learn(secretsOf(args)...)
}

// LearnWords makes the mask of what is kept know the secrets of a command line, and
// returns it.
func (s *Session) LearnWords(words []string) *Redactor {
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = w
	}
	return s.keptWith(policy.Args{"argv": list})
}

// secretsOf are the secrets in arguments that their field, their flag or their form
// tells of.
func secretsOf(args policy.Args) (found []string) {
	for name, v := range args {
		found = secretsIn(name, v, found)
	}
	return found
}

func secretsIn(name string, v any, found []string) []string {
	switch v := v.(type) {
	case string:
		if secretField(name) {
			return addSecret(found, v)
		}
		return formSecrets(v, found)
	case []any:
		before := ""
		for i := range v {
			word, isText := v[i].(string)
			if isText && !secretField(name) && strings.HasPrefix(before, "-") {
				found = formSecrets(before+" "+word, found)
			} else {
				found = secretsIn(name, v[i], found)
			}
			before = word
		}
	case map[string]any:
		for name, x := range v {
			found = secretsIn(name, x, found)
		}
	}
	return found
}

// formSecrets adds the secrets of a known form in s.
func formSecrets(s string, found []string) []string {
	low := newLowered(s)
	for _, form := range secretForms() {
		for _, m := range form.find(s, low) {
			found = addSecret(found, s[m[4]:m[5]])
		}
	}
	return found
}

// addSecret adds a value that is looked for elsewhere: neither a path nor a
// reference, as secretValue has it.
func addSecret(found []string, v string) []string {
	if len(v) < minSecret || v == mask || v[0] == '/' || reference(v) || slices.Contains(found, v) {
		return found
	}
	return append(found, v)
}

// reference reports whether a shell would put something else in the place of v.
func reference(v string) bool {
	name, ok := strings.CutPrefix(v, "$")
	if !ok || name == "" {
		return false
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}")
	return name[0] == '(' || !strings.ContainsFunc(name, func(c rune) bool { return c != '_' && !wordByte(byte(c)) })
}

// holds reports whether a pattern holds a secret that r knows, or one of a known form.
// A form whose value is left open, as in --password=*, holds none.
func (r *Redactor) holds(pattern string) bool {
	if slices.ContainsFunc(r.values, func(v string) bool { return strings.Contains(pattern, v) }) {
		return true
	}
	low := newLowered(pattern)
	for _, form := range secretForms() {
		for _, m := range form.find(pattern, low) {
			v := pattern[m[4]:m[5]]
			if reference(v) {
				continue
			}
			if at := strings.IndexAny(v, "*?["); at >= 0 {
				v = v[:at]
			}
			if len(strings.TrimRight(v, ")")) >= 4 {
				return true
			}
		}
	}
	return false
}

// withoutSecrets is the state as it is shown and kept. A rule that holds a secret is
// left out: addRule lets none deny or ask. With one in a directory or a flag the
// session does not outlive the daemon, since without that its policy is another.
func (st SessionState) withoutSecrets(red *Redactor) SessionState {
	clean := func(s *string) {
		if masked := red.Mask(*s); masked != *s {
			*s, st.Incomplete = masked, true
		}
	}
	list := func(in []string) []string {
		out := slices.Clone(in)
		for i := range out {
			clean(&out[i])
		}
		return out
	}
	g := &st.Grant
	g.EnvSet = cleanEnviron(red, g.EnvSet)
	st.Environ = cleanEnviron(red, st.Environ)
	for _, s := range []*string{&st.Workspace, &st.Cwd, &st.Profile, &g.Workspace, &g.Dir} {
		clean(s)
	}
	st.Policy, g.Unix = list(st.Policy), list(g.Unix)
	g.Paths = slices.Clone(g.Paths)
	for i := range g.Paths {
		clean(&g.Paths[i].Path)
	}
	st.Rules = slices.DeleteFunc(slices.Clone(st.Rules), func(r SessionRule) bool { return r.Unkept })
	for i := range st.Rules {
		st.Rules[i].Reason = red.Mask(st.Rules[i].Reason)
	}
	if st.Incomplete { // nothing finds it again
		st.Key = ""
	}
	return st
}

// cleanEnviron leaves out variables that hold secrets, whatever their names are.
func cleanEnviron(red *Redactor, environ []string) []string {
	return slices.DeleteFunc(MaskEnviron(environ), func(entry string) bool { return red.Mask(entry) != entry })
}
