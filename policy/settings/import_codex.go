package settings

import (
	"path"
	"slices"
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
	i := codexImporter{importer: newImporter(source), executables: map[string][]string{}}
	for _, c := range calls {
		if c.name == "host_executable" {
			if err := i.codexExecutable(c); err != nil {
				return nil, nil, err
			}
		}
	}
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

// codexImporter refuses what Codex refuses: of a refused file none of its allow
// rules holds there.
type codexImporter struct {
	*importer
	// executables are the files that a bare name may mean in examples.
	executables map[string][]string
}

// codexExecutable reads host_executable, whose paths must end in the name.
func (i *codexImporter) codexExecutable(c call) error {
	args, err := i.codexArgs(c, "name", "paths")
	if err != nil {
		return err
	}
	name, paths := args["name"], args["paths"]
	if !name.isText() || name.text == "" || strings.Contains(name.text, "/") || !paths.isArray() {
		return &Error{File: i.file, Line: c.line, Text: "host_executable needs a name without / and a list of paths"}
	}
	i.executables[name.text] = []string{}
	for _, p := range paths.items {
		if !p.isText() || !strings.HasPrefix(p.text, "/") || path.Base(p.text) != name.text {
			return i.errorf(p, "a path of host_executable is absolute and ends in its name")
		}
		i.executables[name.text] = append(i.executables[name.text], p.text)
	}
	return nil
}

// codexArgs checks the names of the arguments.
func (i *codexImporter) codexArgs(c call, positional ...string) (map[string]*node, error) {
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

// codexKind reads a decision.
func (i *codexImporter) codexKind(n *node) (policy.Kind, error) {
	if n.isText() {
		switch n.text {
		case "allow":
			return policy.AllowRule, nil
		case "prompt":
			return policy.AskRule, nil
		case "forbidden":
			return policy.DenyRule, nil
		}
	}
	return policy.DenyRule, i.errorf(n, "decision must be allow, prompt or forbidden")
}

// codexReason reads a justification, which is a text or missing.
func (i *codexImporter) codexReason(n *node) (string, error) {
	if n == nil {
		return "", nil
	}
	if !n.isText() || strings.TrimSpace(n.text) == "" {
		return "", i.errorf(n, "justification must be a text that is not empty")
	}
	return n.text, nil
}

func (i *codexImporter) codexPrefix(c call) error {
	args, err := i.codexArgs(c, "pattern", "decision", "match", "not_match", "justification")
	if err != nil {
		return err
	}
	pattern := args["pattern"]
	if !pattern.isArray() || len(pattern.items) == 0 {
		return &Error{File: i.file, Line: c.line, Text: "prefix_rule needs a pattern: a list of words"}
	}
	s := statement{line: c.line, kind: policy.AllowRule} // Codex's default
	if d := args["decision"]; d != nil {
		if s.kind, err = i.codexKind(d); err != nil {
			return err
		}
	}
	if s.reason, err = i.codexReason(args["justification"]); err != nil {
		return err
	}
	words, err := i.codexWords(pattern)
	if err != nil {
		return err
	}
	if err := i.codexExamples(args, words); err != nil {
		return err
	}
	for _, w := range words {
		s.text = shorten("prefix_rule " + s.kind.String() + " " + strings.Join(w, " "))
		i.prefixRule(s, w)
	}
	return nil
}

// codexWords multiplies out the alternatives of a pattern.
func (i *codexImporter) codexWords(pattern *node) ([][]string, error) {
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
func (i *codexImporter) codexExamples(args map[string]*node, words [][]string) error {
	for _, name := range []string{"match", "not_match"} {
		list := args[name]
		if list == nil {
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
			if i.matchesPrefix(example, words) != (name == "match") {
				return i.errorf(item, "%s: the example %s is wrong", name, quote(strings.Join(example, " ")))
			}
		}
	}
	return nil
}

// matchesPrefix compares an example: as written, and a program by path also by
// its name, unless host_executable lists other files for that.
func (i *codexImporter) matchesPrefix(command []string, prefixes [][]string) bool {
	if name := path.Base(command[0]); strings.Contains(command[0], "/") {
		files, listed := i.executables[name]
		if !listed || slices.Contains(files, command[0]) {
			if matchesWords(append([]string{name}, command[1:]...), prefixes) {
				return true
			}
		}
	}
	return matchesWords(command, prefixes)
}

func matchesWords(command []string, prefixes [][]string) bool {
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

// codexProtocols are the protocols that Codex knows, with the port of each.
var codexProtocols = map[string]string{
	"http": "80", "https": "443", "https_connect": "443", "http-connect": "443", "socks5_tcp": "", "socks5_udp": "",
}

func (i *codexImporter) codexNetwork(c call) error {
	args, err := i.codexArgs(c, "host", "protocol", "decision", "justification")
	if err != nil {
		return err
	}
	host, protocol := args["host"], args["protocol"]
	if !host.isText() || !protocol.isText() || args["decision"] == nil {
		return &Error{File: i.file, Line: c.line, Text: "network_rule needs host, protocol and decision"}
	}
	if strings.TrimSpace(host.text) == "" || strings.ContainsAny(host.text, "*/?# \t\r\n") {
		return i.errorf(host, "network_rule names one host, without scheme, path and wildcards")
	}
	port, known := codexProtocols[protocol.text]
	if !known {
		return i.errorf(protocol, "protocol must be http, https, socks5_tcp or socks5_udp")
	}
	kind := policy.DenyRule
	if args["decision"].isText() && args["decision"].text == "deny" { // another word for forbidden, here alone
	} else if kind, err = i.codexKind(args["decision"]); err != nil {
		return err
	}
	s := statement{line: c.line, text: shorten("network_rule " + kind.String() + " " + host.text), kind: kind}
	if s.reason, err = i.codexReason(args["justification"]); err != nil {
		return err
	}
	if kind != policy.AllowRule {
		i.rules(s, "every protocol", "effect(network "+host.text+")")
		return nil
	}
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
