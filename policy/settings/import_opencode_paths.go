package settings

import (
	"strings"

	"sandboxd/policy"
)

// opencodePath converts a path pattern. There * also crosses slashes and the
// whole path below the project is compared; here it stays in one directory. An
// allow becomes the same or less, a deny or ask the same or more; "" is nothing
// (allow) or everything (deny). exact is false when it is not the same.
func opencodePath(pattern string, kind policy.Kind) (path string, exact bool) {
	if rest, ok := strings.CutPrefix(pattern, "$HOME"); ok {
		pattern = "~" + rest
	}
	if strings.ContainsAny(pattern, "[]{}\\") || strings.Contains(pattern, "..") || strings.HasPrefix(pattern, "!") {
		return "", false
	}
	anchor := "./"
	switch {
	case strings.HasPrefix(pattern, "/"):
		anchor, pattern = "/", pattern[1:]
	case strings.HasPrefix(pattern, "~/"):
		anchor, pattern = "~/", pattern[2:]
	default:
		pattern = strings.TrimPrefix(pattern, "./")
	}
	if !strings.ContainsAny(pattern, "*?") {
		return anchor + pattern, true
	}
	star := strings.IndexAny(pattern, "*?")
	slash := strings.LastIndexByte(pattern, '/')
	directory, last := pattern[:slash+1], pattern[slash+1:]
	switch {
	case star <= slash && !strings.HasSuffix(pattern[:star], "/") && star > 0, strings.Contains(last, "?"), strings.Count(pattern, "*") > 2:
		// A star in the middle of a directory's name: below that place, a deny
		// covers everything.
		if kind == policy.AllowRule {
			return anchor + pattern, false
		}
		return wholeDirectory(anchor, pattern[:strings.LastIndexByte(pattern[:star], '/')+1])
	case last == "*" || last == "**":
		if star <= slash && directory != "**/" {
			break
		}
		if star <= slash {
			directory = ""
		}
		return anchor + directory + "**", true
	case star > slash && strings.HasPrefix(last, "*") && strings.Count(last, "*") == 1:
		return anchor + directory + "**/" + last, true
	case star > slash && strings.HasSuffix(last, "*") && strings.Count(last, "*") == 1:
		return anchor + directory + last, true
	}
	if kind == policy.AllowRule {
		return anchor + pattern, false
	}
	return wholeDirectory(anchor, pattern[:strings.LastIndexByte(pattern[:star], '/')+1])
}

func wholeDirectory(anchor, directory string) (string, bool) {
	if directory == "" && anchor == "./" {
		return "", false
	}
	return anchor + directory + "**", false
}

// opencodeExternal maps paths outside the project: allowed ones become readable,
// denied ones are hidden.
func (i *importer) opencodeExternal(s statement, p permission) {
	path := p.pattern
	if rest, ok := strings.CutPrefix(path, "$HOME"); ok {
		path = "~" + rest
	}
	switch {
	case p.kind == policy.AskRule:
		i.note(p.line, s.text, Kept, "what is outside the project is asked about")
	case p.kind == policy.AllowRule:
		if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") || path == "/*" || path == "/**" || path == "~/*" || path == "~/**" {
			i.note(p.line, s.text, Refused, "name the directories")
			return
		}
		i.path(p.line, s.text, path, policy.GrantRead, Narrowed, "readable; add it to filesystem.write to let commands write there")
	default:
		s.except = []string{"./**"}
		if path == "*" {
			path = "/**"
		}
		if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
			path = "/**"
		}
		if converted, _ := opencodePath(path, p.kind); converted != "" {
			path = converted
		} else {
			path = "/**"
		}
		var patterns []string
		for _, t := range []string{"read_file", "file_edit", "file_write", "list_dir", "grep_files", "glob_files"} {
			patterns = append(patterns, t+"("+path+")")
		}
		i.rules(s, "", patterns...)
	}
}
