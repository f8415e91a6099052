package settings

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"sandboxd/policy"
)

// AddRule writes a rule into the policy file at path, keeping everything else as
// it is, comments too. The file is made when it is not there. A rule that is
// there already is not written again.
func AddRule(path string, rule policy.Rule, owners []int) error {
	if err := checkRule(rule); err != nil {
		return err
	}
	return editFile(path, owners, func(data []byte, old *Policy) ([]byte, error) {
		for _, r := range old.Rules {
			// One that holds in some modes, cases or days only is another rule.
			limited := len(r.Modes) > 0 || len(r.Except) > 0 || !r.Expires.IsZero()
			if r.Kind == rule.Kind && r.Pattern == rule.Pattern && !limited {
				return data, nil
			}
		}
		out, err := insertRule(data, rule)
		if err != nil {
			return nil, err
		}
		return out, checkEdit(path, out, len(old.Rules)+1, rule, true)
	})
}

// RemoveRule removes the rule with this kind and pattern from the file at path
// and reports whether it was there.
func RemoveRule(path string, kind policy.Kind, pattern string, owners []int) (bool, error) {
	removed := false
	err := editFile(path, owners, func(data []byte, old *Policy) ([]byte, error) {
		n := len(old.Rules)
		for {
			out, ok := deleteRule(data, kind, pattern)
			if !ok {
				break
			}
			data, removed = out, true
			n--
		}
		if !removed {
			return data, nil
		}
		return data, checkEdit(path, data, n, policy.Rule{Kind: kind, Pattern: pattern}, false)
	})
	return removed, err
}

// editFile reads, changes and replaces a TOML policy file.
func editFile(path string, owners []int, edit func([]byte, *Policy) ([]byte, error)) error {
	if strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml") {
		return &Error{File: path, Text: "only TOML files are edited"}
	}
	// The file behind a link is edited, not the link replaced.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	data, err := readChecked(path, owners, false)
	mode := fs.FileMode(0o644)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return &Error{File: path, Text: "cannot be written: " + err.Error()}
		}
	case err != nil:
		return err
	default:
		if st, err := os.Stat(path); err == nil {
			mode = st.Mode().Perm()
		}
	}
	old, err := Parse(policy.Source{File: path}, data)
	if err != nil {
		return err
	}
	out, err := edit(data, old)
	if err != nil || bytes.Equal(out, data) && data != nil {
		return err
	}
	return writeAtomic(path, out, mode)
}

// checkEdit reads an edited file back: it must hold n rules, and the rule in
// question or not.
func checkEdit(path string, data []byte, n int, rule policy.Rule, there bool) error {
	p, err := Parse(policy.Source{File: path}, data)
	bug := &Error{File: path, Text: "this file cannot be edited by sbx; change it by hand"}
	if err != nil || len(p.Rules) != n {
		return bug
	}
	found := slices.ContainsFunc(p.Rules, func(r policy.Rule) bool { return r.Kind == rule.Kind && r.Pattern == rule.Pattern })
	if found != there {
		return bug
	}
	return nil
}

// tomlList is the array of one kind of rules in a file, as offsets.
type tomlList struct {
	header int // after the line of [rules]; -1 when there is none
	open   int // after the [ of the array; -1 when there is none
	items  []span
	texts  []string // the rule of each item
}

type span struct{ from, to int }

// findRules looks for the rules of a kind.
func findRules(data []byte, kind policy.Kind) tomlList {
	l := tomlList{header: -1, open: -1}
	var p unstable.Parser
	p.Reset(data)
	inRules := false
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			var path []string
			last := 0
			keys := e.Key()
			for keys.Next() {
				path = append(path, string(keys.Node().Data))
				last = int(keys.Node().Raw.Offset)
			}
			inRules = e.Kind == unstable.Table && slices.Equal(path, []string{"rules"})
			if inRules {
				l.header = len(data)
				if n := bytes.IndexByte(data[last:], '\n'); n >= 0 {
					l.header = last + n + 1
				}
			}
		case unstable.KeyValue:
			keys := e.Key()
			if !inRules || !keys.Next() || string(keys.Node().Data) != kind.String() || keys.Next() || e.Value().Kind != unstable.Array {
				continue
			}
			l.array(data, int(e.Raw.Offset), e.Value())
		}
	}
	return l
}

