package path

import (
	"slices"
	"strings"
)

// configRule matches settings by section and key; "*" matches any, "*x" an
// ending, "x*" a beginning. A subsection never matters.
type configRule struct {
	section, key string
	effect       Effect
	// harmless excuses a value; nil excuses none.
	harmless func(Setting) bool
	reason   string
}

func (r configRule) matches(s Setting) bool {
	section, _, key := s.split()
	return matchWord(r.section, section) && matchWord(r.key, key)
}

func matchWord(pattern, word string) bool {
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(word, suffix)
	}
	return matchName(pattern, word)
}

// configRules are the settings that make git, or a program that keeps its
// settings in git's files, start something or go elsewhere. The first match
// counts. Sources: git-config(1) and the manuals it names (2.39 and later),
// git-lfs-config(5), git-annex(1). safe.*, which git ignores in a repository's
// own file, is left out.
var configRules = []configRule{
	{"core", "fsmonitor", Executes, isBoolean, "git status runs it"},
	{"core", "hookspath", Executes, nil, "git runs the programs in it"},
	{"core", "sshcommand", Executes, nil, "git fetch and push run it"},
	{"core", "pager", Executes, nil, "git log and diff run it"},
	{"core", "editor", Executes, nil, "git commit runs it"},
	{"core", "askpass", Executes, nil, "git runs it to ask for a password"},
	{"core", "gitproxy", Executes, nil, "git fetch runs it"},
	{"core", "alternaterefscommand", Executes, nil, "git fetch runs it"},
	{"core", "attributesfile", Includes, nil, "it selects filters and drivers"},
	{"core", "worktree", Relocates, nil, "git writes the checked-out files there"},
	{"include", "path", Includes, nil, "more settings are read from there"},
	{"includeif", "path", Includes, nil, "more settings are read from there"},

	{"alias", "*", Executes, plainAlias, "the alias runs a program"},
	{"pager", "*", Executes, isBoolean, "the command's output goes through it"},
	{"interactive", "difffilter", Executes, nil, "git add -p runs it"},
	{"sequence", "editor", Executes, nil, "git rebase -i runs it"},
	{"credential", "helper", Executes, isEmpty, "git runs it, and hands it passwords"},
	{"filter", "clean", Executes, isEmpty, "git add and diff run it"},
	{"filter", "smudge", Executes, isEmpty, "git checkout runs it"},
	{"filter", "process", Executes, isEmpty, "git add and checkout run it"},
	{"diff", "external", Executes, nil, "git diff runs it"},
	{"diff", "command", Executes, nil, "git diff runs it"},
	{"diff", "textconv", Executes, nil, "git diff and log run it"},
	{"merge", "driver", Executes, nil, "git merge runs it"},
	{"gpg", "*program", Executes, nil, "git runs it to sign or verify"},
	{"gpg", "defaultkeycommand", Executes, nil, "git runs it to sign"},
	{"difftool", "cmd", Executes, nil, "git difftool runs it"},
	{"difftool", "path", Executes, nil, "git difftool runs it"},
	{"mergetool", "cmd", Executes, nil, "git mergetool runs it"},
	{"mergetool", "path", Executes, nil, "git mergetool runs it"},
	{"guitool", "cmd", Executes, nil, "git gui runs it"},
	{"man", "cmd", Executes, nil, "git help runs it"},
	{"man", "path", Executes, nil, "git help runs it"},
	{"man", "viewer", Executes, nil, "git help runs it"},
	{"browser", "cmd", Executes, nil, "git help -w runs it"},
	{"browser", "path", Executes, nil, "git help -w runs it"},
	{"web", "browser", Executes, nil, "git help -w runs it"},
	{"help", "browser", Executes, nil, "git help -w runs it"},
	{"instaweb", "*", Executes, nil, "git instaweb runs it"},
	{"imap", "tunnel", Executes, nil, "git imap-send runs it"},
	{"sendemail", "smtpserver", Executes, isHostName, "git send-email runs it"},
	{"sendemail", "*cmd", Executes, nil, "git send-email runs it"},
	{"trailer", "command", Executes, nil, "git interpret-trailers runs it"},
	{"hook", "*", Executes, nil, "git runs it as a hook"},
	{"init", "templatedir", Executes, nil, "hooks are copied from it into new repositories"},
	{"gitcvs", "dbdriver", Executes, nil, "git cvsserver loads it"},
	{"lfs", "path", Executes, nil, "git lfs runs it to transfer"},
	{"lfs", "clean", Executes, nil, "git lfs runs it"},
	{"lfs", "smudge", Executes, nil, "git lfs runs it"},
	{"lfs", "standalonetransferagent", Executes, nil, "git lfs runs it to transfer"},
	{"submodule", "update", Executes, notCommand, "git submodule update runs it"},
	{"submodule", "url", Executes, plainURL, "git runs the address as a command"},
	{"remote", "uploadpack", Executes, nil, "git fetch runs it, on this machine for a local path"},
	{"remote", "receivepack", Executes, nil, "git push runs it, on this machine for a local path"},
	{"remote", "vcs", Executes, nil, "git fetch runs git-remote-NAME"},
	{"remote", "url", Executes, plainURL, "git runs the address as a command"},
	{"remote", "pushurl", Executes, plainURL, "git runs the address as a command"},
	{"remote", "annex-*", Executes, annexData, "git annex takes programs from such settings"},
	{"annex", "*", Executes, annexData, "git annex takes programs from such settings"},
	{"protocol", "allow", Executes, refuses, "it permits transports that run commands"},

	{"url", "insteadof", Redirects, nil, "what is fetched comes from another place"},
	{"url", "pushinsteadof", Redirects, nil, "what is pushed goes to another place"},
	{"http", "proxy", Redirects, isEmpty, "traffic and credentials go there"},
	{"remote", "proxy", Redirects, isEmpty, "traffic and credentials go there"},
	{"http", "sslverify", Redirects, isTrue, "any server is believed"},
	{"http", "sslcainfo", Redirects, nil, "another authority is believed"},
	{"http", "sslcapath", Redirects, nil, "another authority is believed"},
	{"http", "cookiefile", Relocates, nil, "cookies are taken from it and may be written to it"},

	// What later versions and other programs may add.
	{"*", "*command", Executes, nil, "the name says that it is a command"},
	{"*", "*cmd", Executes, nil, "the name says that it is a command"},
	{"*", "*program", Executes, nil, "the name says that it is a program"},
	{"*", "*hook", Executes, nil, "the name says that it is a hook"},
	{"*", "*helper", Executes, isEmpty, "the name says that it is a program"},
}

