package bash

import "strings"

// program is what is known about one program: its options, what its operands
// are, and what it does with them. An option that is not listed makes a command
// neither read-only nor, for a launcher, certain.
type program struct {
	// names are the names it goes by, separated by blanks.
	names string
	// flags are short options without value, vals those with one, maybe those
	// whose value must be attached.
	flags, vals, maybe string
	// digits are short options that digits may follow, and then more options.
	digits string
	// long lists long options: "name" without, "name=" with, "name=?" with an
	// optional value, "name==" with two words. GNU programs take any unique beginning.
	long string
	// roles gives meaning to option values: "o:W output:W". See role.
	roles string
	// ops says what operands are.
	ops shape
	// skip is the number of operands before a launcher's command.
	skip int
	// optional: the operand before the command may be missing; it holds a digit.
	optional bool
	// how picks the code that understands it; 0 is the general code.
	how handler
	// ro marks programs that only read, but for options with a role that is not.
	ro bool
	// dashes: long options start with one dash (find, java).
	single bool
}

// shape says what the operands of a program are.
type shape uint8

const (
	opsNone     shape = iota // no files
	opsRead                  // all are read
	opsPattern               // the first is a pattern unless an option gives it, the others are read
	opsWrite                 // all are made or changed
	opsDelete                // all are removed
	opsCopy                  // sources, then a target
	opsMove                  // the same; sources are removed
	opsLink                  // ln
	opsMode                  // the first is a mode or owner, the others are changed
	opsInOut                 // the first is read, the second is written
	opsLaunch                // a command follows after program.skip operands
	opsNet                   // hosts or URLs
	opsOpaque                // runs what was there before
	opsEach                  // each operand is a shell command line
	opsFirstOut              // the first is written, the others are read
	opsLastOut               // the last is written, the others are read
	opsCompress              // each is replaced by a file of another name
)

// Roles of option values.
const (
	roleRead    = 'R' // file that is read
	roleNames   = 'M' // file with the names of files that are read
	roleWrite   = 'W' // file that is written
	roleBoth    = 'B' // file that is read or written
	roleProgram = 'P' // program, alone
	roleShell   = 'S' // command line for a shell
	roleCode    = 'K' // program text in another language
	roleFile    = 'F' // file with program text
	roleNet     = 'N' // host
	roleDir     = 'C' // directory to work in
	roleUnsafe  = 'U' // no effect of its own, but not read-only
	rolePattern = 'E' // gives the pattern of opsPattern
	roleLoad    = 'L' // library or plug-in that is loaded
	roleNamed   = 'V' // part of the program's own, by name; with a slash a program
)

// option is one option as given.
type option struct {
	name string
	val  Word
	has  bool
}

// args is a command line taken apart.
type args struct {
	opts []option
	ops  []Word
	// odd is true when an option is not known.
	odd bool
	// computed is true when a word that is not known stands where an option may.
	computed bool
	// dash is true when "--" was seen; its place is len(ops) then.
	dash int
}

func (g *args) get(names ...string) (Word, bool) {
	for i := len(g.opts) - 1; i >= 0; i-- {
		for _, n := range names {
			if g.opts[i].name == n {
				return g.opts[i].val, true
			}
		}
	}
	return Word{}, false
}

func (g *args) has(names ...string) bool {
	_, ok := g.get(names...)
	return ok
}

// parseArgs takes a command line apart as getopt_long does, with options and
// operands in any order.
func parseArgs(p *program, argv []Word) args {
	g := args{dash: -1}
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		s := w.Text
		switch {
		case s == "--":
			g.dash = len(g.ops)
			g.ops = append(g.ops, argv[i+1:]...)
			return g
		case startsUnknown(s) && !onlyNames(s):
			g.computed = true
			g.ops = append(g.ops, w)
		case len(s) < 2 || s[0] != '-':
			g.ops = append(g.ops, w)
		default:
			i = g.option(p, argv, i)
		}
	}
	return g
}

