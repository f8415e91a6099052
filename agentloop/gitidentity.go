package agentloop

import (
	"path/filepath"
	"strings"
)

// gitIdentity is what git may know of the caller: a name, an address and the
// name of first branches. Never credentials, helpers, aliases or includes.
type gitIdentity struct{ name, email, branch string }

// readGitIdentity reads git's two global files the way git orders them: the XDG
// one first, ~/.gitconfig wins.
func readGitIdentity(environ []string, home string) gitIdentity {
	var files []string
	if xdg := lookupEnv(environ, "XDG_CONFIG_HOME"); filepath.IsAbs(xdg) {
		files = append(files, xdg+"/git/config")
	} else if home != "" {
		files = append(files, home+"/.config/git/config")
	}
	if home != "" {
		files = append(files, home+"/.gitconfig")
	}
	if global := lookupEnv(environ, "GIT_CONFIG_GLOBAL"); global != "" {
		files = []string{global}
	}
	var id gitIdentity
	for _, file := range files {
		text, err := readSmall(file)
		if err != nil {
			continue
		}
		v := gitConfigValues(text, "user.name", "user.email", "init.defaultbranch")
		id.name = orElse(v["user.name"], id.name)
		id.email = orElse(v["user.email"], id.email)
		id.branch = orElse(v["init.defaultbranch"], id.branch)
	}
	return id
}

func orElse(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}

// env is the identity as variables, for a run that has no private home to hold
// a file. Variables outrank the repository's own user.name, a file does not:
// that is why the file is preferred.
func (id gitIdentity) env() []string {
	var env []string
	if id.name != "" {
		env = append(env, "GIT_AUTHOR_NAME="+id.name, "GIT_COMMITTER_NAME="+id.name)
	}
	if id.email != "" {
		env = append(env, "GIT_AUTHOR_EMAIL="+id.email, "GIT_COMMITTER_EMAIL="+id.email)
	}
	return env
}

// file is the identity as a global git configuration. safe lists checkouts that
// belong to another uid than the command's, which git refuses to touch unless
// they are listed; the configuration it would run is confined here.
func (id gitIdentity) file(safe []string) string {
	var b strings.Builder
	b.WriteString("# written by sandboxd at every run: the caller's identity, no credentials\n")
	if id.name != "" || id.email != "" {
		b.WriteString("[user]\n")
		writeGitValue(&b, "name", id.name)
		writeGitValue(&b, "email", id.email)
	}
	if id.branch != "" {
		b.WriteString("[init]\n")
		writeGitValue(&b, "defaultBranch", id.branch)
	}
	if len(safe) > 0 {
		b.WriteString("[safe]\n")
		for _, dir := range safe {
			writeGitValue(&b, "directory", dir)
		}
	}
	return b.String()
}

func writeGitValue(b *strings.Builder, key, value string) {
	if value == "" {
		return
	}
	b.WriteString("\t" + key + ` = "`)
	for i := 0; i < len(value); i++ {
		switch c := value[i]; c {
		case '\\', '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteString("\"\n")
}

// gitConfigValues reads the last values of the wanted keys ("section.key", lower
// case) from a git configuration. Sections with a subsection and includes are
// skipped: this reads an identity and a path, not a whole configuration.
func gitConfigValues(text string, keys ...string) map[string]string {
	values := make(map[string]string, len(keys))
	section := ""
	text = strings.ReplaceAll(text, "\\\n", "")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, rest, ok := strings.Cut(line[1:], "]")
			if !ok {
				section = ""
				continue
			}
			section = strings.ToLower(strings.TrimSpace(head))
			line = strings.TrimSpace(rest)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		name := section + "." + strings.ToLower(strings.TrimSpace(key))
		for _, want := range keys {
			if name == want {
				values[want] = gitValue(value)
			}
		}
	}
	return values
}

// gitValue strips quotes, escapes and a trailing comment, as git-config(1)
// describes values.
func gitValue(s string) string {
	var b strings.Builder
	quoted, kept := false, 0
	s = strings.TrimSpace(s)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
			kept = b.Len()
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(unescapeGit(s[i]))
			kept = b.Len()
		case (c == '#' || c == ';') && !quoted:
			return b.String()[:kept]
		default:
			b.WriteByte(c)
			if quoted || c != ' ' && c != '\t' {
				kept = b.Len()
			}
		}
	}
	return b.String()[:kept]
}

func unescapeGit(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	}
	return c
}