// isBoolean follows git_parse_maybe_bool: words in any case, and numbers.
func isBoolean(s Setting) bool {
	if s.NoValue || s.Value == "" {
		return true
	}
	words := []string{"true", "yes", "on", "false", "no", "off"}
	return slices.Contains(words, strings.ToLower(s.Value)) || strings.Trim(s.Value, "0123456789") == ""
}

func isTrue(s Setting) bool {
	return isBoolean(s) && !slices.Contains([]string{"", "false", "no", "off", "0"}, strings.ToLower(s.Value)) || s.NoValue
}

func isEmpty(s Setting) bool { return s.Value == "" }

func isHostName(s Setting) bool { return !strings.Contains(s.Value, "/") }

func notCommand(s Setting) bool { return !strings.HasPrefix(s.Value, "!") }

func plainURL(s Setting) bool { return !runsAsURL(s.Value) }

func refuses(s Setting) bool { return s.Value == "never" || s.Value == "user" }

// plainAlias: an alias for a git command. One that begins with "!" is a shell
// command, one that begins with an option may set any setting.
func plainAlias(s Setting) bool {
	text := strings.TrimSpace(s.Value)
	return !strings.HasPrefix(text, "!") && !strings.HasPrefix(text, "-") && !strings.Contains(text, "--exec")
}

// annexData are what git annex init writes itself.
func annexData(s Setting) bool {
	_, _, key := s.split()
	return slices.Contains([]string{"annex-uuid", "annex-ignore", "uuid", "version", "crippledfilesystem", "thin", "numcopies"}, key)
}

// builtinDiff and builtinMerge are the drivers that gitattributes(5) defines.
var builtinDiff = setOf("ada", "bash", "bibtex", "cpp", "csharp", "css", "dts", "elixir", "fortran", "fountain",
	"golang", "html", "java", "kotlin", "markdown", "matlab", "objc", "pascal", "perl", "php", "python", "ruby",
	"rust", "scheme", "tex")

var builtinMerge = setOf("text", "binary", "union")

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}
