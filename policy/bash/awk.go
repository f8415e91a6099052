package bash

import "strings"

// awk follows awk(1): its program may start commands and write files.
func (a *analyzer) awk(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	env := map[string][]string{}
	var code []string
	given := false
	safe := !g.odd && !g.computed
	for _, o := range g.opts {
		switch o.name {
		case "v", "assign":
			if k, val, ok := strings.Cut(o.val.Text, "="); ok {
				env[k] = union(env[k], []string{escapes(val, false)})
			}
		case "f", "file", "E", "exec":
			given = true
			code = append(code, a.programFile(v, o.val)...)
		case "e", "source":
			given = true
			code = append(code, o.val.Text)
		case "i", "include", "l", "load":
			safe = false
			if strings.HasPrefix(o.val.Text, "inplace") {
				a.each(v, g.ops[min(1, len(g.ops)):], Effect{Kind: Write})
			} else {
				a.codeFile(v, o.val)
			}
		case "o", "pretty-print", "p", "profile", "d", "dump-variables":
			safe = false
			if o.has {
				a.effect(v.st, Effect{Kind: Write, Path: o.val.Text, Source: Option, Command: a.cur})
			}
		case "D", "debug", "W":
			safe = false
			a.noteHere(UnknownOption, "awk "+o.name)
		}
	}
	ops := g.ops
	if !given && len(ops) > 0 {
		if ops[0].Many || ops[0].Glob {
			a.noteHere(UnknownCode, "awk "+ops[0].Text)
		}
		code, ops = append(code, ops[0].Text), ops[1:]
	}
	var files []Word
	for _, w := range ops {
		if k, val, ok := strings.Cut(w.Text, "="); ok && isName(k) {
			env[k] = union(env[k], []string{escapes(val, false)})
			continue
		}
		files = append(files, w)
	}
	for _, c := range code {
		if !a.awkCode(v, c, env) {
			safe = false
		}
	}
	a.each(v, files, Effect{Kind: Read})
	if safe {
		a.setReadOnly()
	}
	a.defaultOut(v)
}

// awkCode follows an awk program; true means that it only computes and prints.
func (a *analyzer) awkCode(v *invocation, code string, env map[string][]string) bool {
	if hasAnyHole(code) || a.spend(len(code)/2+1) {
		a.noteHere(UnknownCode, "awk "+code)
	}
	a.awkNet(code)
	toks, ok := awkTokens(code)
	if !ok {
		a.noteHere(UnknownCode, "awk "+code)
		return false
	}
	r := &awkReader{a: a, v: v, toks: toks, env: env, safe: true, field: worldText}
	if !v.st.in.isWorld() {
		r.field = anyText
	}
	r.assignments()
	r.walk()
	return r.safe
}

// awkNet lists the hosts of gawk's special files, /inet/PROTOCOL/PORT/HOST/PORT.
func (a *analyzer) awkNet(code string) {
	for rest := code; ; {
		i := strings.Index(rest, "/inet")
		if i < 0 {
			return
		}
		rest = rest[i+len("/inet"):]
		host := worldText
		if f := strings.SplitN(rest, "/", 6); len(f) > 4 && strings.Trim(f[0], "46") == "" && !strings.ContainsAny(f[3], "\" \t\n") {
			host = f[3]
		}
		a.effect(&state{}, Effect{Kind: Network, Path: host, Command: a.cur, Source: Code})
	}
}

// awkReader walks the tokens of an awk program.
type awkReader struct {
	a     *analyzer
	v     *invocation
	toks  []awkToken
	env   map[string][]string
	safe  bool
	field string
}

func (r *awkReader) at(i int) awkToken {
	if i < 0 || i >= len(r.toks) {
		return awkToken{'\n', "\n"}
	}
	return r.toks[i]
}

// assignments collects what variables may hold, twice, so that one may be made
// of another.
func (r *awkReader) assignments() {
	for i, t := range r.toks {
		if t.kind == 'n' && t.s == "ARGV" && r.sets(i) {
			r.read([]string{worldText}) // the files that it reads are its own choice
		}
	}
	for range 2 {
		for i, t := range r.toks {
			if t.kind != '=' || t.s != "=" || r.at(i-1).kind != 'n' {
				continue
			}
			name := r.at(i - 1).s
			for _, s := range r.expr(i+1, true) {
				r.env[name] = addAlt(r.env[name], s)
			}
		}
	}
}

// sets reports whether the array named by token i gets an element that names a
// file: by an assignment, or by a function that fills it.
func (r *awkReader) sets(i int) bool {
	if p := r.at(i - 1).s; p == "in" || p == "delete" {
		return false
	}
	if r.at(i+1).kind != '[' {
		return true // handed to split, sub, or a function
	}
	_, end := r.name(i)
	if p := r.at(i - 1); p.s == "getline" || p.kind == ',' && r.at(end+1).kind == ')' || p.kind == '(' && r.at(end+1).s == "in" {
		return true // read into, changed by sub or gsub, or by a loop
	}
	return r.at(end+1).kind == '=' && r.at(end+1).s != "==" && !(r.at(end+2).kind == 's' && r.at(end+2).s == "")
}

