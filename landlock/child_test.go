package landlock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// A process can not leave a ruleset, so every trial runs in a child: this test
// binary again, told by one variable what to do.
const trialVar = "SANDBOXD_LANDLOCK_TRIAL"

// trial is one try of one operation by a process of its own.
type trial struct {
	Op       string   // key of ops
	Dir      string   // the tree it works in
	Args     []string // of the operation
	Free     bool     // unconfined, as a control
	Ruleset  Ruleset
	ABI      int  // 0: the kernel's
	FromPlan bool // build the ruleset from the Plan, as a C child does
}

// op does something and returns the kernel's answer.
type op func(tr trial) error

func TestMain(m *testing.M) {
	if text := os.Getenv(trialVar); text != "" {
		os.Exit(child(text))
	}
	os.Exit(m.Run())
}

// child prints the name of the errno that the operation ended with, or "ok".
func child(text string) int {
	runtime.LockOSThread()
	var tr trial
	if err := json.Unmarshal([]byte(text), &tr); err != nil {
		fmt.Println("trial:", err)
		return 1
	}
	if !tr.Free {
		if err := tr.bind(); err != nil {
			fmt.Println("bind:", err)
			return 1
		}
	}
	fmt.Println(errname(ops[tr.Op](tr)))
	return 0
}

func errname(err error) string {
	if err == nil {
		return "ok"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func (tr trial) support() Support {
	s := Probe()
	if tr.ABI > 0 {
		s = s.Limit(tr.ABI)
	}
	return s
}

func (tr trial) bind() error {
	if tr.FromPlan {
		return tr.bindPlan()
	}
	fd, flags, _, err := tr.Ruleset.Open(tr.support())
	if err != nil {
		return err
	}
	return Restrict(fd, flags)
}

// bindPlan makes the calls that a child written in C makes.
func (tr trial) bindPlan() error {
	p, _, err := tr.Ruleset.Plan(tr.support())
	if err != nil {
		return err
	}
	fd, err := llsyscall.LandlockCreateRuleset(&llsyscall.RulesetAttr{
		HandledAccessFS: uint64(p.HandledFS), HandledAccessNet: p.HandledNet, Scoped: p.Scoped,
	}, 0)
	if err != nil {
		return err
	}
	for _, r := range p.Rules {
		parent, err := unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		attr := llsyscall.PathBeneathAttr{AllowedAccess: uint64(r.Access), ParentFd: parent}
		if err := llsyscall.LandlockAddPathBeneathRule(fd, &attr, 0); err != nil {
			return fmt.Errorf("%s: %w", r.Path, err)
		}
		unix.Close(parent)
	}
	for _, d := range p.Ports {
		attr := llsyscall.NetPortAttr{AllowedAccess: d.Access, Port: uint64(d.Port)}
		if err := llsyscall.LandlockAddNetPortRule(fd, &attr, 0); err != nil {
			return err
		}
	}
	return Restrict(fd, p.Flags)
}

// run starts the trial as uid and returns the child's answer. The program is
// handed over as a descriptor, since go test builds it where only root can go.
func (tr trial) run(t *testing.T, uid int) string {
	t.Helper()
	text, err := json.Marshal(tr)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = []string{trialVar + "=" + string(text), "PATH=/usr/bin:/bin"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("trial %s as uid %d: %v\n%s%s", tr.Op, uid, err, out.String(), errOut.String())
	}
	return strings.TrimSpace(out.String())
}

// uids are the users a trial runs as: root and an ordinary one, or who we are.
func uids() []int {
	if os.Getuid() == 0 {
		return []int{0, 1000}
	}
	return []int{os.Getuid()}
}

func asEachUser(t *testing.T, f func(t *testing.T, uid int)) {
	t.Helper()
	needLandlock(t)
	for _, uid := range uids() {
		t.Run(fmt.Sprintf("uid %d", uid), func(t *testing.T) { f(t, uid) })
	}
}

func needLandlock(t *testing.T) {
	t.Helper()
	s := Probe()
	if s.effective() >= 1 {
		return
	}
	require.Missing(t, require.Landlock, s.Err)
}

func needABI(t *testing.T, abi int) {
	t.Helper()
	needLandlock(t)
	if have := Probe().effective(); have < abi {
		require.Missing(t, require.Host, "needs ABI ", abi, ", have ", have)
	}
}

// newTree makes the tree that trials work in, owned by uid:
//
//	in/   file exe empty/ a/f b/  what rules grant
//	out/  file                    what they do not
func newTree(t *testing.T, uid int) string {
	t.Helper()
	root, err := os.MkdirTemp("", "landlock-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	must(t, os.Chmod(root, 0o755))
	for _, dir := range []string{"in/empty", "in/a", "in/b", "out"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	program, err := os.ReadFile("/bin/true")
	must(t, err)
	for name, data := range map[string][]byte{
		"in/file": []byte("granted"), "in/a/f": []byte("moves"),
		"in/exe": program, "out/file": []byte("secret"),
	} {
		must(t, os.WriteFile(filepath.Join(root, name), data, 0o755))
	}
	must(t, filepath.Walk(root, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}))
	return root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// system is what a trial's helper programs need to start.
func system(rules ...PathRule) []PathRule {
	return append([]PathRule{
		{Path: "/usr", Access: ReadExec},
		{Path: "/lib", Access: ReadExec, Optional: true},
		{Path: "/lib64", Access: ReadExec, Optional: true},
		{Path: "/dev/null", Access: Device}, // opened by os/exec
	}, rules...)
}