// array records the items of an array whose key-value begins at offset.
func (l *tomlList) array(data []byte, offset int, value *unstable.Node) {
	equals := bytes.IndexByte(data[offset:], '=')
	bracket := bytes.IndexByte(data[offset+equals:], '[')
	if equals < 0 || bracket < 0 {
		return
	}
	l.open = offset + equals + bracket + 1
	children := value.Children()
	for children.Next() {
		item := children.Node()
		from := int(item.Raw.Offset)
		switch item.Kind {
		case unstable.String:
			l.items = append(l.items, span{from, from + int(item.Raw.Length)})
			l.texts = append(l.texts, string(item.Data))
		case unstable.InlineTable:
			l.items = append(l.items, span{from, closingBrace(data, from)})
			l.texts = append(l.texts, ruleOf(item))
		}
	}
}

// ruleOf returns the rule of an inline table.
func ruleOf(item *unstable.Node) string {
	pairs := item.Children()
	for pairs.Next() {
		if pairs.Node().Kind != unstable.KeyValue {
			continue
		}
		keys := pairs.Node().Key()
		if keys.Next() && string(keys.Node().Data) == "rule" {
			return string(pairs.Node().Value().Data)
		}
	}
	return ""
}

// closingBrace returns the offset after the } that closes the { at from.
func closingBrace(data []byte, from int) int {
	depth := 0
	for i := from; i < len(data); i++ {
		switch c := data[i]; c {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '#':
			if n := bytes.IndexByte(data[i:], '\n'); n >= 0 {
				i += n
			}
		case '"', '\'':
			mark := data[i : i+1]
			if bytes.HasPrefix(data[i:], bytes.Repeat(mark, 3)) {
				mark = bytes.Repeat(mark, 3)
			}
			for i += len(mark); i < len(data) && !bytes.HasPrefix(data[i:], mark); i++ {
				if data[i] == '\\' && c == '"' {
					i++
				}
			}
			i += len(mark) - 1
		}
	}
	return len(data)
}

// insertRule writes a rule at the front of its list, which needs no knowledge of
// commas and comments at its end.
func insertRule(data []byte, rule policy.Rule) ([]byte, error) {
	text := ruleTOML(rule)
	l := findRules(data, rule.Kind)
	switch {
	case l.open >= 0:
		return slices.Concat(data[:l.open], []byte("\n  "+text+","), pad(data[l.open:]), data[l.open:]), nil
	case l.header >= 0:
		lead := ""
		if l.header > 0 && data[l.header-1] != '\n' {
			lead = "\n"
		}
		return slices.Concat(data[:l.header], []byte(lead+rule.Kind.String()+" = [\n  "+text+",\n]\n"), data[l.header:]), nil
	}
	lead := ""
	if len(data) > 0 {
		lead = "\n"
		if data[len(data)-1] != '\n' {
			lead = "\n\n"
		}
	}
	return slices.Concat(data, []byte(lead+"[rules]\n"+rule.Kind.String()+" = [\n  "+text+",\n]\n")), nil
}

// pad keeps what follows on the line apart from the new rule.
func pad(rest []byte) []byte {
	if len(rest) > 0 && rest[0] != '\n' && rest[0] != ' ' {
		return []byte("\n")
	}
	return nil
}

// deleteRule removes the first item with this rule and its comma; a line that
// held nothing else goes with it.
func deleteRule(data []byte, kind policy.Kind, pattern string) ([]byte, bool) {
	l := findRules(data, kind)
	k := slices.Index(l.texts, pattern)
	if k < 0 {
		return data, false
	}
	from, to := l.items[k].from, l.items[k].to
	after := skipBlanks(data, to)
	if after < len(data) && data[after] == ',' {
		to = after + 1
	} else {
		for k > 0 && from > l.items[k-1].to && data[from-1] != ',' && data[from-1] != '#' {
			from--
		}
		if k > 0 && from > l.items[k-1].to {
			from-- // the comma before
		}
	}
	start := from
	for start > 0 && (data[start-1] == ' ' || data[start-1] == '\t') {
		start--
	}
	if start > 0 && data[start-1] == '\n' && to < len(data) && data[to] == '\n' {
		from, to = start, to+1
	}
	return slices.Concat(data[:from], data[to:]), true
}

// skipBlanks returns the offset of what follows blanks, newlines and comments.
func skipBlanks(data []byte, at int) int {
	for at < len(data) {
		switch data[at] {
		case ' ', '\t', '\r', '\n':
			at++
		case '#':
			n := bytes.IndexByte(data[at:], '\n')
			if n < 0 {
				return len(data)
			}
			at += n
		default:
			return at
		}
	}
	return at
}
