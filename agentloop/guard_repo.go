package agentloop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/policy/path"
)

// guardRepo is a git directory that was in force at a known time.
type guardRepo struct {
	Dev, Ino           uint64
	HooksDev, HooksIno uint64
	ConfigIno          uint64
	ConfigCtime        int64
	// Accepted are the executing settings that a person put in its config.
	Accepted []path.Finding `json:",omitempty"`
	// Files are its protected files as they were, by the name within the git
	// directory; for the workspace's own repository only.
	Files map[string]*fileState `json:",omitempty"`
}

func (r *guardRepo) id() dirID { return dirID{r.Dev, r.Ino} }

const (
	// guardKnownRepos bounds how many repositories besides the workspace's own
	// are looked up at the start of a run, guardProbes how many directories
	// at the top are probed for one, and guardIndexRepos how many the index
	// of a workspace holds.
	guardKnownRepos = 64
	guardProbes     = 256
	guardIndexRepos = 1024
)

// repoFiles are the files of a git directory whose content is kept.
var repoFiles = []string{"config", "config.worktree", "info/attributes", "commondir", "hooks"}

// takeTopRepo looks at the workspace's own git directory, with the content of its
// protected files; nil if there is none.
func (j *guardJournal) takeTopRepo(dir string) *guardRepo {
	fd, err := unix.Open(dir, openDirFlags, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	if _, err := lstatAt(fd, "HEAD"); err != nil {
		return nil // not in force yet
	}
	r := takeRepoAt(fd, nil)
	if r == nil {
		return nil
	}
	r.Files = map[string]*fileState{}
	for _, name := range repoFiles {
		parent, base, err := openParent(fd, name)
		if err != nil {
			continue
		}
		budget := newStateBudget()
		budget.skip = ".sample"
		if s := takeState(parent, base, budget, guardItemDepth-1); s != nil {
			r.Files[name] = s
		}
		closeParent(fd, parent)
	}
	return r
}

// takeRepoAt notes which directories an open git directory and its hooks are,
// and what its config holds. What an earlier look found in an unchanged config
// is taken from before.
func takeRepoAt(fd int, before *guardRepo) *guardRepo {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return nil
	}
	r := &guardRepo{Dev: st.Dev, Ino: st.Ino}
	if hooks, err := lstatAt(fd, "hooks"); err == nil {
		r.HooksDev, r.HooksIno = hooks.Dev, hooks.Ino
	}
	config, err := lstatAt(fd, "config")
	if err == nil {
		r.ConfigIno, r.ConfigCtime = config.Ino, config.Ctim.Nano()
	}
	if before != nil && before.ConfigIno == r.ConfigIno && before.ConfigCtime == r.ConfigCtime {
		r.Accepted = before.Accepted
	} else {
		for _, name := range []string{"config", "config.worktree"} {
			if text, err := readFileAt(fd, name, guardFileBytes); err == nil {
				r.Accepted = append(r.Accepted, path.JudgeGitConfig(text)...)
			}
		}
	}
	return r
}

// knownRepos looks up the repositories that an earlier run saw, and those of
// the directories at the top: a workspace is often a directory of checkouts.
// Both are bounded, so the cost does not grow with the tree.
func (j *guardJournal) knownRepos(stateDir string, root int, dirs []string) {
	index := readRepoIndex(stateDir, j.Workspace)
	left := guardKnownRepos
	add := func(dir string) {
		rel, ok := strings.CutPrefix(dir, j.Workspace+"/")
		if left == 0 || !ok || j.Repos[dir] != nil {
			return
		}
		how := unix.OpenHow{Flags: openDirFlags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
		fd, err := unix.Openat2(root, rel, &how)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		if _, err := lstatAt(fd, "HEAD"); err != nil {
			return // not in force
		}
		j.Repos[dir] = takeRepoAt(fd, index[dir])
		left--
	}
	for dir := range index {
		add(dir)
	}
	for _, name := range dirs {
		add(filepath.Join(j.Workspace, name, ".git"))
	}
}

func repoIndexFile(stateDir, workspace string) string {
	return filepath.Join(stateDir, "guards", workspaceKey(workspace)+".repos")
}

func readRepoIndex(stateDir, workspace string) map[string]*guardRepo {
	text, err := os.ReadFile(repoIndexFile(stateDir, workspace))
	if err != nil {
		return nil
	}
	var index map[string]*guardRepo
	if json.Unmarshal(text, &index) != nil {
		return nil // it only saves work
	}
	return index
}

func writeRepoIndex(stateDir, workspace string, index map[string]*guardRepo) error {
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return writeAside(repoIndexFile(stateDir, workspace), text)
}

// writeAside replaces a file of ours as a whole.
func writeAside(name string, text []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}
