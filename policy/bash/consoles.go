package bash

import "strings"

// consoleTable lists programs that are ruled by commands of their own, one of
// which starts a program: dc's "!", mail's "~!", ftp's "!". Sources are their
// manuals. Options with role K carry such commands, those with role F name a
// file of them.
var consoleTable = []program{
	{names: "dc", how: howConsole, flags: "hVPRxic", vals: "efIO", roles: "e:K expression:K f:F file:F", long: "expression= file= help version", ops: opsRead},
	{names: "bc", how: howConsole, flags: "hilqsvwPRcL", vals: "efIO", roles: "e:K expression:K f:F file:F", ops: opsRead,
		long: "expression= file= help interactive mathlib quiet standard warn version global-stacks"},
	{names: "mail mailx s-nail nail bsd-mailx heirloom-mailx mutt neomutt", how: howConsole, flags: "dEeFHiIlnNRvBtpx~#ZyCG", vals: "aAbcfhqrsSTueXQYm",
		roles: "e:K X:K Y:K q:R a:R"},
	{names: "ftp tnftp ncftp lftp tftp kermit", how: howConsole, ops: opsNet, flags: "vnipgdARaet46", vals: "ecfuopNPqrsT", roles: "e:K c:K f:F N:F"},
	{names: "telnet cu tip", how: howConsole, ops: opsNet, flags: "468EFKLacdfrxX", vals: "Xbeklnspo"},
	{names: "smbclient rpcclient", how: howConsole, ops: opsNet, flags: "NkLPEgeq", vals: "cIUWpDdmOsTtlnib", roles: "c:K command:K", long: "command= user= directory= no-pass"},
	{names: "octave octave-cli matlab scilab scilab-cli maxima gp giac sage xcas", how: howConsole, flags: "fHqVWirVdvp", vals: "peDbs",
		roles: "eval:K e:K r:K batch-string:K b:F batch:F s:F p:U persist:U path:U init:F preload:F",
		long:  "eval= batch-string= batch= persist path= no-init-file no-window-system no-gui silent quiet norc very-quiet init= preload= version help"},
	{names: "duckdb litecli sqlcipher usql pgcli mycli sqlplus isql sqlcmd mysqlsh clickhouse-client beeline hive impala-shell cqlsh snowsql osqueryi", how: howConsole,
		flags: "bhsSnv", vals: "cefiupdPHD", roles: "c:K cmd:K e:K execute:K command:K query:K init:F i:F f:F file:F init-file:F",
		long: "cmd= execute= command= query= init= file= init-file= host= port= user= password= database= csv json readonly batch"},
	{names: "debugfs xfs_io xfs_db", how: howConsole, flags: "wciDVnxrRFafsT", vals: "fbsRczp", roles: "f:F R:K c:K"},
	{names: "links elinks lynx w3m", how: howConsole, vals: "oTI", flags: "BMN", roles: "cmd_script:F eval:K", long: "cmd_script= eval= dump source"},
}

// consoleMarks says which signs begin a program in a console's own language,
// wherever they stand in a line, and which words do.
type consoleMarks struct{ names, signs, words string }

var consoleEscapes = []consoleMarks{
	{"dc", "!", ""},
	{"bc", "", ""}, // POSIX and GNU bc start nothing
	{"mail mailx s-nail nail bsd-mailx heirloom-mailx mutt neomutt", "!|~`", "shell source"},
	{"telnet cu tip", "!~", ""},
}

// otherConsole holds for consoles without an entry of their own.
var otherConsole = consoleMarks{"", "!|`\\", "shell sh system source exec edit host .shell .system .load .import .read .once .output macdef"}

func escapesOf(name string) *consoleMarks {
	for i := range consoleEscapes {
		if hasField(consoleEscapes[i].names, name) {
			return &consoleEscapes[i]
		}
	}
	return &otherConsole
}

// hasField reports whether one of the blank-separated names is name.
func hasField(names, name string) bool {
	for names != "" {
		var f string
		f, names, _ = strings.Cut(names, " ")
		if f == name {
			return true
		}
	}
	return false
}

// console follows a program ruled by commands: from options, files and standard
// input.
func (a *analyzer) console(v *invocation, p *program) {
	name := baseName(v.argv[0].Text)
	m := escapesOf(name)
	g := parseArgs(p, v.argv)
	for _, o := range g.opts {
		switch p.role(o.name) {
		case roleCode:
			if o.has {
				a.consoleText(v, m, o.val.Text)
			}
		case roleFile:
			a.consoleFile(v, m, o.val)
		default:
			if r := p.role(o.name); r != 0 {
				a.optionRole(v, r, o)
			}
		}
	}
	if p.ops == opsRead { // operands are programs, too
		for _, w := range g.ops {
			a.consoleFile(v, m, w)
		}
	} else {
		a.operands(v, p, &g)
		for _, w := range g.ops {
			a.consoleText(v, m, w.Text)
		}
	}
	if in := v.st.in; in != nil && !in.pure {
		for _, s := range in.alts {
			a.consoleText(v, m, s)
		}
	}
	if g.computed {
		a.noteHere(UnknownOption, name)
	}
	if m.signs == "" && !g.odd && !g.computed {
		a.setReadOnly()
	} else if p.ops != opsRead {
		a.setOpaque()
	}
	a.defaultOut(v)
}

// consoleFile reads a file of commands.
func (a *analyzer) consoleFile(v *invocation, m *consoleMarks, w Word) {
	a.effect(v.st, Effect{Kind: Read, Path: w.Text, Glob: w.Glob, Command: a.cur})
	if m.signs == "" {
		return
	}
	for _, s := range a.programFile(v, w) {
		a.consoleText(v, m, s)
	}
}

// consoleText reads commands of a console. What stands behind a sign is
// followed as a command line; a text that holds one is unknown code, since we do
// not read the language.
func (a *analyzer) consoleText(v *invocation, m *consoleMarks, s string) {
	if m.signs == "" || s == worldText || a.spend(len(s)/4+1) {
		return
	}
	name := baseName(v.argv[0].Text)
	odd := hasHole(s)
	for line := range strings.SplitSeq(s, "\n") {
		for i := strings.IndexAny(line, m.signs); i >= 0; {
			if name == "dc" && i+1 < len(line) && strings.IndexByte("<>=", line[i+1]) >= 0 {
				// a comparison
			} else {
				odd = true
				if rest := strings.TrimLeft(line[i:], m.signs); rest != "" && a.depth < maxDepth/2 {
					a.startCode(v, rest)
				}
			}
			next := strings.IndexAny(line[i+1:], m.signs)
			if next < 0 {
				break
			}
			i += 1 + next
			if a.spend(len(line) / 4) {
				return
			}
		}
		words := strings.FieldsFunc(line, func(r rune) bool { return !isNameRune(r) && r != '.' })
		for i, w := range words {
			if hasField(m.words, strings.ToLower(w)) {
				odd = true
				if i+1 < len(words) {
					_, rest, _ := strings.Cut(line, w)
					a.startCode(v, strings.Trim(rest, " \t()'\";"))
				}
				break
			}
		}
	}
	if odd {
		a.noteHere(UnknownCode, name+" "+s)
	}
}
