package settings

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
)

// Names of the project's policy files. The local one is for one person's own
// settings and belongs into .gitignore; it is trusted no more than the other,
// since a checkout can bring it.
const (
	ProjectFile = "sandboxd.toml"
	LocalFile   = "sandboxd.local.toml"
)

// Options says where to look. The zero value finds only the built-in default.
type Options struct {
	// Workspace is the absolute directory of the project files. Empty means
	// that there is no project.
	Workspace string
	// Environ is the caller's environment. HOME and the XDG variables say
	// where the user's files and our state are.
	Environ []string
	// AccountHome returns the home of the run's user by the account database, "" for
	// none. What the managed policy begins with ~ is there, wherever HOME points.
	// Nil: HOME alone.
	AccountHome func() string
	// ManagedDir is "" for /etc/sandboxd.
	ManagedDir string
	// Owners are the uids that may own policy files. Empty means the process's
	// own and root; for project files of a root process also the owner of the
	// workspace, in whose name the run will happen.
	Owners []int
	// PolicyFiles are files named on the command line.
	PolicyFiles []string
	// ClaudeSettings are settings.json files named on the command line.
	ClaudeSettings []string
	// Profile is a profile's name or a file named on the command line.
	Profile string
	// Layers are further policies; their Source.Kind is their place. They are
	// trusted.
	Layers []*Policy
}

// FileInfo is what was found of one file.
type FileInfo struct {
	Kind  policy.SourceKind `json:"-"`
	Path  string            `json:"path"`
	Found bool              `json:"found"`
	// Trusted is true for every file that did not come with the project, and
	// for a project file that a person trusted.
	Trusted bool `json:"trusted"`
	// content is what was read of the file; see [Effective.ProjectContent].
	content []byte
	// bound is true for a file that has effect only when its own content is
	// trusted.
	bound bool
}

// fromProject says whether files of this kind arrive with a checkout.
func fromProject(k policy.SourceKind) bool {
	return k == policy.SourceProject || k == policy.SourceLocalProject
}

// loader holds what one Load needs.
type loader struct {
	o       Options
	vars    environment
	owners  []int
	trust   *TrustStore
	managed string
	config  string // our directory below $XDG_CONFIG_HOME, or ""
	layers  []layer
	files   []FileInfo
	notes   []Note // of files that are no policy
}

// StateDir is our directory below $XDG_STATE_HOME ("" without a home).
func StateDir(environ []string) string {
	return sub(readEnviron(environ).dir("XDG_STATE_HOME", ".local/state"), "sandboxd")
}

// UserFile is the user's policy file ("" without a home).
func UserFile(environ []string) string {
	return sub(readEnviron(environ).dir("XDG_CONFIG_HOME", ".config"), "sandboxd/policy.toml")
}

