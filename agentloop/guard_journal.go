package agentloop

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/policy/path"
)

// guardJournal is all that Finish needs, so that the next start can do it after
// a crash.
type guardJournal struct {
	Version   int
	ID        string
	PID       int // for people; the lock on the file tells who is alive
	Workspace string
	Dev, Ino  uint64
	// Start is the time of the kernel's file clock when the run began, in
	// nanoseconds. What a command changes has a change time of Start or later.
	Start int64
	// Boot, Boottime and Realtime tell whether the clock was set since.
	Boot               string
	Boottime, Realtime int64
	UID, GID           int
	Groups             []int
	// Kept is where what is moved aside is kept, with the user's rights; empty: in our
	// state.
	Kept string `json:",omitempty"`
	// Held are the names of level kernel, as they were before the run.
	Held map[string]heldName
	// Roots are the directories to walk: the workspace, and the git directory
	// of a linked worktree outside it.
	Roots []string
	// Items are the protected names at the top as they were; nil for absent.
	Items map[string]*fileState
	// Repos are the git directories that are known to have been in force.
	Repos map[string]*guardRepo
	// Configured are the files and directories that their configs name.
	Configured map[string]dirID
}

type dirID struct{ Dev, Ino uint64 }

const guardVersion = 2

func newGuardJournal(workspace string, o GuardOptions) (*guardJournal, error) {
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(real, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: real, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, &os.PathError{Op: "stat", Path: real, Err: unix.ENOTDIR}
	}
	j := &guardJournal{
		Version: guardVersion, ID: rand.Text(), PID: os.Getpid(), Workspace: real, Dev: st.Dev, Ino: st.Ino,
		UID: unix.Geteuid(), GID: unix.Getegid(), Kept: o.Kept, Held: map[string]heldName{}, Items: map[string]*fileState{}, Repos: map[string]*guardRepo{},
	}
	if o.User != nil {
		j.UID, j.GID, j.Groups = o.User.UID, o.User.GID, o.User.Groups
	}
	for _, name := range o.Kernel {
		if held, err := takeHeld(name); err == nil {
			j.Held[filepath.Clean(name)] = held
		}
	}
	return j, nil
}

// create takes the start stamp and the snapshot and writes the journal. The
// returned file is locked for as long as it is open.
func (j *guardJournal) create(stateDir, beside string) (*os.File, error) {
	dir := filepath.Join(stateDir, "guards")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := j.openLocked(dir)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*os.File, error) {
		os.Remove(file.Name())
		file.Close()
		return nil, err
	}
	if err := j.stamp(file); err != nil {
		return fail(err)
	}
	if err := j.snapshot(stateDir); err != nil {
		return fail(err)
	}
	j.inherit(stateDir, beside)
	text, err := json.Marshal(j)
	if err != nil {
		return fail(err)
	}
	if _, err := file.Write(text); err != nil {
		return fail(err)
	}
	return file, nil
}

// stamp reads the file clock. The first fstat marks the inode as looked at, so
// that on kernels with multigrain timestamps (6.13) the change after it gets a
// fine stamp, and every later change anywhere a later one. On older kernels
// the stamp is that of the tick, and what shares the tick counts as changed.
func (j *guardJournal) stamp(file *os.File) error {
	fd := int(file.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return &os.PathError{Op: "chmod", Path: file.Name(), Err: err}
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	j.Start = st.Ctim.Nano() - clockSlack(j.Workspace)
	j.Boot, j.Boottime, j.Realtime = guardBootID(), guardClock(unix.CLOCK_BOOTTIME), guardClock(unix.CLOCK_REALTIME)
	return nil
}

// clockSlack is how far the workspace's file clock may lag behind ours: none
// where the kernel sets the times, 2 s where a server does, or where the file
// system keeps even seconds (vfat).
func clockSlack(workspace string) int64 {
	var fs unix.Statfs_t
	if unix.Statfs(workspace, &fs) != nil {
		return 2e9
	}
	switch uint32(fs.Type) {
	case unix.NFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC,
		unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		return 2e9
	}
	return 0
}

func guardClock(id int32) int64 {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

func guardBootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}

// since is Start, moved back by what the clock was set back meanwhile.
func (j *guardJournal) since() int64 {
	start := j.Start
	if j.Boot != "" && j.Boot == guardBootID() {
		lost := (guardClock(unix.CLOCK_BOOTTIME) - j.Boottime) - (guardClock(unix.CLOCK_REALTIME) - j.Realtime)
		if lost > 1e6 {
			start -= lost
		}
	}
	return start
}

// fileName begins with the workspace, so that journals of the same one are
// found without reading the others.
func (j *guardJournal) fileName() string { return workspaceKey(j.Workspace) + "-" + j.ID + ".json" }

func workspaceKey(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	return hex.EncodeToString(sum[:8])
}

// snapshot notes the protected names at the top and the repositories that are
// known.
func (j *guardJournal) snapshot(stateDir string) error {
	root, err := unix.Open(j.Workspace, openDirFlags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: j.Workspace, Err: err}
	}
	defer unix.Close(root)
	top := listTop(root)
	for _, e := range protectedAtTop() {
		// Also what the kernel holds, which may lose its hold, see heldName.
		full := filepath.Join(j.Workspace, e.Pattern)
		if top.lacks(e.Pattern) {
			continue
		}
		dir, base, err := openParent(root, e.Pattern)
		if err != nil {
			continue
		}
		if s := takeState(dir, base, newStateBudget(), 0); s != nil {
			j.Items[full] = s
		}
		closeParent(root, dir)
	}
	j.Roots = []string{j.Workspace}
	git := path.FindGitDirs(j.Workspace)
	if git.Link != "" {
		j.Items[git.Link] = takeState(root, ".git", newStateBudget(), 0)
	}
	for _, dir := range []string{git.Common, git.Dir} {
		if dir == "" || j.Repos[dir] != nil {
			continue
		}
		if !slices.ContainsFunc(j.Roots, func(root string) bool { return within(dir, root) }) {
			j.Roots = append(j.Roots, dir)
		}
		if repo := j.takeTopRepo(dir); repo != nil {
			j.Repos[dir] = repo
		}
	}
	j.knownRepos(stateDir, root, top.dirs)
	j.takeConfigured()
	return nil
}

