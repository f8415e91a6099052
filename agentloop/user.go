package agentloop

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"sandboxd/exec"
)

// account is one line of the passwd file.
type account struct {
	name, home, shell string
	uid, gid          int
}

// accountOf finds the passwd entry of uid. The files are read directly: other
// name services would need code of the host in this process, and a uid without
// an entry is a normal case in containers.
func accountOf(uid int) (account, bool) { return accountIn("/etc/passwd", uid) }

// AccountHome is the home of uid in the passwd file, or "".
func AccountHome(uid int) string {
	a, _ := accountOf(uid)
	return a.home
}

func accountIn(file string, uid int) (account, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return account{}, false
	}
	want := strconv.Itoa(uid)
	for line := range strings.SplitSeq(string(data), "\n") {
		f := strings.Split(line, ":")
		if len(f) < 7 || f[2] != want {
			continue
		}
		gid, err := strconv.Atoi(f[3])
		if err != nil {
			continue
		}
		return account{name: f[0], uid: uid, gid: gid, home: f[5], shell: f[6]}, true
	}
	return account{}, false
}

// groupsOf lists the supplementary groups that the group file gives to name.
func groupsOf(name string, gid int) []int { return groupsIn("/etc/group", name, gid) }

func groupsIn(file, name string, gid int) []int {
	groups := []int{gid}
	data, err := os.ReadFile(file)
	if err != nil || name == "" {
		return groups
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		f := strings.Split(line, ":")
		if len(f) < 4 {
			continue
		}
		g, err := strconv.Atoi(f[2])
		if err != nil || g == gid {
			continue
		}
		for member := range strings.SplitSeq(f[3], ",") {
			if member == name {
				groups = append(groups, g)
			}
		}
	}
	return groups
}

// identity is who the command runs as.
type identity struct {
	user    *exec.User // nil: the caller
	uid     int
	gid     int
	groups  []int
	account account // zero without a passwd entry
	note    string
}

// may reports whether the mode bits give the identity the right bit (4, 2, 1) on n.
// uid 0 runs without capabilities, so it gets no special treatment.
func (id identity) may(n node, bit uint32) bool {
	switch {
	case int(n.uid) == id.uid:
		return n.mode>>6&bit == bit
	case int(n.gid) == id.gid || containsInt(id.groups, int(n.gid)):
		return n.mode>>3&bit == bit
	}
	return n.mode&bit == bit
}

func containsInt(s []int, v int) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}

// chooseIdentity applies Grant.User. Without one, root in a workspace of
// another user runs as that user: uid 0 without capabilities cannot work there
// anyhow, and files it made would belong to root.
func chooseIdentity(spec string, c Caller, ws node) (identity, error) {
	self := identity{uid: c.UID, gid: c.GID, groups: c.Groups}
	if c.UID != os.Geteuid() { // a daemon builds for its client
		self.user = &exec.User{UID: c.UID, GID: c.GID, Groups: c.Groups, OwnPaths: true}
	}
	switch {
	case spec == "caller":
		return self.named(), nil
	case spec == "":
		if c.UID != 0 || ws.err != nil || ws.uid == 0 {
			return self.named(), nil
		}
		id := otherIdentity(int(ws.uid), -1, int(ws.gid))
		id.note = fmt.Sprintf("runs as %s, the owner of the workspace", id)
		return id, nil
	}
	uid, gid, err := parseUser(spec)
	if err != nil {
		return identity{}, err
	}
	if uid == c.UID && (gid < 0 || gid == c.GID) {
		return self.named(), nil
	}
	if c.UID != 0 {
		denied := fmt.Errorf("uid %d cannot become uid %d", c.UID, uid)
		if uid == c.UID {
			denied = fmt.Errorf("uid %d with group %d cannot take group %d", uid, c.GID, gid)
		}
		return identity{}, &GrantError{Entry: "user " + spec, Hint: "only root can run a command as another user or group", Err: denied}
	}
	id := otherIdentity(uid, gid, uid)
	id.note = "runs as " + id.String()
	return id, nil
}

func (id identity) named() identity {
	id.account, _ = accountOf(id.uid)
	return id
}

// otherIdentity is uid with the groups of the passwd and group files. gid -1
// means the one of the passwd file, or fallback without an entry.
func otherIdentity(uid, gid, fallback int) identity {
	a, ok := accountOf(uid)
	if gid < 0 {
		if gid = fallback; ok {
			gid = a.gid
		}
	}
	id := identity{uid: uid, gid: gid, account: a, groups: groupsOf(a.name, gid)}
	id.user = &exec.User{UID: uid, GID: gid, Groups: id.groups}
	return id
}

func (id identity) String() string {
	if id.account.name != "" {
		return fmt.Sprintf("%s (uid %d)", id.account.name, id.uid)
	}
	return fmt.Sprintf("uid %d", id.uid)
}

// parseUser reads "uid" or "uid:gid". gid is -1 when it is not given.
func parseUser(spec string) (uid, gid int, err error) {
	u, g, both := strings.Cut(spec, ":")
	gid = -1
	if uid, err = parseID(u); err == nil && both {
		gid, err = parseID(g)
	}
	if err != nil {
		return 0, 0, &GrantError{Entry: "user " + spec, Hint: `write "caller", UID or UID:GID with numbers`, Err: err}
	}
	return uid, gid, nil
}

// parseID reads a uid or gid. 4294967295 is (uid_t)-1, which means "leave as it
// is" to the kernel's set*id calls and is no identity.
func parseID(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("%q is not a user or group number", s)
	}
	return int(n), nil
}
