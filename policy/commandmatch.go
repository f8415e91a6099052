package policy

import (
	"path"
	"slices"
	"strings"

	"sandboxd/policy/bash"
)

// match3 is the answer of a deny or ask rule: what is known at run time only
// may decide.
type match3 uint8

const (
	noMatch match3 = iota
	possibleMatch
	fullMatch
)

// commandView is one simple command, prepared for many comparisons. It is read
// only once it is made.
type commandView struct {
	cmd   *bash.Command
	index int
	argv  []bash.Word // without assignments
	plain []bash.Word // without global options; nil when the same
	name  string      // command word as written, "" unknown
	base  string
	// aliases are other names of the program, for deny and ask rules.
	aliases []string
	// strict is the command as written; "" when a word holds the separator,
	// which no rule matches. assigned has the assignments in front.
	strict, assigned string
	// loose are the spellings that deny and ask rules are compared with.
	loose []string
	holes bool // some word is not known
	// inherits are plain assignments of the script that reach the command when
	// the variable was in the environment before.
	inherits []bash.Word
	// mask has the bits of all words; all bits when a word is not known or
	// holds blanks.
	mask uint64
}

// newCommandView prepares c.
func newCommandView(c *bash.Command, index int) commandView {
	v := commandView{cmd: c, index: index, argv: c.Argv, base: c.Name()}
	if len(c.Argv) > 0 && c.Argv[0].Known() {
		v.name = c.Argv[0].Text
	}
	if !sameWords(c.Plain, c.Argv) {
		v.plain = c.Plain
	}
	v.called()
	for _, list := range [][]bash.Word{c.Assigns, c.Argv, v.plain} {
		for _, w := range list {
			v.mask |= wordBit(w.Text)
			if !w.Known() || strings.ContainsAny(w.Text, " \t\n") {
				v.mask = ^uint64(0)
			}
		}
	}
	for _, w := range c.Argv {
		v.holes = v.holes || !w.Known()
	}
	v.strict = strictText(nil, c.Argv)
	if len(c.Assigns) > 0 {
		v.assigned = strictText(c.Assigns, c.Argv)
	}
	v.loose = append(v.loose, joinWords(v.argv, ""))
	if v.base != v.name {
		v.loose = append(v.loose, joinWords(v.argv, v.base))
	}
	if v.plain != nil {
		v.loose = append(v.loose, joinWords(v.plain, v.base))
	}
	for _, name := range v.aliases {
		v.loose = append(v.loose, joinWords(v.argv, name))
		if v.plain != nil {
			v.loose = append(v.loose, joinWords(v.plain, name))
		}
	}
	if len(c.Assigns) > 0 {
		v.loose = append(v.loose, joinWords(c.Assigns, "")+" "+v.loose[0])
	}
	return v
}

// programView is a view of a program without arguments.
func programView(name string) commandView {
	c := &bash.Command{Argv: []bash.Word{{Text: name}}}
	c.Plain = c.Argv
	return newCommandView(c, -1)
}

func sameWords(a, b []bash.Word) bool {
	return len(b) == 0 || len(a) == 0 || len(a) == len(b) && &a[0] == &b[0] || len(a) == len(b)
}

// joinWords writes words with single blanks; first replaces the first word.
func joinWords(words []bash.Word, first string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if i == 0 && first != "" {
			b.WriteString(first)
			continue
		}
		b.WriteString(w.Text)
	}
	return b.String()
}

func strictText(assigns, argv []bash.Word) string {
	var b strings.Builder
	for _, list := range [][]bash.Word{assigns, argv} {
		for _, w := range list {
			if strings.Contains(w.Text, wordSep) {
				return ""
			}
			if b.Len() > 0 {
				b.WriteString(wordSep)
			}
			b.WriteString(w.Text)
		}
	}
	return b.String()
}

// allows reports whether p, of an allow rule, matches the command as written.
func (p *commandPattern) allows(v *commandView) bool {
	if v.strict == "" || v.name == "" || p.mask&^v.mask != 0 {
		return false
	}
	for i := range p.strict {
		if p.strict[i].match(v.strict) || v.assigned != "" && p.strict[i].match(v.assigned) {
			return true
		}
	}
	return false
}

// catches compares p, of a deny or ask rule, with every spelling of v.
func (p *commandPattern) catches(v *commandView) match3 {
	if p.mask&^v.mask != 0 {
		return noMatch
	}
	for i := range p.loose {
		for _, text := range v.loose {
			if p.loose[i].match(text) {
				return fullMatch
			}
		}
	}
	if !p.order.ok {
		return p.textPossible(v)
	}
	if !p.order.programMatches(v) {
		return noMatch
	}
	if p.order.catches(v.argv, false) || v.plain != nil && p.order.catches(v.plain, false) {
		return fullMatch
	}
	if v.holes && (p.order.catches(v.argv, true) || v.plain != nil && p.order.catches(v.plain, true)) {
		return possibleMatch
	}
	return noMatch
}

