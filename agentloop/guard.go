package agentloop

import (
	"fmt"
	"os"
	"strings"

	"sandboxd/exec"
	"sandboxd/policy/path"
)

// Guard is the check level of protected names: what the kernel left writable is
// looked at when the run is over, and undone if it would make another program
// run something.
//
//	g, err := BeginGuard(stateDir, workspace, GuardOptions{Kernel: held, User: spec.User})
//	res, err := runner.Run(ctx, spec)
//	found, err := g.Finish() // when the whole tree is dead
//
// Begin costs one lookup for each entry of the table and no walk of the tree.
// Finish looks at all directories once: it opens those that changed since the
// last run and those of repositories, and takes the status of the others. It opens
// files only where a repository or a protected name was made or changed, as told
// by its change time, which a command cannot set.
//
// What is undone, and where:
//   - settings of shells, editors, agents and tools: at the top of the
//     workspace only. Packages ship such files for themselves, so elsewhere
//     they are left, and so is what a clone brings beneath the top.
//   - git hooks, executing settings, filter attributes, commondir files and .git
//     links that lead out: at any depth, in any repository, also a bare one.
//
// # Limits
//
// This detects and does not prevent: between the write and the end of the run
// the content was there. A repository below the first level which the guard has
// not seen at the end of an earlier run, whose directory changed during the
// run, is taken as new: old hooks in it are moved aside as well. Content of a
// protected name that a person edits during the run is undone too, unless the
// kernel held the name. A rebase that is left in progress is reported, not
// undone. An old hook that is a link to a file of the workspace runs whatever
// that file becomes. After a loss of power the journal may be lost.
type Guard struct {
	journal *guardJournal
	file    *os.File
	dir     string
	beside  string
}

// GuardOptions says how the run is held.
type GuardOptions struct {
	// Kernel lists the absolute paths that the kernel holds read-only for the
	// run. A change there is an edit from outside, and is left alone.
	Kernel []string
	// User is who the commands run as. Nil means the caller's identity. The
	// guard looks and undoes with that user's rights first, and with its own
	// only where these do not suffice.
	User *exec.User
	// Kept is a directory of User's for what is moved aside, in which nothing but its
	// rights are used. Empty: it is kept below the state directory.
	Kept string
	// Beside is a pattern of further state directories, those of other users: a run
	// that is going on in the same workspace may have its journal there. They are
	// looked at for that alone.
	Beside string
}

// GuardAction says what was done about a finding.
type GuardAction string

const (
	// GuardMoved: the file or directory was moved to where it is kept.
	GuardMoved GuardAction = "moved"
	// GuardRestored: the content from before the run is back.
	GuardRestored GuardAction = "restored"
	// GuardCleaned: the offending lines are out, the rest of the file stays.
	GuardCleaned GuardAction = "cleaned"
	// GuardLeft: reported only.
	GuardLeft GuardAction = "left"
	// GuardFailed: it could not be undone, and is still there.
	GuardFailed GuardAction = "failed"
)

// GuardFinding is one thing that was detected, not prevented.
type GuardFinding struct {
	Path   string      `json:"path"` // absolute
	What   string      `json:"what"`
	Action GuardAction `json:"action"`
	// Kept is where the content is now that was there. Empty if it is gone
	// (Action failed, left) or there was none.
	Kept  string `json:"kept,omitempty"`
	Error string `json:"error,omitempty"`
}

// String is one line, whatever characters the name holds.
func (f GuardFinding) String() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%q: %s: %s", clipName(f.Path), f.What, f.Action)
	if f.Kept != "" {
		fmt.Fprintf(&line, ", kept as %q", clipName(f.Kept))
	}
	if f.Error != "" {
		fmt.Fprintf(&line, " (%s)", f.Error)
	}
	return line.String()
}

func clipName(s string) string {
	if len(s) > 500 {
		return s[:250] + "..." + s[len(s)-250:]
	}
	return s
}

// maxGuardFindings bounds what one Finish lists. More are undone all the same,
// and counted in a last finding.
const maxGuardFindings = 1000

// BeginGuard notes what is there before the run. The journal lies in stateDir,
// which must be the caller's own; it completes the guard after a crash, see
// [CompleteGuards]. workspace must exist; links in it are resolved. Begin
// before the command starts, and call Finish on every path after that, or Discard if it
// never did.
func BeginGuard(stateDir, workspace string, o GuardOptions) (*Guard, error) {
	g, err := NewGuard(stateDir, workspace, o)
	if err == nil {
		err = g.Begin()
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// NewGuard is the first half of BeginGuard: it notes what o.Kernel names. It must
// come before the kernel is told to hold these names, so that one which is
// replaced in between is not taken for held.
func NewGuard(stateDir, workspace string, o GuardOptions) (*Guard, error) {
	j, err := newGuardJournal(workspace, o)
	if err != nil {
		return nil, fmt.Errorf("guard of %s: %w", workspace, err)
	}
	return &Guard{journal: j, dir: stateDir, beside: o.Beside}, nil
}

// Begin is the second half. It must be over when the command starts.
func (g *Guard) Begin() error {
	file, err := g.journal.create(g.dir, g.beside)
	if err != nil {
		return fmt.Errorf("guard of %s: %w", g.journal.Workspace, err)
	}
	g.file = file
	return nil
}

// Finish undoes what the run left. Call it once, when no process of the run is
// alive. The error means that the workspace could not be looked at; the journal
// then stays for the next start.
func (g *Guard) Finish() ([]GuardFinding, error) {
	defer g.file.Close()
	return g.journal.complete(g.dir, g.file.Name())
}

// Discard ends the guard of a run that never started: the workspace is not
// looked at, and what others change there meanwhile is left alone.
func (g *Guard) Discard() error {
	if g.file == nil {
		return nil // it did not begin
	}
	defer g.file.Close()
	return os.Remove(g.file.Name())
}

// protectedAtTop are the entries whose names are looked up below the workspace.
func protectedAtTop() []path.Entry {
	var entries []path.Entry
	for _, e := range path.Protected() {
		if e.Level != path.LevelAsk && !strings.Contains(e.Pattern, "*") && !strings.HasPrefix(e.Pattern, ".git/") {
			entries = append(entries, e)
		}
	}
	return entries
}
