package test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// # How to write a vector
//
// A vector is one row of docs/confinement.md: a value of type vector in one of
// the lists that vectors() joins (add a list there). Its attack is a Go function that a process of its own
// plays (this test binary), unconfined and then under sbx, in both tiers, as root
// and as uid 1000, each time on a fresh stage. setup puts stand-ins outside
// (files, listeners, processes; s.Cleanup ends them) and may hand facts to the
// attack in s.Extra. reached judges from outside: by the stand-in, or by s.Token
// in the output when something secret was to be read. The test asserts:
//
//	unconfined  reached, or the vector proves nothing (rootOnly: only as root)
//	confined    not reached; or reached and reported, in the tiers of open
//	honest      returns nil under sbx with the same flags
//
// Whatever does not fit (a terminal, a race with sbx itself) uses newScene and
// its methods: s.sbx, s.plain, s.command.

// vector is one way out.
type vector struct {
	name string
	// flags are more flags of sbx run.
	flags func(s *scene) []string
	// setup puts up the stand-ins; it may Skip what this host does not have.
	setup func(s *scene)
	// inherit are files that the caller leaves open: descriptors 3 and up.
	inherit func(s *scene) []*os.File
	// caller changes how the caller is started: its rights, its limits.
	caller func(c *osexec.Cmd)
	attack func(p places) error
	// reached reports whether the attack had its effect outside.
	reached func(s *scene, r result) bool
	// honest is the neighbour that must work under the same confinement.
	honest func(p places) error
	// rootOnly: without confinement only root gets through.
	rootOnly bool
	// open names tiers where the vector is open.
	open []gap
	// refusedIn is a tier where sbx does not start the command.
	refusedIn string
}

// gap says that a vector is open in a tier. The result must name part among what
// is missing or weakened.
type gap struct {
	tier string
	// uids are the users it is open for; none means all.
	uids []int
	part string
}

// places is what a player knows.
type places struct {
	Work, Out, Home string // Out lies beside Work, on the same file system
	UID             int
	Extra           map[string]string
}

// scene is one stage: a workspace and what lies outside of it, owned by uid.
type scene struct {
	*testing.T
	places
	// Token is a word that nobody knows beforehand.
	Token string
	// Tier is "full" or "base"; empty on the unconfined stage.
	Tier string
	// Env are more variables of the caller.
	Env []string
	// files are inherited by what the scene starts, from descriptor 3 on.
	files  []*os.File
	caller func(c *osexec.Cmd)
	// patience is how long finish waits. Zero is a minute.
	patience time.Duration
}

// result is what became of one player or command.
type result struct {
	Code           int
	Stdout, Stderr string
	// Report is the object of sbx run --json.
	Report report
}

// report is docs/result.md, as far as tests look.
type report struct {
	Outcome  string   `json:"outcome"`
	ExitCode int      `json:"exit_code"`
	Signal   int      `json:"signal"`
	Limits   []string `json:"limits_hit"`
	Withheld []string `json:"withheld_env"`
	Memory   int64    `json:"max_memory_bytes"`
	Stdout   stream   `json:"stdout"`
	Stderr   stream   `json:"stderr"`
	Detected []struct {
		Path, What, Action, Kept, Error string
	} `json:"detected"`
	Warnings []string `json:"warnings"`
	Enforced struct {
		Tier     string   `json:"tier"`
		Parts    []reason `json:"parts"`
		Missing  []reason `json:"missing"`
		Weakened []reason `json:"weakened"`
	} `json:"enforced"`
	Error *struct{ Stage, Message, Hint string } `json:"error"`
}

type stream struct {
	Text           string `json:"text"`
	Bytes, Dropped int64
}

type reason struct{ Part, Mechanism, Why, Instead string }

// leaks reports whether r shows the token.
func leaks(s *scene, r result) bool { return strings.Contains(r.Stdout+r.Stderr, s.Token) }

func tiers() []string { return []string{"full", "base"} }

