package bash

import "strings"

// isDevice reports paths that are no files of their own.
func isDevice(p string) bool {
	return strings.HasPrefix(p, "/dev/") && !strings.HasPrefix(p, procPrefix) && !strings.HasPrefix(p, "/dev/shm/") ||
		strings.HasPrefix(p, "/proc/self/fd/")
}

// descriptor returns the number that a path like /dev/fd/3 names.
func descriptor(p string) (string, bool) {
	switch p {
	case "/dev/stdin":
		return "0", true
	case "/dev/stdout":
		return "1", true
	case "/dev/stderr":
		return "2", true
	}
	for _, pre := range [...]string{"/dev/fd/", "/proc/self/fd/"} {
		if n, ok := strings.CutPrefix(p, pre); ok && isDigits(n) {
			return n, true
		}
	}
	return "", false
}

// namesDescriptor finds the descriptor behind a path in any spelling.
func (a *analyzer) namesDescriptor(st *state, p string) (string, bool) {
	if n, ok := descriptor(p); ok {
		return n, true
	}
	base := baseName(p)
	if !isDigits(base) && !strings.HasPrefix(base, "std") && a.links == 0 {
		return "", false
	}
	for _, d := range st.dirs {
		q := clean(a.resolve(clean(absolute(d, p)), true))
		for _, pre := range [...]string{"/proc/thread-self", "/proc/" + nameText, "/proc/self/task/" + nameText} {
			if rest, ok := strings.CutPrefix(q, pre); ok {
				q = "/proc/self" + rest
			}
		}
		if n, ok := descriptor(q); ok {
			return n, true
		}
	}
	return "", false
}

// stream is the input behind a path that is no file of its own; what lies in
// /proc and /dev otherwise is unknown.
func (a *analyzer) stream(st *state, p string) (*text, bool) {
	if n, ok := a.namesDescriptor(st, p); ok {
		if t := st.input(n); t != nil {
			return t, true
		}
		return &text{alts: []string{worldText}}, true
	}
	for _, d := range st.dirs {
		q := clean(absolute(d, p))
		if strings.HasPrefix(q, "/proc/") || strings.HasPrefix(q, "/dev/") && !strings.HasPrefix(q, procPrefix) && !strings.HasPrefix(q, "/dev/shm/") && q != "/dev/null" {
			return &text{alts: []string{anyText}}, true
		}
	}
	return nil, false
}

// effect lists an effect for each possible working directory.
func (a *analyzer) effect(st *state, e Effect) {
	if a.isProc(e.Path) || e.Path == "" && e.Kind != Network {
		return
	}
	if e.Kind != Network && (e.Path == "/dev/null" || isStdio(e.Path)) {
		return
	}
	if len(a.result.Effects) > maxCommands {
		a.bound("effects")
		return
	}
	e.Pos = a.pos
	e.Hidden = e.Hidden || e.Glob && a.hidden
	raw := e.Path
	if e.Kind != Network && leavesUnknown(raw, e.Glob) {
		raw = anyText // above a name that is not known anything may be
	}
	if e.Kind != Network {
		if host, ok := devHost(raw); ok {
			e.Kind, e.Path = Network, host
			a.addEffect(e)
			return
		}
	}
	if i := strings.Index(raw, belowText); i >= 0 && onlyNames(raw) {
		e.Some, e.Only = true, a.only
		if e.Kind == Read { // hidden names too, unlike those of a pattern
			e.Glob, e.Tree = false, true
			if raw = strings.TrimSuffix(raw[:i], "/"); raw == "" {
				raw = "/"
			}
		}
	}
	if (e.Kind == Write || e.Kind == Delete) && hasHole(raw) && !onlyNames(raw) {
		a.noteHere(UnknownTarget, raw)
	}
	if e.Kind == Network {
		e.Path = publicText(raw)
		a.addEffect(e)
		return
	}
	if !e.Glob && hasHole(raw) && onlyNames(raw) {
		e.Glob = true
		e.Tree = e.Tree || strings.Contains(raw, belowText)
		raw = strings.ReplaceAll(raw, nameText, "*")
	}
	for _, d := range st.dirs {
		p := a.resolve(absolute(d, raw), !e.NoFollow)
		e.Path = publicText(p)
		a.addEffect(e)
	}
	if e.Glob && !e.NoFollow && a.links > 0 {
		a.linksMatching(st, raw, e)
	}
}

// linksMatching adds what an effect on a pattern does through links that the script
// made and the pattern matches.
func (a *analyzer) linksMatching(st *state, pattern string, e Effect) {
	e.Glob = false
	for _, name := range a.madeMatching(st, pattern) {
		for _, d := range st.dirs {
			if p := absolute(d, name); !a.spend(1) {
				if to := a.resolve(p, true); to != p {
					e.Path = publicText(to)
					a.addEffect(e)
				}
			}
		}
	}
}

// leavesUnknown reports a path that goes up (..) behind a component that is not
// known, which may be a link or stand for any number of components.
func leavesUnknown(p string, glob bool) bool {
	if !strings.Contains(p, "..") {
		return false
	}
	unknown := false
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." && unknown {
			return true
		}
		unknown = unknown || hasHole(part) || glob && strings.ContainsAny(part, "*?[")
	}
	return false
}

func (a *analyzer) addEffect(e Effect) {
	if a.repeat > 0 || len(a.result.Effects) > 0 && len(a.result.Effects) < 64 {
		for i := len(a.result.Effects) - 1; i >= 0 && i > len(a.result.Effects)-256; i-- {
			if a.result.Effects[i] == e {
				return
			}
		}
	}
	a.result.Effects = append(a.result.Effects, e)
}

func isStdio(p string) bool {
	switch p {
	case "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "-":
		return true
	}
	_, ok := descriptor(p)
	return ok
}

// devHost reads /dev/tcp/HOST/PORT, which Bash itself opens.
func devHost(p string) (string, bool) {
	for _, pre := range [...]string{"/dev/tcp/", "/dev/udp/"} {
		if rest, ok := strings.CutPrefix(p, pre); ok {
			return strings.Replace(rest, "/", ":", 1), true
		}
	}
	return "", false
}
