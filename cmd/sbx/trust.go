package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/policy/settings"
)

func trustCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText:   examples("sbx trust", "sbx trust --dry-run", "sbx trust --yes ./sandboxd.toml", "sbx trust list", "sbx trust revoke"),
		Description: "Lets the policy files of this project loosen, not only tighten, and lets their hooks run the programs of the project that they name. Shows what that is and asks; without a terminal --yes or --sha256 is the answer. Trust is bound to the content that is shown: after a change the file must be trusted again.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "workspace", Usage: "the project `DIR`", TakesFile: true},
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would have effect, and the digest of each file; change nothing"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "trust without a question"},
			&cli.StringSliceFlag{Name: "sha256", Usage: "trust only content with this `DIGEST`, as --dry-run shows it"},
		},
		Action: p.trust,
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list the trusted files", Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}}, Action: p.trustList},
			{Name: "revoke", Usage: "forget files (default: all of this project)", ArgsUsage: "[PATH...]", Action: p.trustRevoke},
		},
	}
}

// trustStore opens the list of trusted files of the caller.
func (p *program) trustStore() (*settings.TrustStore, error) {
	dir := settings.StateDir(p.environ)
	if dir == "" {
		return nil, &failure{code: exitSandbox, stage: "trust", hint: "set HOME or XDG_STATE_HOME", err: errors.New("no place to keep trust")}
	}
	store, err := settings.OpenTrust(dir, []int{os.Geteuid(), 0})
	return store, settingsFailure(err)
}

func (p *program) trust(c *cli.Context) error {
	cwd, err := os.Getwd()
	if err != nil {
		return &failure{code: exitSandbox, stage: "workspace", err: err}
	}
	workspace, err := p.checkWorkspace(c, cwd)
	if err != nil {
		return err
	}
	e, err := settings.Load(settings.Options{Workspace: workspace, Environ: p.environ})
	if err != nil {
		return settingsFailure(err)
	}
	files, err := p.allToTrust(e, fromHere(cwd, c.Args().Slice()), c.StringSlice("sha256"))
	if err != nil {
		return err
	}
	p.showLoosened(e, files)
	if c.Bool("dry-run") {
		for _, f := range files {
			if err := p.writeOut("would trust %s (sha256 %s)\n", oneLine(f.path), settings.Digest(f.content)); err != nil {
				return err
			}
		}
		return nil
	}
	if !c.Bool("yes") && len(c.StringSlice("sha256")) == 0 {
		if err := p.confirmTrust(c.Context, files); err != nil {
			return err
		}
	}
	store, err := p.trustStore()
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := store.Add(f.path, f.content, time.Now()); err != nil {
			return settingsFailure(err)
		}
		if err := p.writeOut("trusted %s (sha256 %s)\n", oneLine(f.path), settings.Digest(f.content)); err != nil {
			return err
		}
	}
	return nil
}

// showLoosened tells people what would have effect if the files were trusted.
func (p *program) showLoosened(e *settings.Effective, files []fileToTrust) {
	any := false
	for _, f := range files {
		if f.agent != "" {
			any = true
			p.note("trust", fmt.Sprintf("sub-agent %s: its prompt is an instruction, and the model that it names is used; it allows nothing", oneLine(f.agent)))
		}
		if f.hook != "" {
			any = true
			p.note("trust", fmt.Sprintf("hook %s runs %s, %d bytes", oneLine(f.hook), oneLine(f.path), len(f.content)))
		}
	}
	for _, n := range e.Ignored {
		if !n.Untrusted() || !slices.ContainsFunc(files, func(f fileToTrust) bool { return f.path == n.Source.File }) {
			p.note("ignored", n.String())
			continue
		}
		any = true
		p.note("trust", settings.Label(n.Source)+": "+n.What)
	}
	if !any {
		p.note("trust", "nothing more would have effect than now")
	}
}