// users are who the tests can play: root and an ordinary user, or only who runs them.
func users() []int {
	if uid := os.Getuid(); uid != 0 {
		return []int{uid}
	}
	return []int{0, 1000}
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// newScene sets a fresh stage for uid. It is removed with the test.
func newScene(t *testing.T, uid int, tier string) *scene {
	t.Helper()
	stageCount.Lock()
	defer stageCount.Unlock()
	stageCount.n++
	all, err := stages()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(all, strconv.Itoa(stageCount.n))
	s := &scene{T: t, Tier: tier, Token: "token-" + rand.Text(),
		places: places{Work: dir + "/work", Out: dir + "/out", Home: dir + "/home", UID: uid, Extra: map[string]string{}}}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{dir, s.Work, s.Out, s.Home} {
		s.must(os.Mkdir(d, 0o755))
		s.own(d)
	}
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) own(path string) {
	s.Helper()
	s.must(os.Lchown(path, s.UID, s.UID))
}

// mkdir makes a directory of the scene's user, with parents.
func (s *scene) mkdir(path string) string {
	s.Helper()
	if _, err := os.Lstat(path); err == nil {
		return path
	}
	s.mkdir(filepath.Dir(path))
	s.must(os.Mkdir(path, 0o755))
	s.own(path)
	return path
}

// file makes a file of the scene's user, with parents, and returns its path.
func (s *scene) file(path, content string) string {
	s.Helper()
	s.mkdir(filepath.Dir(path))
	s.must(os.WriteFile(path, []byte(content), 0o644))
	s.own(path)
	return path
}

// link makes a symbolic link of the scene's user.
func (s *scene) link(target, path string) {
	s.Helper()
	s.mkdir(filepath.Dir(path))
	s.must(os.Symlink(target, path))
	s.own(path)
}

// content reads a file from outside; a missing one is empty.
func (s *scene) content(path string) string {
	s.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		s.Fatal(err)
	}
	return string(text)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// program is the path of a program of this test run: "sbx" or "player".
func (s *scene) program(name string) string {
	all, _ := stages() // newScene looked at the error
	return all + "/bin/" + name
}

// player is the command line that plays part ("attack" or "honest") of a vector.
func (s *scene) player(vector, part string) []string {
	s.Helper()
	args, err := s.places.playerArgs(vector, part)
	s.must(err)
	return append([]string{s.program("player")}, args...)
}

func (p places) playerArgs(vector, part string) ([]string, error) {
	text, err := json.Marshal(p)
	return []string{playerWord, part + ":" + vector, string(text)}, err
}

const playerWord = "-play"

// play is the player's main.
func play(what, text string) int {
	var p places
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		fmt.Fprintln(os.Stderr, "player:", err)
		return 3
	}
	part, name, _ := strings.Cut(what, ":")
	if part == "bystander" {
		return bystand(p)
	}
	if part == "filter" {
		fmt.Fprintln(os.Stderr, "player:", startBehind(p))
		return 3
	}
	i := slices.IndexFunc(vectors(), func(v vector) bool { return v.name == name })
	if i < 0 {
		fmt.Fprintln(os.Stderr, "player: no vector", name)
		return 3
	}
	run := vectors()[i].attack
	if part == "honest" {
		run = vectors()[i].honest
	}
	if err := run(p); err != nil {
		fmt.Fprintln(os.Stderr, "player:", err)
		return 1
	}
	return 0
}

// sbxArgs is the whole command line of a confined command.
func (s *scene) sbxArgs(flags []string, argv ...string) []string {
	args := []string{s.program("sbx"), "run", "--quiet", "--json", "--output-limit", "256KiB", "--timeout", "30s",
		"--tier", s.Tier, "--workspace", s.Work, "--ro", filepath.Dir(s.program("player"))}
	return append(append(append(args, flags...), "--"), argv...)
}

// command prepares argv as the scene's user, in the workspace, in a process
// group and with an environment of its own.
func (s *scene) command(argv ...string) *osexec.Cmd {
	c := osexec.CommandContext(s.Context(), argv[0], argv[1:]...)
	c.Dir = s.Work
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "HOME=" + s.Home, "LANG=C.UTF-8"}
	c.Env = append(c.Env, s.Env...)
	c.ExtraFiles = s.files
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.UID != os.Getuid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.UID), Gid: uint32(s.UID)}
	}
	if s.caller != nil {
		s.caller(c)
	}
	c.WaitDelay = 5 * time.Second
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	return c
}

// sbx runs argv confined in the scene's tier.
func (s *scene) sbx(flags []string, argv ...string) result {
	s.Helper()
	return s.report(s.finish(s.command(s.sbxArgs(flags, argv...)...)))
}

// report reads the object that a confined command printed.
func (s *scene) report(r result) result {
	s.Helper()
	if err := json.Unmarshal([]byte(r.Stdout), &r.Report); err != nil {
		s.Fatalf("sbx printed no result: %v\nexit %d, stdout %q, stderr %q", err, r.Code, r.Stdout, r.Stderr)
	}
	if e := r.Report.Error; e != nil {
		s.Logf("sbx: %s: %s (%s)", e.Stage, e.Message, e.Hint)
	}
	r.Stdout, r.Stderr = r.Report.Stdout.Text, r.Report.Stderr.Text+r.Stderr
	return r
}

// plain runs argv without confinement, as the scene's user.
func (s *scene) plain(argv ...string) result {
	s.Helper()
	return s.finish(s.command(argv...))
}

// finish runs c for as long as the scene has patience and ends what is left of
// its group.
func (s *scene) finish(c *osexec.Cmd) result {
	s.Helper()
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	s.must(c.Start())
	timer := time.AfterFunc(cmp.Or(s.patience, time.Minute), func() { unix.Kill(-c.Process.Pid, unix.SIGKILL) })
	failed := c.Wait()
	timer.Stop()
	unix.Kill(-c.Process.Pid, unix.SIGKILL)
	if _, ok := errors.AsType[*osexec.ExitError](failed); failed != nil && !ok && !errors.Is(failed, osexec.ErrWaitDelay) {
		s.Fatal(failed)
	}
	return result{Code: c.ProcessState.ExitCode(), Stdout: out.String(), Stderr: err.String()}
}