// topNames is the beginning of the list of names in the workspace. Where it is
// the whole list it saves a lookup for each entry of the table.
type topNames struct {
	whole bool
	names map[string]bool // in lower case, for file systems that fold it
	dirs  []string
}

func listTop(root int) topNames {
	top := topNames{names: map[string]bool{}}
	fd, err := unix.Openat(root, ".", openDirFlags, 0)
	if err != nil {
		return top
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	entries, err := f.ReadDir(guardProbes + 1)
	top.whole = (err == nil || errors.Is(err, io.EOF)) && len(entries) <= guardProbes
	for _, e := range entries {
		top.names[strings.ToLower(e.Name())] = true
		if e.IsDir() {
			top.dirs = append(top.dirs, e.Name())
		}
	}
	return top
}

// lacks reports whether there is certainly nothing of that name.
func (t topNames) lacks(rel string) bool {
	first, _, _ := strings.Cut(rel, "/")
	return t.whole && !t.names[strings.ToLower(first)]
}

// openParent opens the directory of a name from the table below root, through
// no link. For a name of one component it is root itself.
func openParent(root int, rel string) (int, string, error) {
	dir, base := filepath.Split(rel)
	if dir == "" {
		return root, base, nil
	}
	at := root
	for name := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		fd, err := openDirAt(at, name)
		closeParent(root, at)
		if err != nil {
			return -1, "", err
		}
		at = fd
	}
	return at, base, nil
}

func closeParent(root, dir int) {
	if dir != root {
		unix.Close(dir)
	}
}

// inherit takes the snapshot of the oldest run that is still going on in the
// same workspace: what that run did to a name must not be the state that this
// one restores.
func (j *guardJournal) inherit(stateDir, beside string) {
	own := filepath.Join("guards", workspaceKey(j.Workspace)+"-*.json")
	names, _ := filepath.Glob(filepath.Join(stateDir, own))
	if beside != "" {
		others, _ := filepath.Glob(filepath.Join(beside, own))
		names = append(names, others...)
	}
	var oldest *guardJournal
	for _, name := range names {
		other, err := readGuardJournal(name)
		if err != nil || other.ID == j.ID || other.Workspace != j.Workspace || other.Dev != j.Dev || other.Ino != j.Ino {
			continue
		}
		if oldest == nil || other.Start < oldest.Start {
			oldest = other
		}
	}
	if oldest == nil {
		return
	}
	for _, e := range protectedAtTop() {
		full := filepath.Join(j.Workspace, e.Pattern)
		if oldest.holds(full) {
			continue // that run could not touch it: what is there is a person's
		}
		if s := oldest.Items[full]; s != nil {
			j.Items[full] = s
		} else {
			delete(j.Items, full)
		}
	}
	for dir, repo := range oldest.Repos {
		if mine := j.Repos[dir]; mine != nil && mine.id() == repo.id() {
			j.Repos[dir] = repo
		}
	}
	maps.Copy(j.Configured, oldest.Configured)
}

func readGuardJournal(name string) (*guardJournal, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decodeGuardJournal(f)
}

func decodeGuardJournal(f *os.File) (*guardJournal, error) {
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	var j guardJournal
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if j.Version != guardVersion {
		return nil, fmt.Errorf("%s: version %d of another release", f.Name(), j.Version)
	}
	return &j, nil
}

// CompleteGuards finishes the guards in stateDir whose owner died before it
// could, and returns what they found. Guards of living processes are left. Call
// it at start, before BeginGuard.
func CompleteGuards(stateDir string) ([]GuardFinding, error) {
	names, err := filepath.Glob(filepath.Join(stateDir, "guards", "*-*.json"))
	if err != nil {
		return nil, err
	}
	var found []GuardFinding
	var failed []error
	for _, name := range names {
		more, err := completeGuard(stateDir, name)
		found = append(found, more...)
		if err != nil {
			failed = append(failed, err)
		}
	}
	return found, errors.Join(failed...)
}

func completeGuard(stateDir, name string) ([]GuardFinding, error) {
	file, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil // another start completed it
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil, nil // its owner is alive
	}
	var st unix.Stat_t
	if unix.Fstat(int(file.Fd()), &st) != nil || st.Nlink == 0 {
		return nil, nil // completed while we waited
	}
	j, err := decodeGuardJournal(file)
	if err != nil {
		// The journal is whole before a command starts, so nothing ran.
		os.Remove(name)
		return nil, nil
	}
	return j.complete(stateDir, name)
}
