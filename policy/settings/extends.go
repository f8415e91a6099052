package settings

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"sandboxd/policy"
)

// maxExtends bounds a chain of extends.
const maxExtends = 8

// chain returns top and everything it extends, strongest first. What is extended
// has the kind of the file that names it and is trusted no more than that file.
func (l *loader) chain(top layer, depth int) ([]layer, error) {
	out := []layer{top}
	for _, e := range slices.Backward(top.Extends) { // the last one named is stronger
		more, err := l.extended(e, top.Policy, top, depth)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// extended finds one profile or file that top names.
func (l *loader) extended(e Entry, in *Policy, top layer, depth int) ([]layer, error) {
	if depth >= maxExtends {
		return nil, &Error{File: e.Source.File, Line: e.Source.Line, Text: "extends " + quote(e.Text) + ": too many levels or a circle"}
	}
	if in != nil && !isPath(e.Text) {
		if p, ok := in.Profiles[e.Text]; ok {
			p := *p
			p.Profiles = in.Profiles
			return l.chain(layer{&p, top.trusted}, depth+1)
		}
	}
	for _, path := range l.profilePaths(e, top.Source.File) {
		found, err := l.extendedFile(path, top, depth)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return found, err
	}
	if !isPath(e.Text) {
		if found, err := l.profileInFiles(e, top, depth); found != nil || err != nil {
			return found, err
		}
	}
	return nil, &Error{File: e.Source.File, Line: e.Source.Line, Text: "profile or file " + quote(e.Text) + " not found"}
}

// extendedFile reads a file named by extends or --profile. A file in the project,
// and one anywhere that a project's file names by its path, must be trusted by
// its own content: what is next to a checkout may be another checkout. The
// user's and the administrator's profiles need no trust.
func (l *loader) extendedFile(path string, top layer, depth int) ([]layer, error) {
	inProject := l.o.Workspace != "" && within(filepath.Clean(path), l.o.Workspace) && top.Source.Kind != policy.SourceCLI
	owners := l.owners
	if top.Source.Kind == policy.SourceManaged {
		owners = []int{0}
	}
	data, err := readChecked(path, owners, !inProject)
	if err != nil {
		return nil, err
	}
	p, err := Parse(policy.Source{Kind: top.Source.Kind, File: path}, data)
	if err != nil {
		return nil, err
	}
	ours := within(path, l.managed) || l.config != "" && within(path, l.config)
	bound := inProject || fromProject(top.Source.Kind) && !ours
	trusted := top.trusted && (!bound || l.trust.Trusts(path, data))
	l.files = append(l.files, FileInfo{Kind: top.Source.Kind, Path: path, Found: true, Trusted: trusted, content: data, bound: bound})
	return l.chain(layer{p, trusted}, depth+1)
}

// profilePaths lists where a name may be: a path is taken from the directory of
// the file that names it (else the workspace), a profile's name is looked for in
// the user's and the managed profiles.
func (l *loader) profilePaths(e Entry, from string) []string {
	name := e.Text
	if isPath(name) {
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			return []string{filepath.Join(l.vars["HOME"], rest)}
		}
		if !filepath.IsAbs(name) {
			if from == "" {
				return []string{name}
			}
			name = filepath.Join(filepath.Dir(from), name)
		}
		return []string{name}
	}
	var out []string
	for _, dir := range []string{l.managed, l.config} {
		if dir == "" {
			continue
		}
		for _, ext := range []string{".toml", ".yaml", ".yml"} {
			out = append(out, filepath.Join(dir, "profiles", name+ext))
		}
	}
	return out
}

// profileInFiles looks for [profiles.NAME] in the user's and the managed policy.
func (l *loader) profileInFiles(e Entry, top layer, depth int) ([]layer, error) {
	places := []struct {
		path   string
		owners []int
	}{{filepath.Join(l.managed, "policy.toml"), []int{0}}}
	if l.config != "" {
		places = append(places, struct {
			path   string
			owners []int
		}{filepath.Join(l.config, "policy.toml"), l.owners})
	}
	if l.o.Workspace != "" && top.Source.Kind == policy.SourceCLI {
		places = append(places, struct {
			path   string
			owners []int
		}{filepath.Join(l.o.Workspace, ProjectFile), l.owners})
	}
	for i, place := range places {
		data, err := readChecked(place.path, place.owners, i < 2)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := Parse(policy.Source{Kind: top.Source.Kind, File: place.path}, data)
		if err != nil {
			return nil, err
		}
		if profile, ok := p.Profiles[e.Text]; ok {
			trusted := top.trusted && (place.path != filepath.Join(l.o.Workspace, ProjectFile) || l.trust.Trusts(place.path, data))
			profile := *profile
			profile.Profiles = p.Profiles
			return l.chain(layer{&profile, trusted}, depth+1)
		}
	}
	return nil, nil
}
