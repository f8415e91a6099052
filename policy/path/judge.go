package path

import (
	"bytes"
	"strings"
)

// Finding is one thing in a file's content that another program would obey.
type Finding struct {
	// Key is the setting or attribute, as git prints it.
	Key   string
	Value string
	Line  int // 1-based; 0 where there are no lines
	// Effect says what obeying it can do.
	Effect Effect
	// Reason ends the sentence "KEY is dangerous, because ...".
	Reason string
}

// Effect is what obeying a setting can do. The zero value is the worst.
type Effect uint8

const (
	// Executes: a program is started.
	Executes Effect = iota
	// Includes: more settings are read from elsewhere.
	Includes
	// Redirects: data or credentials go to another place of the network.
	Redirects
	// Relocates: files are written elsewhere. Whether that is harmful depends
	// on where: a submodule's core.worktree is written by git itself.
	Relocates
	// Unreadable: the file is malformed, and cannot be judged. Git never
	// writes such a file.
	Unreadable
)

func (e Effect) String() string {
	switch e {
	case Executes:
		return "executes"
	case Includes:
		return "includes"
	case Redirects:
		return "redirects"
	case Relocates:
		return "relocates"
	case Unreadable:
		return "unreadable"
	}
	return "executes"
}

// same reports whether two findings are about the same setting and value,
// wherever it stands.
func (f Finding) same(g Finding) bool { return f.Key == g.Key && f.Value == g.Value }

// JudgeGitConfig lists the settings in content that start programs or lead
// elsewhere. What git clone, init, commit, worktree, submodule, gc and rebase
// write themselves is not among them, save core.worktree ([Relocates]), whose
// harm depends on its place.
func JudgeGitConfig(content []byte) []Finding {
	settings, err := ParseGitConfig(content)
	var found []Finding
	for _, s := range settings {
		if f, bad := judgeSetting(s); bad {
			found = append(found, f)
		}
	}
	if bad, ok := err.(*ConfigError); ok {
		found = append(found, Finding{Key: "syntax", Line: bad.Line, Effect: Unreadable, Reason: "git cannot read the file either"})
	}
	return found
}

func judgeSetting(s Setting) (Finding, bool) {
	for _, rule := range configRules {
		if !rule.matches(s) {
			continue
		}
		if rule.harmless != nil && rule.harmless(s) {
			return Finding{}, false
		}
		return Finding{Key: s.Key, Value: s.Value, Line: s.Line, Effect: rule.effect, Reason: rule.reason}, true
	}
	return Finding{}, false
}

// CleanGitConfig returns content without the settings that bad reports, and
// whether it could be done: a malformed file has no clean form.
func CleanGitConfig(content []byte, bad func(Finding) bool) ([]byte, bool) {
	settings, err := ParseGitConfig(content)
	if err != nil {
		return nil, false
	}
	var clean bytes.Buffer
	from := 0
	for _, s := range settings {
		if f, found := judgeSetting(s); found && bad(f) {
			clean.Write(content[from:s.start])
			from = s.end
		}
	}
	clean.Write(content[from:])
	for _, f := range JudgeGitConfig(clean.Bytes()) {
		if bad(f) {
			return nil, false
		}
	}
	return clean.Bytes(), true
}

// NewFindings returns the findings of now that were not in before. A setting
// that a person wrote before a run is theirs.
func NewFindings(now, before []Finding) []Finding {
	var fresh []Finding
next:
	for _, f := range now {
		for _, old := range before {
			if f.same(old) {
				continue next
			}
		}
		fresh = append(fresh, f)
	}
	return fresh
}

// JudgeGitAttributes lists the attributes in content that select a filter or
// a driver. They start a program only together with a setting that defines it;
// built-in drivers (diff=golang, merge=union) need none.
func JudgeGitAttributes(content []byte) []Finding {
	var found []Finding
	line := 0
	for text := range bytes.SplitSeq(content, []byte("\n")) {
		line++
		fields := strings.Fields(string(text))
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		for _, attr := range fields[1:] {
			name, value, set := strings.Cut(attr, "=")
			if !set {
				continue
			}
			driver := name == "filter" || name == "diff" && !builtinDiff[value] || name == "merge" && !builtinMerge[value]
			if driver {
				found = append(found, Finding{Key: name, Value: value, Line: line, Effect: Executes,
					Reason: "git runs the " + name + " driver of that name"})
			}
		}
	}
	return found
}

// JudgeGitModules lists the settings in a .gitmodules file by which git would
// run a program or write outside the checkout. A file as git submodule add
// writes it has none. Sources: CVE-2017-1000117, CVE-2018-11235,
// CVE-2018-17456, CVE-2025-48384, git-submodule(1).
func JudgeGitModules(content []byte) []Finding {
	settings, err := ParseGitConfig(content)
	var found []Finding
	add := func(s Setting, why string) {
		found = append(found, Finding{Key: s.Key, Value: s.Value, Line: s.Line, Effect: Executes, Reason: why})
	}
	for _, s := range settings {
		section, name, key := s.split()
		if section != "submodule" {
			continue
		}
		switch {
		case hasDotDot(name) || strings.HasPrefix(name, "/"):
			add(s, "the name leads out of .git/modules")
		case key == "update" && strings.HasPrefix(s.Value, "!"):
			add(s, "git submodule update runs it")
		case (key == "url" || key == "path") && strings.HasPrefix(s.Value, "-"):
			add(s, "git reads it as an option")
		case key == "path" && (strings.ContainsAny(s.Value, "\r\n") || hasDotDot(s.Value) || strings.HasPrefix(s.Value, "/")):
			add(s, "git writes the submodule elsewhere")
		case key == "url" && runsAsURL(s.Value):
			add(s, "git runs the address as a command")
		}
	}
	if bad, ok := err.(*ConfigError); ok {
		found = append(found, Finding{Key: "syntax", Line: bad.Line, Effect: Unreadable, Reason: "git cannot read the file either"})
	}
	return found
}

// GitLinkTarget returns where a .git file (with "gitdir: ") or a commondir file
// (without) points, as written, and false if it is neither.
func GitLinkTarget(content []byte) (string, bool) {
	text := strings.TrimRight(string(content), "\r\n")
	text = strings.TrimPrefix(text, "gitdir: ")
	if text == "" || strings.ContainsAny(text, "\x00\n") {
		return "", false
	}
	return text, true
}

// IsGitHook reports whether git would start the file name in a hooks directory:
// its name is a hook's, or it is executable and a later git may know it. The
// samples that git init copies are not hooks.
func IsGitHook(name string, executable bool) bool {
	if strings.HasSuffix(name, ".sample") {
		return false
	}
	return gitHookNames[name] || executable
}

func hasDotDot(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." {
			return true
		}
	}
	return false
}

// runsAsURL reports whether git hands the address to a helper program that is
// not a plain transport: "ext::sh -c ..." and other "helper::address" forms, or
// an ssh address whose host is an option.
func runsAsURL(url string) bool {
	scheme, _, helper := strings.Cut(url, "::")
	if helper && scheme != "" && !strings.ContainsAny(scheme, "/:[@.") {
		return true
	}
	if _, rest, ok := strings.Cut(url, "://"); ok {
		return strings.HasPrefix(rest, "-")
	}
	return strings.HasPrefix(url, "-")
}
