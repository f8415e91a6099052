package bash

import (
	"strconv"
	"strings"
)

// echo models echo: its output is known when its arguments are.
func (a *analyzer) echo(v *invocation, args []Word) {
	if v.st.out == nil {
		return
	}
	newline, esc := true, false
	for len(args) > 0 {
		s := args[0].Text
		if len(s) < 2 || s[0] != '-' || strings.Trim(s[1:], "neE") != "" {
			break
		}
		for _, c := range s[1:] {
			switch c {
			case 'n':
				newline = false
			case 'e':
				esc = true
			case 'E':
				esc = false
			}
		}
		args = args[1:]
	}
	end := ""
	if newline {
		end = "\n"
	}
	var out []string
	for _, s := range a.joinedArgs(v.st, args) {
		if esc {
			out = addAlt(out, escapes(s, true)+end)
			continue
		}
		out = addAlt(out, s+end)
		if (v.st.posix || v.st.xpgEcho) && strings.Contains(s, "\\") {
			out = addAlt(out, escapes(s, true)+end)
		}
	}
	v.st.out.write(out)
}

// printf models printf; -v stores instead, and evaluates a subscript.
func (a *analyzer) printf(v *invocation, args []Word) {
	target, store := "", false
	for len(args) > 0 {
		s := args[0].Text
		if s == "--" {
			args = args[1:]
			break
		}
		if val, ok := strings.CutPrefix(s, "-v"); ok {
			args = args[1:]
			store, target = true, val
			if val == "" && len(args) > 0 {
				target = args[0].Text
				args = args[1:]
			}
			continue
		}
		break
	}
	if !store {
		a.setReadOnly()
		if v.st.out == nil {
			return
		}
	}
	var alts []string
	switch {
	case len(args) == 0:
		alts = []string{""}
	default:
		known := true
		for _, w := range args {
			known = known && !w.Many && !w.Glob
		}
		if !known || hasHole(args[0].Text) {
			alts = []string{worst(a.wordsOf(args)...)}
			if args[0].Text != "" && !hasHole(args[0].Text) && !isPlainFormat(args[0].Text) {
				alts = []string{anyText}
			}
			if !hasHole(args[0].Text) {
				alts = []string{a.format(args[0].Text, args[1:])}
			}
		} else {
			alts = []string{a.format(args[0].Text, args[1:])}
		}
	}
	if store {
		a.assign(v.st, target, alts, false)
		return
	}
	v.st.out.write(alts)
}

func isPlainFormat(s string) bool { return !strings.Contains(s, "\\") }

// format fills in a printf format, which is used again while arguments are left.
func (a *analyzer) format(f string, args []Word) string {
	var b strings.Builder
	for round := 0; round == 0 || len(args) > 0 && round < 1000; round++ {
		before := len(args)
		var stop bool
		args, stop = a.formatOnce(&b, f, args)
		if stop || len(args) == before || b.Len() > maxText {
			break
		}
	}
	return b.String()
}

func (a *analyzer) formatOnce(b *strings.Builder, f string, args []Word) (rest []Word, stop bool) {
	next := func() string {
		if len(args) == 0 {
			return ""
		}
		s := args[0].Text
		if args[0].Glob || args[0].Many && !hasHole(s) {
			s = anyText
		}
		args = args[1:]
		return s
	}
	for i := 0; i < len(f); i++ {
		c := f[i]
		if c == '\\' && i+1 < len(f) {
			end := i + 2
			if strings.IndexByte("01234567xuU", f[i+1]) >= 0 {
				for end < len(f) && end < i+10 && strings.IndexByte("0123456789abcdefABCDEF", f[end]) >= 0 {
					end++
				}
				if f[i+1] >= '0' && f[i+1] <= '7' {
					end = i + 2
					for end < len(f) && end < i+4 && f[end] >= '0' && f[end] <= '7' {
						end++
					}
				} else if f[i+1] == 'x' {
					end = min(end, i+4)
				} else if f[i+1] == 'u' {
					end = min(end, i+6)
				}
			}
			if f[i+1] == 'c' {
				return nil, true
			}
			if f[i+1] == '"' {
				b.WriteByte('"')
			} else {
				b.WriteString(escapes(f[i:end], true))
			}
			i = end - 1
			continue
		}
		if c != '%' || i+1 >= len(f) {
			b.WriteByte(c)
			continue
		}
		j := i + 1
		for j < len(f) && strings.IndexByte("-+ 0#'123456789.*", f[j]) >= 0 {
			if f[j] == '*' {
				next()
			}
			j++
		}
		flags := f[i+1 : j]
		if j >= len(f) {
			b.WriteString(f[i:])
			break
		}
		i = j
		switch f[j] {
		case '%':
			b.WriteByte('%')
		case 's':
			b.WriteString(padded(next(), flags))
		case 'b':
			s := next()
			b.WriteString(escapes(s, true))
			if strings.Contains(s, "\\c") {
				return nil, true
			}
		case 'q', 'Q':
			b.WriteString(quoteWord(next()))
		case 'c':
			s := next()
			if hasHole(s) {
				b.WriteString(anyText)
			} else if s != "" {
				b.WriteString(s[:1])
			}
		case 'd', 'i', 'u', 'o', 'x', 'X':
			b.WriteString(formatNumber(next(), flags, f[j]))
		case 'e', 'f', 'g', 'E', 'G', 'a':
			next()
			b.WriteString(nameText)
		case '(':
			end := strings.IndexByte(f[j:], ')')
			if end < 0 {
				b.WriteString(anyText)
				return nil, true
			}
			next()
			b.WriteString(anyText)
			i = j + end + 1
		default:
			b.WriteString(anyText)
			next()
		}
	}
	return args, false
}

// padded applies the width and precision of %s.
func padded(s, flags string) string {
	if flags == "" {
		return s
	}
	if hasHole(s) || strings.Contains(flags, "*") {
		return worst(s)
	}
	width, prec, hasPrec := strings.Cut(flags, ".")
	if hasPrec {
		n, _ := strconv.Atoi(prec)
		if n < len(s) && n >= 0 {
			s = s[:n]
		}
	}
	left := strings.HasPrefix(width, "-")
	n, _ := strconv.Atoi(strings.Trim(width, "-+ 0#'"))
	if n > 4096 {
		return anyText
	}
	for len(s) < n {
		if left {
			s += " "
		} else {
			s = " " + s
		}
	}
	return s
}

func formatNumber(s, flags string, verb byte) string {
	if s == "" {
		return "0"
	}
	if c, ok := strings.CutPrefix(s, "'"); ok && c != "" {
		return strconv.Itoa(int(c[0]))
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || flags != "" {
		return nameText
	}
	switch verb {
	case 'o':
		return strconv.FormatInt(n, 8)
	case 'x':
		return strconv.FormatInt(n, 16)
	case 'X':
		return strings.ToUpper(strconv.FormatInt(n, 16))
	}
	return itoa(n)
}