func sub(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// Load reads all sources and merges them. A file that cannot be believed or read
// is an error, since it may hold a deny.
func Load(o Options) (*Effective, error) {
	l := loader{o: o, vars: readEnviron(o.Environ), owners: o.Owners, managed: o.ManagedDir}
	if len(l.owners) == 0 {
		l.owners = []int{os.Geteuid(), 0}
	}
	if l.managed == "" {
		l.managed = "/etc/sandboxd"
	}
	l.config = sub(l.vars.dir("XDG_CONFIG_HOME", ".config"), "sandboxd")
	if state := StateDir(o.Environ); state != "" {
		var err error
		if l.trust, err = OpenTrust(state, l.owners); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{l.managedFile, l.commandLine, l.environment, l.projectFiles, l.userFile} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return l.merge()
}

// merge sorts the layers by strength and joins them, weakest first.
func (l *loader) merge() (*Effective, error) {
	for _, p := range l.o.Layers {
		l.layers = append(l.layers, layer{p, true})
	}
	// Layers were collected strongest first within one kind.
	slices.SortStableFunc(l.layers, func(a, b layer) int { return int(a.Source.Kind) - int(b.Source.Kind) })
	slices.Reverse(l.layers)
	home := l.vars["HOME"]
	if !filepath.IsAbs(home) {
		home = ""
	}
	m := merger{account: l.accountHome(home), out: &Effective{Workspace: l.o.Workspace, Home: home, Files: l.files, Ignored: l.notes}}
	m.add(layer{builtin(), true})
	for _, layer := range l.layers {
		m.add(layer)
	}
	return m.out, m.finish()
}

func (l *loader) managedFile() error {
	return l.file(policy.SourceManaged, filepath.Join(l.managed, "policy.toml"), []int{0}, true)
}

// commandLine reads the files that were named by flags. They are trusted: a
// person named them.
func (l *loader) commandLine() error {
	profile := l.o.Profile
	if profile == "" {
		profile = l.vars["SANDBOXD_PROFILE"]
	}
	if profile != "" {
		entry := Entry{profile, policy.Source{Kind: policy.SourceCLI}}
		chain, err := l.extended(entry, nil, layer{&Policy{Source: entry.Source}, true}, 0)
		if err != nil {
			return err
		}
		l.layers = append(l.layers, chain...)
	}
	files := l.o.PolicyFiles
	if named := l.vars["SANDBOXD_POLICY"]; named != "" && len(files) == 0 {
		files = []string{named}
	}
	for _, path := range files {
		before := len(l.layers)
		if err := l.file(policy.SourceCLI, path, l.owners, true); err != nil {
			return err
		}
		if len(l.layers) == before {
			return &Error{File: path, Text: "no such file"}
		}
	}
	for _, path := range l.o.ClaudeSettings {
		data, err := readChecked(path, l.owners, true)
		if err != nil {
			return notFound(path, err)
		}
		p, _, err := ImportClaude(policy.Source{Kind: policy.SourceCLI, File: path}, data)
		if err != nil {
			return err
		}
		l.files = append(l.files, FileInfo{Kind: policy.SourceCLI, Path: path, Found: true, Trusted: true})
		l.layers = append(l.layers, layer{p, true})
	}
	return nil
}

func notFound(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{File: path, Text: "no such file"}
	}
	return err
}

func (l *loader) environment() error {
	p, err := fromEnvironment(l.vars)
	if err == nil {
		l.layers = append(l.layers, layer{p, true})
	}
	return err
}

func (l *loader) projectFiles() error {
	if l.o.Workspace == "" {
		return nil
	}
	owners := slices.Clone(l.owners)
	if os.Geteuid() == 0 && len(l.o.Owners) == 0 {
		var st unix.Stat_t
		if unix.Stat(l.o.Workspace, &st) == nil {
			owners = append(owners, int(st.Uid))
		}
	}
	if err := l.file(policy.SourceLocalProject, filepath.Join(l.o.Workspace, LocalFile), owners, false); err != nil {
		return err
	}
	l.mcpFile(owners)
	return l.file(policy.SourceProject, filepath.Join(l.o.Workspace, ProjectFile), owners, false)
}

func (l *loader) userFile() error {
	if l.config == "" {
		return nil
	}
	return l.file(policy.SourceUser, filepath.Join(l.config, "policy.toml"), l.owners, true)
}

// file reads one policy file, when it is there, and what it extends.
func (l *loader) file(kind policy.SourceKind, path string, owners []int, follow bool) error {
	data, err := readChecked(path, owners, follow)
	if errors.Is(err, fs.ErrNotExist) {
		l.files = append(l.files, FileInfo{Kind: kind, Path: path, Trusted: !fromProject(kind)})
		return nil
	}
	if err != nil {
		return err
	}
	p, err := Parse(policy.Source{Kind: kind, File: path}, data)
	if err != nil {
		return err
	}
	top := layer{p, !fromProject(kind) || l.trust.Trusts(path, data)}
	l.files = append(l.files, FileInfo{Kind: kind, Path: path, Found: true, Trusted: top.trusted, content: data, bound: fromProject(kind)})
	chain, err := l.chain(top, 0)
	l.layers = append(l.layers, chain...)
	return err
}

// FlagMode is the layer of the flag --mode.
func FlagMode(mode string) *Policy {
	from := policy.Source{Kind: policy.SourceCLI}
	return &Policy{Source: from, Mode: set(mode, from)}
}

// ProjectFiles lists the files that were read and loosen only when their content
// is trusted: those of the project, and what they extend wherever it is.
func (e *Effective) ProjectFiles() []string {
	var out []string
	for _, f := range e.Files {
		if f.Found && f.bound && !slices.Contains(out, f.Path) {
			out = append(out, f.Path)
		}
	}
	return out
}

// ProjectContent returns the content of one of e.ProjectFiles as it was read for
// e. What a person was shown is trusted by it, never what a second reading
// finds: the file may be replaced in between. ok is false for any other file,
// and for one whose content changed while e was read.
func (e *Effective) ProjectContent(path string) (content []byte, ok bool) {
	path = resolved(path)
	files := e.ProjectFiles()
	for _, f := range e.Files {
		switch {
		case !f.Found || !slices.Contains(files, f.Path) || resolved(f.Path) != path:
		case ok && !bytes.Equal(f.content, content):
			return nil, false
		default:
			content, ok = f.content, true
		}
	}
	return content, ok
}

// LoadAlone reads one policy file and what it extends, without other sources.
func LoadAlone(path, workspace string, environ []string) (*Effective, error) {
	l := loader{o: Options{Workspace: workspace, Environ: environ}, vars: readEnviron(environ), owners: []int{os.Geteuid(), 0}, managed: "/etc/sandboxd"}
	l.config = sub(l.vars.dir("XDG_CONFIG_HOME", ".config"), "sandboxd")
	if err := l.file(policy.SourceCLI, path, l.owners, true); err != nil {
		return nil, err
	}
	if len(l.layers) == 0 {
		return nil, &Error{File: path, Text: "no such file"}
	}
	return l.merge()
}

// ImportSource is the source of another agent's settings file: the user's when
// it lies in a dot directory of the home, else a project's.
func ImportSource(environ []string, path string) policy.Source {
	kind := policy.SourceProject
	if home := readEnviron(environ)["HOME"]; home != "" {
		if abs, err := filepath.Abs(path); err == nil && filepath.Dir(filepath.Dir(abs)) == filepath.Clean(home) {
			kind = policy.SourceUser
		}
	}
	return policy.Source{Kind: kind, File: path}
}
