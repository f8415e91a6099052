package settings

import (
	"path/filepath"
	"strconv"
	"strings"

	"sandboxd/policy"
)

// environment is the variables of the caller; the last assignment of a name
// counts.
type environment map[string]string

func readEnviron(environ []string) environment {
	vars := environment{}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// dir returns the XDG base directory of a variable, below home when the variable
// is empty or not absolute (as the XDG specification wants).
func (v environment) dir(variable, fallback string) string {
	if d := v[variable]; filepath.IsAbs(d) {
		return filepath.Clean(d)
	}
	if home := v["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, fallback)
	}
	return ""
}

// fromEnvironment reads the variables of the design documents and our own. An
// unreadable value is an error: it may have been meant to deny.
//
//	AGENT_PERMISSIONS_DENY, _ASK, _ALLOW   rules, separated by commas or newlines
//	AGENT_PERMISSION_MODE, SANDBOXD_MODE   the mode
//	SANDBOXD_DEFAULT, SANDBOXD_CONFINED    the values of the same name
//	AGENT_ADDITIONAL_DIRS                  directories separated by ":", readable;
//	                                       with "=rw" behind one also writable
//	AGENT_TOOL_TIMEOUT_SECS                limits.timeout in seconds
//	AGENT_DENIAL_MAX_CONSECUTIVE, _TOTAL   limits.denials_in_row and _total
func fromEnvironment(vars environment) (*Policy, error) {
	p := &Policy{Source: policy.Source{Kind: policy.SourceCLI}}
	for _, v := range []struct {
		name string
		kind policy.Kind
	}{{"AGENT_PERMISSIONS_DENY", policy.DenyRule}, {"AGENT_PERMISSIONS_ASK", policy.AskRule}, {"AGENT_PERMISSIONS_ALLOW", policy.AllowRule}} {
		for _, rule := range splitRules(vars[v.name]) {
			p.Rules = append(p.Rules, policy.Rule{Kind: v.kind, Pattern: rule, Source: variable(v.name)})
		}
	}
	words := []struct {
		name  string
		into  *Value[string]
		known []string
	}{
		{"AGENT_PERMISSION_MODE", &p.Mode, Modes},
		{"SANDBOXD_MODE", &p.Mode, Modes},
		{"SANDBOXD_DEFAULT", &p.Default, []string{"ask", "allow", "deny"}},
		{"SANDBOXD_CONFINED", &p.Confined, []string{"ask", "allow"}},
	}
	for _, w := range words {
		if vars[w.name] == "" {
			continue
		}
		d := decoder{reader{"$" + w.name}, p}
		value, err := d.word(&node{kind: text, text: vars[w.name]}, w.name, w.known)
		if err != nil {
			return nil, err
		}
		*w.into = set(value.V, variable(w.name))
	}
	if err := numbersFrom(vars, p); err != nil {
		return nil, err
	}
	return p, directoriesFrom(vars["AGENT_ADDITIONAL_DIRS"], p)
}

func variable(name string) policy.Source {
	return policy.Source{Kind: policy.SourceCLI, File: "$" + name}
}

func numbersFrom(vars environment, p *Policy) error {
	number := func(name string) (int64, bool, error) {
		s := vars[name]
		if s == "" {
			return 0, false, nil
		}
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 1 {
			return 0, false, &Error{File: "$" + name, Text: quote(s) + " is not a number from 1"}
		}
		return n, true, nil
	}
	if n, ok, err := number("AGENT_TOOL_TIMEOUT_SECS"); err != nil {
		return err
	} else if ok {
		d, err := secondsOf(n)
		if err != nil {
			return err
		}
		p.Limits.Timeout = set(d, variable("AGENT_TOOL_TIMEOUT_SECS"))
	}
	for name, into := range map[string]*Value[int64]{
		"AGENT_DENIAL_MAX_CONSECUTIVE": &p.Limits.DenialsInRow,
		"AGENT_DENIAL_MAX_TOTAL":       &p.Limits.DenialsTotal,
	} {
		n, ok, err := number(name)
		if err != nil {
			return err
		}
		if ok {
			*into = set(n, variable(name))
		}
	}
	return nil
}

func directoriesFrom(list string, p *Policy) error {
	for dir := range strings.SplitSeq(list, ":") {
		if dir == "" {
			continue
		}
		access := policy.GrantRead
		if plain, ok := strings.CutSuffix(dir, "=rw"); ok {
			dir, access = plain, policy.GrantWrite
		}
		path, problem := pathEntry(dir)
		if problem == "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") {
			problem = "a directory must be absolute"
		}
		if problem != "" {
			return &Error{File: "$AGENT_ADDITIONAL_DIRS", Text: quote(dir) + ": " + problem}
		}
		p.Paths = append(p.Paths, policy.PathGrant{Path: path, Access: access, Source: variable("AGENT_ADDITIONAL_DIRS")})
	}
	return nil
}

// splitRules cuts a list of rules at commas and newlines that are not inside
// parentheses.
func splitRules(s string) []string {
	var out []string
	depth, start := 0, 0
	flush := func(end int) {
		if rule := strings.TrimSpace(s[start:end]); rule != "" {
			out = append(out, rule)
		}
	}
	for i, c := range s {
		switch {
		case c == '\n' || c == ',' && depth == 0:
			flush(i)
			start, depth = i+1, 0
		case c == '(':
			depth++
		case c == ')':
			depth = max(depth-1, 0)
		}
	}
	flush(len(s))
	return out
}