// option reads the option at argv[i] and returns the index of its last word.
func (g *args) option(p *program, argv []Word, i int) int {
	s := argv[i].Text
	if strings.HasPrefix(s, "--") || p.single {
		return g.longOption(p, argv, i, strings.TrimLeft(s, "-"))
	}
	for j := 1; j < len(s); j++ {
		c := s[j]
		if startsUnknown(s[j:]) {
			g.computed = true
			return i
		}
		switch {
		case strings.IndexByte(p.vals, c) >= 0:
			if j+1 < len(s) {
				g.opts = append(g.opts, option{s[j : j+1], Word{Text: s[j+1:]}, true})
				return i
			}
			if i+1 < len(argv) {
				g.opts = append(g.opts, option{s[j : j+1], argv[i+1], true})
				return i + 1
			}
			g.odd = true
			return i
		case strings.IndexByte(p.digits, c) >= 0:
			g.opts = append(g.opts, option{name: s[j : j+1]})
			for j+1 < len(s) && s[j+1] >= '0' && s[j+1] <= '9' {
				j++
			}
		case strings.IndexByte(p.maybe, c) >= 0:
			g.opts = append(g.opts, option{s[j : j+1], Word{Text: s[j+1:]}, j+1 < len(s)})
			return i
		case strings.IndexByte(p.flags, c) >= 0:
			g.opts = append(g.opts, option{name: s[j : j+1]})
		default:
			g.odd = true
			g.opts = append(g.opts, option{name: s[j : j+1]})
		}
	}
	return i
}

func (g *args) longOption(p *program, argv []Word, i int, s string) int {
	name, val, has := strings.Cut(s, "=")
	if hasHole(name) {
		g.computed = true
		return i
	}
	full, arg := findLong(p.long, name)
	switch {
	case full == "":
		g.odd = true
		g.opts = append(g.opts, option{name, Word{Text: val}, has})
	case arg == '2':
		n := min(i+2, len(argv)-1)
		g.opts = append(g.opts, option{full, argv[n], true})
		return n
	case arg == '=' && !has:
		if i+1 < len(argv) {
			g.opts = append(g.opts, option{full, argv[i+1], true})
			return i + 1
		}
		g.odd = true
	default:
		g.opts = append(g.opts, option{full, Word{Text: val}, has})
	}
	return i
}

// findLong looks a long option up; a unique beginning is enough. arg is '=' for
// a required, '?' for an optional value, '2' for two words, 0 for none.
func findLong(list, name string) (full string, arg byte) {
	if name == "" {
		return "", 0
	}
	best, bestArg := "", byte(0)
	for list != "" {
		var f string
		f, list, _ = strings.Cut(list, " ")
		n, a := f, byte(0)
		if t, ok := strings.CutSuffix(f, "=="); ok {
			n, a = t, '2'
		} else if t, ok := strings.CutSuffix(f, "=?"); ok {
			n, a = t, '?'
		} else if t, ok := strings.CutSuffix(f, "="); ok {
			n, a = t, '='
		}
		if n == name {
			return n, a
		}
		if best == "" && strings.HasPrefix(n, name) {
			best, bestArg = n, a
		}
	}
	return best, bestArg
}

// role returns the meaning of an option's value, 0 when it has none.
func (p *program) role(name string) byte {
	list := p.roles
	for list != "" {
		var f string
		f, list, _ = strings.Cut(list, " ")
		if n := len(f) - 2; n > 0 && f[n] == ':' && f[:n] == name {
			return f[n+1]
		}
	}
	return 0
}

// commandStarts finds where the command of a launcher begins. Options that are
// not known may or may not take a value: both readings are returned. computed is
// true when a word that is not known may hide the command.
func commandStarts(p *program, argv []Word) (starts []int, opts []option, computed bool) {
	var g args
	add := func(n int) {
		if n < len(argv) {
			starts = append(starts, n)
		}
	}
	skip := p.skip
	for i := 1; i < len(argv); i++ {
		s := argv[i].Text
		switch {
		case argv[i].Many:
			computed = true
			if skip > 0 {
				add(i + 1)
			}
			continue
		case startsUnknown(s) && skip > 0:
			add(i + 1 + skip) // it may be an option
			skip--
		case s == "--":
			add(i + 1 + skip)
			return starts, g.opts, computed
		case len(s) > 1 && s[0] == '-' && !isNegative(p, s):
			odd := g.odd
			g.odd = false
			i = g.option(p, argv, i)
			if g.odd && i+2 < len(argv) && !strings.Contains(s, "=") {
				add(i + 2 + skip)
			}
			g.odd = g.odd || odd
			continue
		case skip > 0:
			if p.optional && strings.Trim(s, "0123456789") == s && !startsUnknown(s) {
				add(i) // not the name of an architecture
				return starts, g.opts, computed
			}
			skip--
		default:
			add(i)
			return starts, g.opts, computed
		}
		if skip == 0 && i+1 < len(argv) && p.skip > 0 {
			if argv[i+1].Text == "--" {
				i++
			}
			add(i + 1)
			return starts, g.opts, computed
		}
	}
	return starts, g.opts, computed
}

// isNegative lets nice -5 be a number.
func isNegative(p *program, s string) bool { return false }