// textPossible is for patterns that only the text decides (*--force*): an
// unknown word may hold the missing text, unless the command only reads.
func (p *commandPattern) textPossible(v *commandView) match3 {
	if !v.holes || v.cmd.ReadOnly {
		return noMatch
	}
	for i := range p.loose {
		for _, text := range v.loose {
			known, _, _ := strings.Cut(text, bash.Hole)
			prefix := p.loose[i].prefix()
			if n := min(len(known), len(prefix)); known[:n] == prefix[:n] {
				return possibleMatch
			}
		}
	}
	return noMatch
}

func (o *orderPattern) programMatches(v *commandView) bool {
	if v.name == "" {
		return false // an unknown command word is a floor of its own
	}
	if o.program.match(v.name) || o.program.match(v.base) || slices.ContainsFunc(v.aliases, o.program.match) {
		return true
	}
	lit, ok := o.program.literal()
	return ok && v.base == v.name && strings.Contains(lit, "/") && path.Base(lit) == v.base
}

// catches compares operands in order and options in any order. With possible,
// unknown words may be whatever is missing.
//
// The operands are followed as the states of a small automaton in the bits of
// one word: a word behind an option may be its value or an operand, and both
// are followed.
func (o *orderPattern) catches(words []bash.Word, possible bool) bool {
	if len(words) == 0 {
		return false
	}
	words = words[1:]
	done := uint64(1) << len(o.operand)
	state := uint64(1)
	ended, afterOption, unknown := false, false, false
	count, used := 0, 0
	for _, w := range words {
		hole := w.Many || strings.HasPrefix(w.Text, bash.Hole)
		if !hole && !ended && w.Text == "--" {
			ended, afterOption = true, false
			continue
		}
		count++
		if !hole && !ended && len(w.Text) > 1 && w.Text[0] == '-' {
			afterOption = strings.IndexByte(w.Text, '=') < 0
			if o.wants(w.Text) {
				used++
			} else if !o.open {
				return false
			}
			continue
		}
		if possible && !w.Known() {
			unknown = true
		}
		state = o.step(state, done, w, afterOption, possible)
		if state == 0 {
			return false
		}
		afterOption = false
	}
	if state&done == 0 || count-used-len(o.operand) < o.stars && !(possible && unknown) {
		return false
	}
	for i := range o.option {
		if !o.option[i].in(words) && !(possible && unknown) {
			return false
		}
	}
	return true
}

// step follows one operand.
func (o *orderPattern) step(state, done uint64, w bash.Word, afterOption, possible bool) uint64 {
	var next uint64
	if possible && !w.Known() {
		low := state & -state
		return (done<<1 - 1) &^ (low - 1) // it may be any number of operands
	}
	for i := 0; i <= len(o.operand); i++ {
		bit := uint64(1) << i
		if state&bit == 0 {
			continue
		}
		if bit == done {
			if o.open {
				next |= bit
			}
			continue
		}
		if o.operand[i].match(w.Text) {
			next |= bit << 1
		}
		if afterOption && o.open {
			next |= bit
		}
	}
	return next
}

// wants reports whether the option word is one that the pattern names, and
// nothing else.
func (o *orderPattern) wants(word string) bool {
	for i := range o.option {
		if o.option[i].is(word) {
			return true
		}
	}
	if word[1] == '-' {
		return false
	}
	for i := 1; i < len(word); i++ {
		found := false
		for j := range o.option {
			found = found || o.option[j].hasLetter(word[i])
		}
		if !found {
			return false
		}
	}
	return true
}

func (p *optionPattern) hasLetter(c byte) bool {
	return !p.exact && (p.letter == c || p.other == c) && c != 0
}

// is reports whether word alone is this option.
func (p *optionPattern) is(word string) bool {
	if p.text.match(word) {
		return true
	}
	if p.exact || p.long == "" || !strings.HasPrefix(word, "--") {
		return false
	}
	name, value, hasValue := strings.Cut(word, "=")
	if p.value != "" {
		return hasValue && abbreviates(name, p.long) && value == p.value
	}
	return abbreviates(name, p.long)
}

// abbreviates reports whether word is long or a beginning of it, as getopt_long
// and git accept.
func abbreviates(word, long string) bool {
	return len(word) > 2 && strings.HasPrefix(long, word)
}

// in reports whether the option stands among the words.
func (p *optionPattern) in(words []bash.Word) bool {
	for i := range words {
		w := words[i].Text
		if p.text.match(w) {
			return true
		}
		if p.exact {
			continue
		}
		if w == "--" {
			return false
		}
		if len(w) < 2 || w[0] != '-' {
			continue
		}
		if p.is(w) || p.value != "" && abbreviates(w, p.long) && i+1 < len(words) && words[i+1].Text == p.value {
			return true
		}
		if w[1] != '-' && (p.letter != 0 && strings.IndexByte(w[1:], p.letter) >= 0 || p.other != 0 && strings.IndexByte(w[1:], p.other) >= 0) {
			return true
		}
	}
	return false
}
