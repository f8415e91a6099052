package agentloop

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/exec"
)

// planCache keeps what a scan of directories found, until one of the watched
// directories changes or the plan grows old. It lies in our cache directory,
// which no command can reach; a file that anyone else could have written is
// ignored. The zero value caches nothing.
type planCache struct {
	dir string
	uid int
	r   *resolver
	// memory keeps plans in place of dir, where dir could be the client's.
	memory *planMemory
}

// planMemory keeps plans of this process. It is safe for concurrent use.
type planMemory struct {
	mu    sync.Mutex
	texts map[string]string // by name and key
}

func (m *planMemory) get(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.texts[name]
}

func (m *planMemory) put(name, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.texts == nil || len(m.texts) >= maxPlans {
		m.texts = map[string]string{}
	}
	m.texts[name] = text
}

// planAge bounds how long a plan is believed: not every directory is watched
// (each costs a system call at every start), and a file made unreadable changes
// no directory's time stamp. A scan takes some 10 ms.
const planAge = 5 * time.Minute

// planVersion changes with the meaning of the files, or of the tables behind
// them.
const planVersion = "2"

// plan is a cached list of tagged paths and the directories it depends on.
type plan struct {
	watch []string
	lines []planLine
}

type planLine struct{ tag, path, arg string }

// load returns the plan under name, or makes and keeps it. key holds all inputs
// other than the watched directories.
func (c planCache) load(name, key string, scan func() plan) plan {
	if c.memory != nil {
		return c.remembered(name, key, scan)
	}
	file := c.file(name, key)
	if file != "" {
		if p, ok := c.read(file, key); ok {
			return p
		}
	}
	start := time.Now()
	p := scan()
	if file != "" && enoughFiles() {
		c.write(file, key, p, start)
	}
	return p
}

func (c planCache) remembered(name, key string, scan func() plan) plan {
	if p, ok := parsePlan(c.r, c.memory.get(name+key), key, time.Now()); ok {
		return p
	}
	start := time.Now()
	p := scan()
	if text, ok := p.format(key, start); ok && enoughFiles() {
		c.memory.put(name+key, text)
	}
	return p
}

// enoughFiles reports whether a scan could open what it wanted. One that could
// not finds fewer tools, and fewer secrets to hide.
func enoughFiles() bool {
	var files unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur >= 256
}

func (c planCache) file(name, key string) string {
	if c.dir == "" {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return c.dir + "/plans/" + name + "-" + strconv.FormatUint(h.Sum64(), 16)
}

// stamp is what changes when an entry of a directory is made, removed or
// renamed. ctime also moves when the directory's own mode does.
func stamp(r *resolver, dir string) string {
	real, _, err := r.resolve(dir)
	if err != nil {
		return "-"
	}
	n := r.lstat(real)
	buf := make([]byte, 0, 48)
	buf = strconv.AppendUint(buf, n.ino, 36)
	buf = append(buf, '.')
	buf = strconv.AppendInt(buf, n.ctime, 36)
	return string(buf)
}

func (c planCache) read(file, key string) (plan, bool) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return plan{}, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || int(st.Uid) != c.uid || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o077 != 0 || st.Size > 4<<20 {
		return plan{}, false
	}
	data, err := readAll(fd, st.Size)
	if err != nil || int64(len(data)) != st.Size {
		return plan{}, false
	}
	return parsePlan(c.r, string(data), key, time.Now())
}