// expr gives the possible texts of an expression that starts at token i.
func (r *awkReader) expr(i int, stopAtRedirect bool) []string {
	out := []string{""}
	depth := 0
	for ; i < len(r.toks); i++ {
		t := r.toks[i]
		switch t.kind {
		case 's':
			out = cross(out, []string{t.s})
			continue
		case '0':
			out = cross(out, []string{t.s})
			continue
		case '(':
			depth++
			continue
		case ')':
			if depth--; depth < 0 {
				return out
			}
			continue
		case '$':
			out = cross(out, []string{r.field})
			if r.at(i+1).kind == '0' || r.at(i+1).kind == 'n' {
				i++
			}
			continue
		case 'n':
			alts, n := r.name(i)
			if alts == nil {
				return out
			}
			out = cross(out, alts)
			i = n
			continue
		case ';', '{', '}', '\n', ',', '?':
			if depth == 0 || t.kind == '{' {
				return out
			}
		case '|', '>', '<', '&', '=', '!', '~':
			if depth == 0 && stopAtRedirect {
				return out
			}
		}
		out = cross(out, []string{anyText})
	}
	return out
}

// name gives the texts of a name, and the index of its last token.
func (r *awkReader) name(i int) ([]string, int) {
	t := r.toks[i]
	switch t.s {
	case "getline", "in", "print", "printf", "while", "if", "for", "do", "else", "return", "next", "exit", "delete":
		return nil, i
	}
	end := i
	if k := r.at(i + 1).kind; k == '(' || k == '[' {
		depth := 0
		for end = i + 1; end < len(r.toks); end++ {
			switch r.toks[end].kind {
			case '(', '[':
				depth++
			case ')', ']':
				depth--
			}
			if depth == 0 {
				break
			}
		}
		if t.s == "ENVIRON" && r.at(i+2).kind == 's' {
			return r.environ(r.at(i + 2).s), end
		}
		return []string{anyText}, end
	}
	if alts, ok := r.env[t.s]; ok {
		return alts, i
	}
	switch t.s {
	case "NR", "NF", "FNR":
		return []string{nameText}, i
	case "FILENAME":
		return []string{worldText}, i
	}
	return []string{"", r.field}, i
}

func (r *awkReader) environ(name string) []string {
	for _, b := range r.v.env {
		if b.name == name {
			return b.alts
		}
	}
	return r.a.lookup(r.v.st, name).alts
}

// walk finds what starts commands and writes files.
func (r *awkReader) walk() {
	printing, depth := false, 0
	for i := 0; i < len(r.toks); i++ {
		t := r.toks[i]
		switch t.kind {
		case 'n':
			switch t.s {
			case "print", "printf":
				printing, depth = true, 0
			case "system":
				if r.at(i+1).kind == '(' {
					r.run(r.expr(i+2, false))
				}
			}
		case '(':
			depth++
		case ')':
			depth--
		case ';', '}', '\n', '{':
			printing, depth = false, 0
		case '@':
			r.safe = false
			r.a.noteHere(UnknownCode, "awk @"+r.at(i+1).s)
		case '|':
			if t.s == "||" {
				continue
			}
			if r.at(i+1).s == "getline" || r.at(i+1).s == "&" {
				r.run(r.before(i))
			} else {
				r.run(r.expr(i+1, true))
			}
			if t.s == "|&" {
				r.run(r.before(i))
			}
		case '>':
			if printing && depth <= 0 && t.s != ">=" {
				r.write(r.expr(i+1, true))
			}
		case '<':
			if r.at(i-1).s == "getline" || r.at(i-2).s == "getline" {
				r.read(r.expr(i+1, true))
			}
		}
	}
}

// before gives the expression that ends before token i.
func (r *awkReader) before(i int) []string {
	j := i - 1
	depth := 0
loop:
	for ; j >= 0; j-- {
		switch t := r.toks[j]; t.kind {
		case ')', ']':
			depth++
		case '(', '[':
			if depth == 0 {
				break loop
			}
			depth--
		case ';', '{', '}', '\n', ',', '&', '!':
			if depth == 0 {
				break loop
			}
		case 'n':
			switch t.s {
			case "print", "printf", "while", "if", "return", "do", "else":
				break loop
			}
		}
	}
	saved := r.toks
	r.toks = r.toks[:i]
	out := r.expr(j+1, true)
	r.toks = saved
	return out
}

func (r *awkReader) run(alts []string) {
	r.safe = false
	for _, s := range alts {
		if s == "" && len(alts) > 1 {
			continue
		}
		r.a.startCode(r.v, s)
	}
}

func (r *awkReader) write(alts []string) {
	r.safe = false
	for _, s := range alts {
		if s == "/dev/stdout" || s == "/dev/stderr" || s == "" {
			continue
		}
		if strings.HasPrefix(s, "/inet") {
			r.a.awkNet(s)
			continue
		}
		r.a.effect(r.v.st, Effect{Kind: Write, Path: s, Source: Code, Command: r.a.cur})
		r.a.wrote(r.v.st, s)
	}
}

func (r *awkReader) read(alts []string) {
	for _, s := range alts {
		if s != "-" && s != "" {
			r.a.effect(r.v.st, Effect{Kind: Read, Path: s, Source: Code, Command: r.a.cur})
		}
	}
}
