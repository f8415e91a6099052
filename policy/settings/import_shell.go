package settings

import (
	"strings"

	"sandboxd/policy"
)

// shellRule adds rules on commands. Other agents compare the text of a command;
// here a rule is compared with each simple command after quotes, variables and
// launchers are resolved. Where a pattern cannot mean the same, an allow is
// refused, and a deny or ask is made wider until it covers the old meaning.
func (i *importer) shellRule(s statement, content string, patterns []string) {
	problem := shellProblem(content, s.kind)
	switch {
	case problem == "":
		for k, p := range patterns {
			patterns[k] = "run_bash(" + strings.Join(strings.Fields(p), " ") + ")"
		}
		i.rules(s, "", patterns...)
	case s.kind == policy.AllowRule:
		i.note(s.line, s.text, Refused, problem)
	case hasOperator(content) && !strings.ContainsAny(content, "\\\x00"):
		// Such a rule is compared with the text of the whole script.
		i.rules(s, "also as a part of a longer script", "run_bash(*"+strings.TrimSpace(content)+"*)")
	default:
		wide := widen(content)
		if wide == "" {
			i.rules(s, problem+"; the whole tool is taken instead", "run_bash")
			return
		}
		i.rules(s, problem+"; a shorter prefix is taken instead", "run_bash("+wide+")", "run_bash("+wide+" *)")
	}
}

func hasOperator(content string) bool {
	return strings.ContainsAny(content, ";|&<>\n`") || strings.Contains(content, "$(")
}

// shellProblem says why content is not a pattern for one simple command, "" when
// it is one.
func shellProblem(content string, kind policy.Kind) string {
	unescaped := strings.ReplaceAll(content, `\*`, "")
	switch {
	case strings.TrimSpace(content) == "":
		return "empty"
	case hasOperator(content), strings.HasPrefix(strings.TrimSpace(content), "("):
		return "rules are compared with one simple command at a time, without redirects"
	case strings.ContainsAny(unescaped, "$\\\r\x00"):
		return "rules are compared with words after variables and escapes are resolved"
	case strings.ContainsAny(unescaped, `"'`) && (kind != policy.AllowRule || strings.Contains(unescaped, "*")):
		return "rules are compared with words after quotes are resolved"
	case kind == policy.AllowRule && strings.HasPrefix(content, "re:"):
		return "a command that begins with re: cannot be written as a rule"
	}
	return ""
}

// isAssignment reports whether word is NAME=... .
func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	if !ok || name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for _, c := range name {
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return true
}

// widen returns leading words of the first simple command in content, such that
// every command that content means also has them; "" when there are none.
func widen(content string) string {
	first := content
	if cut := strings.IndexAny(first, ";|&<>\n\r`("); cut >= 0 {
		first = first[:cut]
	}
	var words []string
	for _, w := range strings.Fields(first) {
		if len(words) == 0 && isAssignment(w) && !strings.ContainsAny(w, "\"'$\\") {
			continue
		}
		// A star may stand for anything, also for what ends the command.
		if strings.ContainsAny(w, "*?\"'$\\:=~{[!") {
			break
		}
		words = append(words, w)
	}
	if cut := strings.IndexAny(content, "<>"); cut > 0 && len(words) > 0 && !strings.HasSuffix(content[:cut], " ") {
		// The word before a redirect may be a descriptor number (2>file).
		if strings.Trim(words[len(words)-1], "0123456789") == "" {
			words = words[:len(words)-1]
		}
	}
	return strings.Join(words, " ")
}

// prefixPatterns gives the rules for a list of leading words, with any further
// arguments. ok is false when a word cannot be part of a pattern; the patterns
// are then those of the words before it, which cover more.
func prefixPatterns(words []string) (patterns []string, ok bool) {
	var good []string
	ok = true
	for k, w := range words {
		if strings.ContainsAny(w, "\n\r\x00`$;&|<>()") || k == 0 && (w == "" || strings.HasPrefix(w, "re:")) {
			ok = false
			break
		}
		good = append(good, escapeWord(w))
	}
	if len(good) == 0 {
		return nil, false
	}
	prefix := strings.Join(good, " ")
	return []string{"run_bash(" + prefix + ")", "run_bash(" + prefix + " *)"}, ok
}

// escapeWord writes a literal word so that a pattern means just that word.
func escapeWord(w string) string {
	if w == "" {
		return "''"
	}
	var b strings.Builder
	for _, c := range []byte(w) {
		if strings.IndexByte(" \t\\*\"'", c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// prefixRule adds rules for commands that begin with words.
func (i *importer) prefixRule(s statement, words []string) {
	patterns, ok := prefixPatterns(words)
	const why = "a word with operators or control characters is not part of a pattern"
	switch {
	case ok:
		i.rules(s, "", patterns...)
	case s.kind == policy.AllowRule:
		i.note(s.line, s.text, Refused, why)
	case len(patterns) == 0:
		i.rules(s, why+"; the whole tool is taken instead", "run_bash")
	default:
		i.rules(s, why+"; a shorter prefix is taken instead", patterns...)
	}
}