// parsePlan reads a plan back and checks its head, its age and every watched
// directory. Fields are separated by NUL, which no path contains, and records
// by a NUL and a newline.
func parsePlan(r *resolver, text, key string, now time.Time) (plan, bool) {
	p := plan{lines: make([]planLine, 0, strings.Count(text, recordEnd))}
	head, rest, ok := strings.Cut(text, recordEnd)
	if !ok {
		return p, false
	}
	f := strings.SplitN(head, "\x00", 4)
	if len(f) != 4 || f[0] != planVersion || f[2] != "plan" || f[3] != key {
		return p, false
	}
	made, err := strconv.ParseInt(f[1], 10, 64)
	if age := now.Sub(time.Unix(made, 0)); err != nil || age > planAge || age < -time.Minute {
		return p, false
	}
	for rest != "" {
		var rec string
		if rec, rest, ok = strings.Cut(rest, recordEnd); !ok {
			return p, false
		}
		tag, tail, _ := strings.Cut(rec, "\x00")
		path, arg, _ := strings.Cut(tail, "\x00")
		switch tag {
		case "watch":
			if stamp(r, path) != arg {
				return p, false
			}
			p.watch = append(p.watch, path)
		case "end":
			return p, rest == ""
		default:
			p.lines = append(p.lines, planLine{tag, path, arg})
		}
	}
	return p, false
}

const recordEnd = "\x00\n"

// settle is how long a directory must have been left alone before the scan, so
// that no change during it, or in the same tick of the kernel's coarse clock (at
// most 10 ms), hides behind an equal stamp.
const settle = 20 * time.Millisecond

// format is a plan as parsePlan reads it; false for one that cannot be kept.
func (p plan) format(key string, start time.Time) (string, bool) {
	var b strings.Builder
	r := newResolver(usualPaths)
	for _, w := range p.watch {
		if real, _, err := r.resolve(w); err == nil && time.Unix(0, r.lstat(real).ctime).After(start.Add(-settle)) {
			return "", false
		}
	}
	for _, l := range p.lines {
		if strings.HasPrefix(l.arg, "\n") {
			return "", false // would read as the end of a record
		}
	}
	fmt.Fprintf(&b, "%s\x00%d\x00plan\x00%s%s", planVersion, start.Unix(), key, recordEnd)
	for _, w := range p.watch {
		b.WriteString("watch\x00" + w + "\x00" + stamp(r, w) + recordEnd)
	}
	for _, l := range p.lines {
		b.WriteString(l.tag + "\x00" + l.path + "\x00" + l.arg + recordEnd)
	}
	b.WriteString("end" + recordEnd)
	return b.String(), true
}

// write keeps a plan. A failure is no error: the next start scans again.
func (c planCache) write(file, key string, p plan, start time.Time) {
	text, ok := p.format(key, start)
	if !ok {
		return
	}
	dir := filepath.Dir(file)
	if makeOwnDir(dir, c.uid) != nil {
		return
	}
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return
	}
	_, err = tmp.WriteString(text)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	dropOld(dir, start)
}

// maxPlans bounds the plans that are kept: there is one per PATH and workspace.
const maxPlans = 64

// dropOld removes plans that are too old to be believed, once there are many.
func dropOld(dir string, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= maxPlans {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > planAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func (p plan) tagged(tag string) []string {
	var list []string
	for _, l := range p.lines {
		if l.tag == tag {
			list = append(list, l.path)
		}
	}
	return list
}

// etc returns the plan for the tree at root, see [scanEtc].
func (c planCache) etc(root string, granted []string, owner bool) etcPlan {
	key := root + "\n" + strconv.FormatBool(owner) + "\n" + strings.Join(granted, "\n")
	p := c.load("etc", key, func() plan {
		e := scanEtc(root, granted, owner)
		out := plan{watch: e.Watch}
		for tag, paths := range map[string][]string{"deny": e.Deny, "read": e.Read, "outside": e.Outside} {
			for _, path := range paths {
				out.lines = append(out.lines, planLine{tag: tag, path: path})
			}
		}
		for _, l := range e.Links {
			out.lines = append(out.lines, planLine{tag: "link", path: l.Path, arg: l.Target})
		}
		return out
	})
	e := etcPlan{Deny: p.tagged("deny"), Read: p.tagged("read"), Outside: p.tagged("outside"), Watch: p.watch}
	for _, l := range p.lines {
		if l.tag == "link" {
			e.Links = append(e.Links, exec.Link{Path: l.path, Target: l.arg})
		}
	}
	return e
}
