package path

import (
	"strings"
	"sync"
)

// Level says how a protected name is held. The zero value is the strictest.
type Level uint8

const (
	// LevelKernel makes an existing name read-only for the run. A name that
	// does not exist yet is held as LevelCheck, so that git init works.
	LevelKernel Level = iota
	// LevelCheck leaves the name writable; its content is judged after the run.
	LevelCheck
	// LevelAsk holds nothing in the kernel and undoes nothing: only file tools
	// and redirects ask. For names that honest commands write all the time.
	LevelAsk
)

func (l Level) String() string {
	switch l {
	case LevelKernel:
		return "kernel"
	case LevelCheck:
		return "check"
	case LevelAsk:
		return "ask"
	}
	return "kernel"
}

// Kind says what reads a protected name.
type Kind uint8

const (
	// GitHooks is a directory whose programs git starts.
	GitHooks Kind = iota
	// GitConfig is a file in git's configuration grammar.
	GitConfig
	// GitAttributes is a file that selects filters and drivers by path.
	GitAttributes
	// GitLink is a file that tells git to look elsewhere for a repository.
	GitLink
	// GitModules is the list of submodules.
	GitModules
	// GitData is the rest of a git directory.
	GitData
	// ShellStart is read by a shell or a program when it starts in a home.
	ShellStart
	// EditorSettings is read by an editor that opens the directory.
	EditorSettings
	// AgentSettings is read by a coding agent that starts in the directory.
	AgentSettings
	// ToolSettings is read by another tool that starts programs.
	ToolSettings
	// OwnPolicy is a policy file of sandboxd.
	OwnPolicy
)

func (k Kind) String() string {
	names := [...]string{"git hooks", "git config", "git attributes", "git link", "git modules", "git data",
		"shell start file", "editor settings", "agent settings", "tool settings", "sandboxd policy"}
	if int(k) < len(names) {
		return names[k]
	}
	return "protected"
}

// Entry is one line of the table of protected names.
type Entry struct {
	// Pattern is a list of names joined by "/". It matches at any depth, and
	// everything beneath what it matches. "*" stands for one whole component;
	// a "*" at the end of a longer component stands for its rest.
	Pattern string
	Kind    Kind
	Level   Level
	// Reason ends the sentence "protected, because ...".
	Reason string
}

// String is the form people see: "git hooks (.git/hooks)".
func (e Entry) String() string { return e.Kind.String() + " (" + e.Pattern + ")" }

// Match reports the entry that protects rel, a clean relative path, and false
// if none does. It looks at the name alone, at any depth, with case, as Linux
// does; what rel's links lead to is the business of [Resolver.Resolve]. Of
// several entries the first in the table wins: special ones stand first.
func Match(rel string) (Entry, bool) {
	names := split(rel)
	for i, pattern := range patterns() {
		if matchAnywhere(pattern, names) {
			return protected[i], true
		}
	}
	return Entry{}, false
}

// patterns are the table's patterns taken apart, in its order.
var patterns = sync.OnceValue(func() [][]string {
	all := make([][]string, len(protected))
	for i, e := range protected {
		all[i] = split(e.Pattern)
	}
	return all
})

// MatchGitDir is Match for rel within a git directory that has another name
// than .git: a bare repository, or the target of a gitfile.
func MatchGitDir(rel string) (Entry, bool) {
	if rel == "" || rel == "." {
		return Match(".git")
	}
	return Match(".git/" + rel)
}

// Protected returns a copy of the table, in order.
func Protected() []Entry { return append([]Entry(nil), protected...) }

func split(rel string) []string {
	var names []string
	for name := range strings.SplitSeq(rel, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// matchAnywhere reports whether pattern matches a run of whole components of
// names, wherever it begins.
func matchAnywhere(pattern, names []string) bool {
	for from := 0; from+len(pattern) <= len(names); from++ {
		if matchHere(pattern, names[from:]) {
			return true
		}
	}
	return false
}

func matchHere(pattern, names []string) bool {
	for i, p := range pattern {
		if !matchName(p, names[i]) {
			return false
		}
	}
	return true
}

func matchName(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
