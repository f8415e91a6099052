package bash

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of one analysis. A script past one of them has an Unknown of kind
// Bound, so that nothing is taken for harmless because it was not looked at.
const (
	// MaxScript is the longest script that is read, in bytes.
	MaxScript = 1 << 20
	// maxNesting bounds brackets and quotes before parsing: the parser's time
	// grows faster than the nesting (5,000 deep: 20 ms).
	maxNesting = 1500
	// maxDepth bounds nested evaluation: functions, eval, sh -c, launchers.
	maxDepth = 40
	// maxWork bounds the steps of one analysis; about 100 ns each.
	maxWork = 1_500_000
	// maxCommands bounds the list of commands.
	maxCommands = 20_000
	// maxUnknown bounds the list of what is not known; of each kind there is one
	// at least.
	maxUnknown = 256
)

// Analyze reads script. It never fails: what it cannot read is listed in
// Analysis.Unknown. It is safe for concurrent use.
func Analyze(script string, o Options) Analysis {
	a := &analyzer{opts: o, work: maxWork, cur: -1}
	n := min(4+len(script)/16, 64)
	a.result.Commands = make([]Command, 0, n)
	a.result.Effects = make([]Effect, 0, n)
	a.unknownVar = &variable{alts: []string{worldText}, unset: true}
	if k, what, at := suspect(script); what != "" {
		a.noteAt(k, what, position(script, at))
		if k == Bound {
			return a.result
		}
		script = cleaned(script)
	}
	for pass := 0; pass < 3; pass++ {
		st := &state{dirs: []string{o.Cwd}, arg0: []string{"bash"}}
		a.script(st, script)
		a.finishScript(st)
		// A part that runs at the same time may have written what was read as
		// an old file: read all of it once more with the files known.
		if !a.concurrent || !a.stale || a.spent() {
			break
		}
		a.stale = false
		if pass == 0 {
			a.repeat++
		}
		a.traps, a.late, a.outProcs, a.funcs = nil, nil, nil, nil
	}
	return a.result
}

// analyzer is one reading of one script.
type analyzer struct {
	opts       Options
	result     Analysis
	unknownVar *variable

	work    int
	depth   int
	bounded bool
	// pos is where the statement stands that is being read; in nested code the
	// outermost one.
	pos    Position
	nested int
	// cur is the command that is being read.
	cur int
	via []string
	// tail is how many of the last words of the command that is being read are a
	// command of their own.
	tail int
	// only is what find -name asks for, while its commands are read.
	only string
	// hidden: a star of the shell matches hidden names too.
	hidden bool
	// renamed: an archive was made whose names were changed on the way.
	renamed bool
	// src is the text that is being read; positions of its nodes refer to it.
	src string
	// hdoc: the text being expanded is the body of a here-document.
	hdoc bool

	files map[string]*file
	// missed are base names of files that were read before the script wrote them; stale is true
	// when one was written later. It matters where parts run concurrently.
	missed     []string
	stale      bool
	concurrent bool
	// bases holds the base names of files; links counts those that are links.
	bases map[string]bool
	links int
	// made lists writes to names that are not known.
	made []*text
	// seen removes duplicates when code is read more than once.
	seen   map[uint64]int
	repeat int

	traps []trapCode
	// scope holds what local variables of the running function hid.
	scope   map[string]*variable
	funcs   []*function
	running map[*function]int
	// late flushes process substitutions that stay open to the end.
	late     []func()
	fds      int // descriptors made by {name}>
	procs    int
	outProcs map[string]*pendingProc
}

// trapCode is code that runs later.
type trapCode struct {
	code string
	st   *state
}

// spend uses up work; true means that the budget is gone.
func (a *analyzer) spend(n int) bool {
	a.work -= n
	if a.work < 0 {
		a.bound("work")
		return true
	}
	return false
}

func (a *analyzer) spent() bool { return a.work < 0 }

// bound records that a limit was reached, once.
func (a *analyzer) bound(what string) {
	if !a.bounded {
		a.bounded = true
		a.noteAt(Bound, what, a.pos)
	}
}

func (a *analyzer) note(k UnknownKind, what string, p syntax.Pos) {
	pos := a.pos
	if a.nested == 0 {
		pos = pointOf(p)
	}
	a.noteAt(k, what, pos)
}

func (a *analyzer) noteHere(k UnknownKind, what string) { a.noteAt(k, what, a.pos) }

func (a *analyzer) noteAt(k UnknownKind, what string, pos Position) {
	what = publicText(what)
	if len(what) > 120 {
		what = strings.ToValidUTF8(what[:117], "") + "..."
	}
	u := Unknown{Kind: k, Text: what, Command: a.cur, Pos: pos}
	known := false
	for _, v := range a.result.Unknown {
		if v == u {
			return
		}
		known = known || v.Kind == k
	}
	if len(a.result.Unknown) >= maxUnknown && known {
		return
	}
	a.result.Unknown = append(a.result.Unknown, u)
}

func (a *analyzer) danger(k DangerKind, what string) {
	d := Danger{Kind: k, Text: publicText(what), Command: a.cur, Pos: a.pos}
	for _, e := range a.result.Dangers {
		if e == d {
			return
		}
	}
	if len(a.result.Dangers) < 256 {
		a.result.Dangers = append(a.result.Dangers, d)
	}
}

func pointOf(p syntax.Pos) Position {
	return Position{Offset: int(p.Offset()), Line: int(p.Line()), Column: int(p.Col())}
}

// enter goes one level deeper into code whose positions mean nothing outside.
func (a *analyzer) enter() bool {
	if a.depth >= maxDepth {
		a.bound("nesting")
		return false
	}
	a.depth++
	a.nested++
	return true
}

func (a *analyzer) leave() {
	a.depth--
	a.nested--
}

// script reads code as the shell does: a fault ends it, after the lines before.
func (a *analyzer) script(st *state, code string) {
	if len(code) > MaxScript || tooDeep(code) {
		a.bound("nesting")
		return
	}
	if a.spend(len(code)/8 + 1) {
		return
	}
	stmts, err := parse(code, syntax.LangBash)
	for n := 0; err != nil && n < 8; n++ {
		// Bash takes several "!", the parser takes one.
		at, ok := doubleNegation(code, err)
		if !ok {
			break
		}
		code = code[:at] + " " + code[at+1:]
		stmts, err = parse(code, syntax.LangBash)
	}
	src := a.src
	a.src = code
	defer func() { a.src = src }()
	a.stmts(st, stmts)
	if err != nil {
		a.fault(st, code, err)
	}
	if st.posix && mayDiffer(code) {
		if stmts, err := parse(code, syntax.LangPOSIX); err == nil {
			a.stmts(a.fork(st), stmts)
		}
	}
}

// finishScript reads what runs after the last line: traps, and functions that
// were never called but may be by code we do not see.
func (a *analyzer) finishScript(st *state) {
	for _, f := range a.late {
		f()
	}
	a.repeat++
	for i := 0; i < len(a.traps) && i < 64; i++ {
		t := a.traps[i]
		a.join(t.st, st)
		a.evalCode(t.st, t.code)
	}
	for i := 0; i < len(a.funcs) && !a.spent(); i++ {
		f := a.funcs[i]
		if f.called {
			continue
		}
		f.called = true
		c := a.fork(st)
		c.params, c.more = nil, true
		a.src = f.src
		a.stmt(c, f.body)
	}
	a.repeat--
}