// confirmTrust asks the person at the terminal whether files are to be trusted.
func (p *program) confirmTrust(ctx context.Context, files []fileToTrust) error {
	if p.stdin == nil || !isTerminal(int(p.stdin.Fd())) {
		return misuse("look at it with sbx trust --dry-run, then sbx trust --yes, or --sha256 DIGEST for exactly what you saw",
			"sbx trust asks a person, and there is no terminal")
	}
	var names []string
	for _, f := range files {
		names = append(names, oneLine(f.path))
	}
	yes, err := askTerminal(ctx, "sbx: trust "+strings.Join(names, " and ")+"?")
	if err != nil {
		return &failure{code: exitSandbox, stage: "trust", hint: "sbx trust --yes trusts without a question", err: err}
	}
	if !yes {
		return &failure{code: exitSandbox, stage: "trust", hint: "what the file tightens holds as before", err: errors.New("nothing was trusted")}
	}
	return nil
}

// fileToTrust is a project file with the content that the person is shown.
type fileToTrust struct {
	path    string
	content []byte
	hook    string // the command of the hook that names a program
	agent   string // the sub-agent that it defines; empty with hook: a policy
}

// filesToTrust returns the named project files, or all, as they were read for e.
// With digests it refuses a content that is not among them.
func filesToTrust(e *settings.Effective, paths, digests []string) ([]fileToTrust, error) {
	if len(paths) == 0 {
		if paths = e.ProjectFiles(); len(paths) == 0 {
			return nil, misuse("a project's policy is "+settings.ProjectFile, "there is nothing to trust in %s", e.Workspace)
		}
	}
	var files []fileToTrust
	for _, path := range paths {
		content, ok := e.ProjectContent(path)
		if !ok {
			return nil, misuse("name "+settings.ProjectFile+", a file that it extends, a program of a hook or a definition of a sub-agent; another project needs --workspace",
				"%s is no policy file of %s, or it changed while it was read", path, e.Workspace)
		}
		if len(digests) > 0 && !slices.Contains(digests, settings.Digest(content)) {
			return nil, &failure{code: exitSandbox, stage: "trust", hint: "look at it again: sbx trust --dry-run",
				err: fmt.Errorf("the content of %s has another digest (%s)", path, settings.Digest(content))}
		}
		files = append(files, fileToTrust{path: path, content: content})
	}
	return files, nil
}

func (p *program) trustList(c *cli.Context) error {
	if err := noOperands(c, "it lists every trusted file"); err != nil {
		return err
	}
	store, err := p.trustStore()
	if err != nil {
		return err
	}
	type file struct {
		settings.Trusted
		State string `json:"state"` // "trusted", "changed" or "gone"
	}
	list := []file{}
	for _, t := range store.List() {
		state := "changed"
		if data, err := os.ReadFile(t.Path); errors.Is(err, fs.ErrNotExist) {
			state = "gone"
		} else if err == nil && store.Trusts(t.Path, data) {
			state = "trusted"
		}
		list = append(list, file{t, state})
	}
	if c.Bool("json") {
		return p.writeJSON(map[string]any{"files": list})
	}
	for _, f := range list {
		if err := p.writeOut("%-8s %s %.12s %s\n", f.State, f.When.Format("2006-01-02"), f.SHA256, oneLine(f.Path)); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) trustRevoke(c *cli.Context) error {
	cwd, err := os.Getwd()
	if err != nil {
		return &failure{code: exitSandbox, stage: "workspace", err: err}
	}
	paths := fromHere(cwd, c.Args().Slice())
	if len(paths) == 0 {
		paths = []string{settings.FindWorkspace(cwd)}
	}
	store, err := p.trustStore()
	if err != nil {
		return err
	}
	for _, path := range paths {
		n, err := store.Revoke(filepath.Clean(path))
		if err != nil {
			return settingsFailure(err)
		}
		if n == 0 && c.Args().Len() > 0 { // a slip of the pen must not leave trust behind unseen
			return misuse("sbx trust list shows what is trusted", "%s was not trusted", path)
		}
		if err := p.writeOut("revoked %d below %s\n", n, oneLine(path)); err != nil {
			return err
		}
	}
	return nil
}
