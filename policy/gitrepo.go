package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	policypath "sandboxd/policy/path"
)

// gitStarts says what a git command that only reads would start because the
// repository's own files name it. A checkout brings no such file; an unpacked
// archive does, and so does whoever wrote into .git. Each text is the first
// finding, "" without one.
type gitStarts struct {
	// unpinned cannot be switched off from outside: drivers and filters have
	// names of their own, included files hold anything.
	unpinned string
	// pinned is switched off by variables that harm no other command.
	pinned string
	// alone is switched off too, but only in a call that does nothing but read:
	// hooks and transports are what other git commands are allowed for.
	alone string
}

// maxRepositories bounds how many repositories are looked at behind gitlinks.
const maxRepositories = 64

// maxGitIndex bounds the index files that are read, in bytes. A repository of a
// million files has one of about 100 MB.
const maxGitIndex = 256 << 20

// maxGitConfig bounds the configurations that are read, in bytes.
const maxGitConfig = 4 << 20

// gitReader looks at the repositories that a git command meets.
type gitReader struct {
	sub   string // sub-command
	seen  map[string]bool
	found gitStarts
}

// gitStartsIn looks at the repository that git would find from dir upwards.
func gitStartsIn(dir, sub string) gitStarts {
	g := gitReader{sub: sub, seen: map[string]bool{}}
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		git := policypath.FindGitDirs(d)
		if git.Dir != "" {
			g.repository(d, git)
			// A directory without HEAD is none for git, which looks further up.
			if _, err := os.Lstat(filepath.Join(git.Dir, "HEAD")); err == nil {
				return g.found
			}
		}
		if d == "/" || d == "." {
			return g.found
		}
	}
}

func note(into *string, text string) {
	if *into == "" {
		*into = text
	}
}

// repository looks at one, checked out at top.
func (g *gitReader) repository(top string, git policypath.GitDirs) {
	if g.seen[git.Dir] {
		return
	}
	g.seen[git.Dir] = true
	if len(g.seen) > maxRepositories {
		note(&g.found.unpinned, "more repositories than are looked at")
		return
	}
	hooks, hashLen := filepath.Join(git.Common, "hooks"), 20
	transport, lazy := "", g.sub == "remote show"
	files := []string{filepath.Join(git.Common, "config"), filepath.Join(git.Dir, "config.worktree")}
	for _, file := range files {
		content, err := policypath.ReadRegular(file, maxGitConfig)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EFBIG) {
			note(&g.found.unpinned, "a git config that is not read")
			continue
		}
		if err != nil {
			continue // git reads what we can read
		}
		for _, f := range policypath.JudgeGitConfig(content) {
			g.finding(f, git, top, &transport)
		}
		settings, _ := policypath.ParseGitConfig(content) // judged above
		for _, s := range settings {
			switch {
			case s.Key == "core.hookspath":
				if hooks = s.Value; !filepath.IsAbs(hooks) {
					hooks = filepath.Join(top, hooks)
				}
			case s.Key == "extensions.objectformat" && strings.EqualFold(s.Value, "sha256"):
				hashLen = 32
			case s.Key == "extensions.partialclone", strings.HasPrefix(s.Key, "remote.") && strings.HasSuffix(s.Key, ".promisor"):
				lazy = true // missing objects are fetched when they are read
			}
		}
	}
	if lazy && transport != "" {
		note(&g.found.alone, transport)
	}
	// The one hook that reading can start, when the index is brought up to date.
	if _, err := os.Stat(filepath.Join(hooks, "post-index-change")); err == nil {
		note(&g.found.alone, "the hook post-index-change")
	}
	g.gitlinks(top, git, hashLen)
}

// finding sorts one finding of the table of dangerous settings.
func (g *gitReader) finding(f policypath.Finding, git policypath.GitDirs, top string, transport *string) {
	section, _, _ := strings.Cut(f.Key, ".")
	text := readable(f.Key + " = " + f.Value)
	switch f.Effect {
	case policypath.Redirects:
		return
	case policypath.Relocates:
		if f.Key == "core.worktree" {
			tree := f.Value
			if !filepath.IsAbs(tree) {
				tree = filepath.Join(git.Dir, tree)
			}
			if realOrSame(tree) != realOrSame(top) {
				note(&g.found.unpinned, text)
			}
		}
		return
	case policypath.Includes:
		if f.Key == "core.attributesfile" {
			return // it selects drivers, and those are looked for
		}
	case policypath.Executes, policypath.Unreadable:
	}
	switch f.Key {
	case "core.fsmonitor", "core.pager":
		note(&g.found.pinned, text)
		return
	case "core.hookspath", "core.editor":
		return // the hooks themselves are looked at; reading starts no editor
	case "core.sshcommand", "core.askpass", "core.gitproxy", "core.alternaterefscommand":
		note(transport, text)
		return
	}
	switch section {
	case "pager":
		note(&g.found.pinned, text)
	case "remote", "protocol", "credential":
		note(transport, text)
	case "alias": // shadows no command but one that git gives up
		if f.Key == "alias."+g.sub {
			note(&g.found.unpinned, text)
		}
	case "interactive", "sequence", "merge", "mergetool", "difftool", "guitool", "instaweb", "imap", "sendemail", "trailer",
		"init", "gitcvs", "submodule", "annex": // of commands that do more than read
	case "filter":
		if !gitLFS[f.Value] {
			note(&g.found.unpinned, text)
		}
	default:
		note(&g.found.unpinned, text)
	}
}

// gitLFS are the filters that git lfs install writes (git-lfs-install(1)).
var gitLFS = map[string]bool{
	"git-lfs clean -- %f": true, "git-lfs smudge -- %f": true, "git-lfs smudge --skip -- %f": true,
	"git-lfs filter-process": true, "git-lfs filter-process --skip": true,
}

// gitlinks looks at the repositories that are checked out inside this one.
func (g *gitReader) gitlinks(top string, git policypath.GitDirs, hashLen int) {
	index := filepath.Join(git.Dir, "index")
	data, err := policypath.ReadRegular(index, maxGitIndex)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EFBIG) {
		note(&g.found.unpinned, "an index that is not read")
		return
	}
	if err != nil {
		return
	}
	if shared, err := filepath.Glob(filepath.Join(git.Dir, "sharedindex.*")); err != nil || len(shared) > 0 {
		note(&g.found.unpinned, "an index in two parts, which is not read")
		return
	}
	links, err := gitlinks(data, hashLen)
	if err != nil {
		note(&g.found.unpinned, err.Error())
	}
	for _, l := range links {
		if sub := filepath.Join(top, l); within(sub, top) {
			if inner := policypath.FindGitDirs(sub); inner.Dir != "" {
				g.repository(sub, inner)
			}
		}
	}
}
