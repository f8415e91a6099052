package policy

import (
	"fmt"
	"path"
	"strings"
)

// wordSep stands between the words of a command in the strict text, so that a
// blank inside a word is never taken for the end of it.
const wordSep = "\x1f"

// commandPattern is the content of a rule about commands. Allow rules are
// compared with the command as written (strict); deny and ask rules with every
// spelling of it (loose text), and by their options in any order (ordered).
type commandPattern struct {
	strict []glob
	loose  []glob
	// script is compared with the whole text of the call: a content that holds
	// operators of the shell (git log | head).
	script    glob
	hasScript bool
	order     orderPattern
	// words are the tokens of the content, for index and lint.
	words []glob
	// legacy is the old spelling "rm:*".
	legacy bool
	// mask has the bit of every operand without a star; a command that lacks
	// one of them as a word cannot match.
	mask uint64
}

// wordBit maps a word to one of 64 bits (FNV-1a).
func wordBit(w string) uint64 {
	h := uint32(2166136261)
	for i := 0; i < len(w); i++ {
		h = (h ^ uint32(w[i])) * 16777619
	}
	return 1 << (h >> 26)
}

// orderPattern is a command taken apart into program, operands and options.
type orderPattern struct {
	ok      bool
	program glob
	operand []glob
	option  []optionPattern
	// stars counts the words that must stand for a lone *.
	stars int
	// open is true when further words may follow.
	open bool
}

// optionPattern is one option that must be there.
type optionPattern struct {
	text   glob // the option as written
	long   string
	letter byte   // the short form, 0 when there is none
	other  byte   // a second letter with the same meaning
	value  string // of --option=value
	exact  bool   // compared as one word only
}

// maxOperands bounds the operands of a pattern: they are counted in the bits of
// one word.
const maxOperands = 60

func newCommandPattern(content string, kind Kind) (commandPattern, error) {
	var p commandPattern
	if strings.ContainsAny(content, "|&;<>`\n") || strings.Contains(content, "$(") {
		p.script, p.hasScript = newGlob(strings.TrimSpace(content)), true
	}
	text := content
	if rest, ok := strings.CutSuffix(content, ":*"); ok && rest != "" {
		text, p.legacy = rest, true
	}
	words, quoted := splitPattern(text)
	if len(words) == 0 {
		return p, fmt.Errorf("content without a word")
	}
	add := func(words []string) {
		p.strict = append(p.strict, newGlob(strings.Join(words, wordSep)))
		p.loose = append(p.loose, newGlob(strings.Join(words, " ")))
	}
	add(words)
	if p.legacy {
		add(append(words[:len(words):len(words)], "*"))
	}
	if quoted {
		p.loose = append(p.loose, newGlob(strings.Join(strings.Fields(text), " ")))
	}
	for _, w := range words {
		p.words = append(p.words, newGlob(w))
	}
	for _, g := range p.words[1:] {
		if lit, ok := g.literal(); ok && !quoted && lit != "" && lit[0] != '-' && !strings.ContainsAny(lit, " \t\n") {
			p.mask |= wordBit(lit)
		}
	}
	if kind != AllowRule {
		if len(words) > maxOperands {
			return p, fmt.Errorf("more than %d words", maxOperands)
		}
		p.order = newOrderPattern(words, p.legacy)
	}
	return p, nil
}

// splitPattern cuts a content into words as the shell would: quotes group,
// backslash escapes; a star keeps its meaning inside quotes and \* stays
// escaped for [newGlob]. Unbalanced quotes are ordinary characters.
func splitPattern(text string) (words []string, quoted bool) {
	if !balanced(text) {
		return strings.Fields(text), false
	}
	var b strings.Builder
	started := false
	var quote byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text) && quote != '\'':
			i++
			if text[i] == '*' || text[i] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(text[i])
			started = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, started, quoted = c, true, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if started {
				words = append(words, b.String())
				b.Reset()
				started = false
			}
		default:
			b.WriteByte(c)
			started = true
		}
	}
	if started {
		words = append(words, b.String())
	}
	return words, quoted
}

func balanced(text string) bool {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		}
	}
	return quote == 0
}

func newOrderPattern(words []string, legacy bool) orderPattern {
	o := orderPattern{ok: true, program: newGlob(words[0]), open: legacy}
	if o.program.any() || strings.HasPrefix(words[0], "-") {
		return orderPattern{} // no program: the text decides
	}
	if strings.HasSuffix(words[0], "*") && len(words) == 1 {
		return orderPattern{}
	}
	name := ""
	if lit, ok := o.program.literal(); ok {
		name = path.Base(lit)
	}
	ended := false
	for i, w := range words[1:] {
		g := newGlob(w)
		last := i == len(words)-2
		switch {
		case g.any():
			o.stars++
			o.open = true
			continue
		case last && len(g.parts) > 1 && g.parts[len(g.parts)-1] == "":
			o.open = true
		}
		switch {
		case w == "--" && !ended:
			ended = true
			o.option = append(o.option, optionPattern{text: g, exact: true})
		case !ended && len(w) > 1 && w[0] == '-':
			o.option = append(o.option, newOptions(name, o.operand, w)...)
		default:
			o.operand = append(o.operand, g)
		}
	}
	return o
}

// newOptions compiles one option word of a pattern: a cluster of short options
// gives one for each letter.
func newOptions(program string, operands []glob, w string) []optionPattern {
	g := newGlob(w)
	lit := g.prefix()
	starInside := len(g.parts) > 2 || len(g.parts) == 2 && g.parts[1] != ""
	if dashWords[program] || starInside || len(lit) < 2 {
		return []optionPattern{{text: g, exact: true}}
	}
	keys := []string{program}
	if len(operands) > 0 {
		if sub, ok := operands[0].literal(); ok {
			keys = append(keys, program+" "+sub)
		}
	}
	if strings.HasPrefix(lit, "--") {
		opt := optionPattern{text: g}
		opt.long, opt.value, _ = strings.Cut(lit, "=")
		if len(g.parts) > 1 {
			opt.value = ""
		}
		for _, k := range keys {
			if c, ok := longToShort()[k][opt.long]; ok && opt.value == "" {
				opt.letter = c
				opt.other = secondLetter(program, c)
			}
		}
		return []optionPattern{opt}
	}
	var opts []optionPattern
	for _, c := range []byte(lit[1:]) {
		opt := optionPattern{text: newGlob("-" + string(c)), letter: c, other: secondLetter(program, c)}
		for _, k := range keys {
			for long, short := range longToShort()[k] {
				if short == c || short == opt.other {
					opt.long = long
				}
			}
		}
		opts = append(opts, opt)
	}
	return opts
}

func secondLetter(program string, c byte) byte {
	for _, pair := range sameLetter[program] {
		switch c {
		case pair[0]:
			return pair[1]
		case pair[1]:
			return pair[0]
		}
	}
	return 0
}
