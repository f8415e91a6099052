package landlock

import (
	"testing"

	"sandboxd/test/require"
)

// rightRows has each right with an operation that needs it, what that needs
// besides, and the kernel's answer without the right.
var rightRows = []struct {
	right Access
	op    string
	with  Access
	errno string
	path  string // that the rule is on; "" is the tree's "in"
	root  bool   // needs root to work unconfined
}{
	{right: Execute, op: "execute", with: ReadFile, errno: "EACCES"},
	{right: ReadFile, op: "read", errno: "EACCES"},
	{right: ReadFile, op: "execute", with: Execute, errno: "EACCES"},
	{right: ReadDir, op: "list", errno: "EACCES"},
	{right: WriteFile, op: "write", errno: "EACCES"},
	{right: RemoveDir, op: "rmdir", errno: "EACCES"},
	{right: RemoveFile, op: "unlink", errno: "EACCES"},
	{right: RemoveFile, op: "rename", with: MakeReg | Refer, errno: "EACCES"},
	{right: MakeDir, op: "mkdir", errno: "EACCES"},
	{right: MakeReg, op: "mknod reg", errno: "EACCES"},
	{right: MakeReg, op: "create", with: WriteFile, errno: "EACCES"},
	{right: MakeReg, op: "link", with: Refer, errno: "EACCES"},
	{right: MakeSock, op: "mknod sock", errno: "EACCES"},
	{right: MakeFifo, op: "mknod fifo", errno: "EACCES"},
	{right: MakeSym, op: "symlink", errno: "EACCES"},
	{right: Refer, op: "rename", with: RemoveFile | MakeReg, errno: "EXDEV"},
	{right: Refer, op: "rename dir", with: RemoveDir | MakeDir, errno: "EXDEV"},
	{right: Refer, op: "exchange", with: RemoveFile | MakeReg | RemoveDir | MakeDir, errno: "EXDEV"},
	{right: Refer, op: "link", with: MakeReg, errno: "EXDEV"},
	{right: Truncate, op: "truncate", errno: "EACCES"},
	{right: Truncate, op: "o_trunc", with: WriteFile, errno: "EACCES"},
	{right: IoctlDev, op: "ioctl", with: ReadFile, errno: "EACCES", path: "/dev/urandom"},
}

func TestEachRightIsNeededAndEnough(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		for _, row := range rightRows {
			t.Run(row.right.String()+" "+row.op, func(t *testing.T) {
				try := func(a Access, free, plan bool) string {
					tr := trial{Op: row.op, Dir: newTree(t, uid), Free: free, FromPlan: plan}
					path := row.path
					if path == "" {
						path = tr.in("")
					}
					tr.Ruleset.Paths = system(PathRule{Path: path, Access: a})
					return tr.run(t, uid)
				}
				if got := try(0, true, false); got != "ok" {
					t.Errorf("unconfined: %s", got)
				}
				if got := try(row.with|row.right, false, false); got != "ok" {
					t.Errorf("with %v: %s, want ok", row.with|row.right, got)
				}
				if got := try(row.with|row.right, false, true); got != "ok" {
					t.Errorf("with %v from a plan: %s, want ok", row.with|row.right, got)
				}
				all := (ReadExec | Write | Device) &^ row.right
				if got := try(all, false, false); got != row.errno {
					t.Errorf("with %v: %s, want %s", all, got, row.errno)
				}
				if got := try(all, false, true); got != row.errno {
					t.Errorf("with %v from a plan: %s, want %s", all, got, row.errno)
				}
			})
		}
	})
}

func TestEveryRightOfTheABIHasARow(t *testing.T) {
	have := deviceNodes | ConnectFS // TestDeviceNodesAreNeverGranted; ABI 9
	for _, row := range rightRows {
		have |= row.right
	}
	if all := fileRights(Levels[len(Levels)-1].ABI); have != all {
		t.Errorf("rows have %v, want %v", have, all)
	}
}

func TestDeviceNodesAreNeverGranted(t *testing.T) {
	needLandlock(t)
	require.Root(t, "only root can make device nodes at all")
	for _, op := range []string{"mknod char", "mknod block"} {
		tr := trial{Op: op, Dir: newTree(t, 0)}
		tr.Ruleset.Paths = system(PathRule{Path: tr.in(""), Access: ReadExec | Write | Device})
		if got := tr.run(t, 0); got != "EACCES" {
			t.Errorf("%s: %s, want EACCES", op, got)
		}
		tr.Free = true
		if got := tr.run(t, 0); got != "ok" {
			t.Errorf("%s unconfined: %s", op, got)
		}
	}
	for _, a := range []Access{MakeChar, MakeBlock} {
		r := Ruleset{Paths: []PathRule{{Path: "/", Access: a}}}
		if _, _, err := r.Plan(Probe()); err == nil {
			t.Errorf("Plan grants %v", a)
		}
	}
}

func TestTreeIsHeldTogether(t *testing.T) {
	asEachUser(t, func(t *testing.T, uid int) {
		for _, tt := range []struct{ op, want string }{
			{"rename", "ok"}, {"rename dir", "ok"}, {"exchange", "ok"}, {"link", "ok"},
			{"create", "ok"}, {"o_trunc", "ok"}, {"cat in", "ok"},
			{"read out", "EACCES"}, {"write out", "EACCES"}, {"truncate out", "EACCES"},
			// rights would grow or differ on the other side
			{"move out", "EACCES"}, {"move in", "EACCES"},
			{"cat out", "exit 1"}, // bound across execve
		} {
			t.Run(tt.op, func(t *testing.T) {
				tr := trial{Op: tt.op, Dir: newTree(t, uid)}
				tr.Ruleset.Paths = system(PathRule{Path: tr.in(""), Access: ReadExec | Write})
				if got := tr.run(t, uid); got != tt.want {
					t.Errorf("%s: %s, want %s", tt.op, got, tt.want)
				}
				free := trial{Op: tt.op, Dir: newTree(t, uid), Free: true}
				if got := free.run(t, uid); got != "ok" {
					t.Errorf("%s unconfined: %s", tt.op, got)
				}
			})
		}
	})
}
