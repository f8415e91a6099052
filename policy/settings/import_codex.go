package settings

import (
	"strings"

	"sandboxd/policy"
)

// maxAlternatives bounds the product of the alternatives of one prefix_rule.
const maxAlternatives = 1000

// importCodexRules reads a .rules file of Codex (execpolicy): prefix_rule,
// network_rule and host_executable. The strictest matching rule wins there as
// here.
func importCodexRules(source policy.Source, data []byte) (*Policy, []Imported, error) {
	calls, err := parseStarlark(source.File, data)
	if err != nil {
		return nil, nil, err
	}
	i := newImporter(source)
	for _, c := range calls {
		var err error
		switch c.name {
		case "prefix_rule":
			err = i.codexPrefix(c)
		case "network_rule":
			err = i.codexNetwork(c)
		case "host_executable":
			i.note(c.line, "host_executable", Refused, "which files a name may mean is not part of a rule here")
		default:
			err = &Error{File: source.File, Line: c.line, Text: "unknown call " + quote(c.name)}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return i.result()
}

// codexArgs checks the names of the arguments.
func (i *importer) codexArgs(c call, positional ...string) (map[string]*node, error) {
	args := map[string]*node{}
	for k, a := range c.args {
		name := a.key
		if name == "" {
			if k >= len(positional) {
				return nil, &Error{File: i.file, Line: a.line, Text: c.name + ": too many arguments"}
			}
			name = positional[k]
		}
		known := false
		for _, p := range positional {
			known = known || p == name
		}
		if !known || args[name] != nil {
			return nil, &Error{File: i.file, Line: a.line, Text: c.name + ": argument " + quote(name) + " is unknown or given twice"}
		}
		args[name] = a.value
	}
	return args, nil
}

func (i *importer) codexKind(n *node, fallback policy.Kind) (policy.Kind, error) {
	if n == nil || n.kind == null {
		return fallback, nil
	}
	switch {
	case n.isText() && n.text == "allow":
		return policy.AllowRule, nil
	case n.isText() && n.text == "prompt":
		return policy.AskRule, nil
	case n.isText() && (n.text == "forbidden" || n.text == "deny"):
		return policy.DenyRule, nil
	}
	return policy.DenyRule, i.errorf(n, "decision must be allow, prompt or forbidden")
}

func (i *importer) codexPrefix(c call) error {
	args, err := i.codexArgs(c, "pattern", "decision", "match", "not_match", "justification")
	if err != nil {
		return err
	}
	pattern := args["pattern"]
	if !pattern.isArray() || len(pattern.items) == 0 {
		return &Error{File: i.file, Line: c.line, Text: "prefix_rule needs a pattern: a list of words"}
	}
	kind, err := i.codexKind(args["decision"], policy.AllowRule) // Codex's default
	if err != nil {
		return err
	}
	s := statement{line: c.line, kind: kind}
	if j := args["justification"]; j.isText() {
		s.reason = j.text
	}
	words, err := i.codexWords(pattern)
	if err != nil {
		return err
	}
	if err := i.codexExamples(args, words); err != nil {
		return err
	}
	for _, w := range words {
		s.text = shorten("prefix_rule " + kind.String() + " " + strings.Join(w, " "))
		i.prefixRule(s, w)
	}
	return nil
}

// codexWords multiplies out the alternatives of a pattern.
func (i *importer) codexWords(pattern *node) ([][]string, error) {
	out := [][]string{nil}
	for _, item := range pattern.items {
		choices := []*node{item}
		if item.isArray() {
			choices = item.items
		}
		var next [][]string
		for _, choice := range choices {
			if !choice.isText() {
				return nil, i.errorf(item, "a pattern holds strings and lists of strings")
			}
			for _, prefix := range out {
				next = append(next, append(append([]string(nil), prefix...), choice.text))
			}
		}
		if len(next) == 0 || len(next) > maxAlternatives {
			return nil, i.errorf(item, "a pattern must have from 1 to %d alternatives", maxAlternatives)
		}
		out = next
	}
	return out, nil
}

// codexExamples checks match and not_match as Codex does: a wrong example
// refuses the file.
func (i *importer) codexExamples(args map[string]*node, words [][]string) error {
	for _, name := range []string{"match", "not_match"} {
		list := args[name]
		if list == nil || list.kind == null {
			continue
		}
		if !list.isArray() {
			return i.errorf(list, "%s must be a list", name)
		}
		for _, item := range list.items {
			var example []string
			switch {
			case item.isText():
				example = splitWords(item.text)
			case item.isArray():
				for _, w := range item.items {
					example = append(example, w.text)
				}
			}
			if len(example) == 0 {
				return i.errorf(item, "%s holds an empty example", name)
			}
			if matchesPrefix(example, words) != (name == "match") {
				return i.errorf(item, "%s: the example %s is wrong", name, quote(strings.Join(example, " ")))
			}
		}
	}
	return nil
}

func matchesPrefix(command []string, prefixes [][]string) bool {
	for _, p := range prefixes {
		if len(command) >= len(p) && strings.Join(command[:len(p)], "\x00") == strings.Join(p, "\x00") {
			return true
		}
	}
	return false
}

// splitWords cuts an example as a POSIX shell would, without expansions. Text
// with an open quote gives nothing.
func splitWords(s string) []string {
	var out []string
	var word strings.Builder
	inWord, mark := false, byte(0)
	for k := 0; k < len(s); k++ {
		c := s[k]
		switch {
		case mark != 0 && c == mark:
			mark = 0
		case mark == '\'':
			word.WriteByte(c)
		case c == '\\' && k+1 < len(s):
			k++
			if mark == '"' && !strings.ContainsRune("\"\\$`", rune(s[k])) {
				word.WriteByte('\\')
			}
			word.WriteByte(s[k])
			inWord = true
		case mark == 0 && (c == '\'' || c == '"'):
			mark, inWord = c, true
		case mark == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if inWord {
				out = append(out, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if mark != 0 {
		return nil
	}
	if inWord {
		out = append(out, word.String())
	}
	return out
}

func (i *importer) codexNetwork(c call) error {
	args, err := i.codexArgs(c, "host", "protocol", "decision", "justification")
	if err != nil {
		return err
	}
	host, protocol := args["host"], args["protocol"]
	if !host.isText() || !protocol.isText() {
		return &Error{File: i.file, Line: c.line, Text: "network_rule needs host and protocol"}
	}
	kind, err := i.codexKind(args["decision"], policy.DenyRule)
	if err != nil {
		return err
	}
	s := statement{line: c.line, text: shorten("network_rule " + kind.String() + " " + host.text), kind: kind}
	if j := args["justification"]; j.isText() {
		s.reason = j.text
	}
	if kind != policy.AllowRule {
		i.rules(s, "every protocol", "effect(network "+host.text+")")
		return nil
	}
	port := map[string]string{"https": "443", "http": "80", "https_connect": "443"}[protocol.text]
	if problem := hostProblem(host.text); problem != "" || port == "" {
		if problem == "" {
			problem = "protocol " + protocol.text + " has no port of its own; name the host with its port in network.allow"
		}
		i.note(c.line, s.text, Refused, problem)
		return nil
	}
	i.p.Network = append(i.p.Network, Entry{host.text + ":" + port, i.p.source(c.line)})
	i.note(c.line, s.text, Narrowed, "port "+port+" only", "network "+host.text+":"+port)
	return nil
}
