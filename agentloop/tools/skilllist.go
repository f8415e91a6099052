package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/policy"
	policypath "sandboxd/policy/path"
)

// skillFile is the file of a skill in its directory.
const skillFile = "SKILL.md"

// checkoutSkills are the directories of the workspace that hold skills. The user's
// own are in [agentloop.PolicyInForce.Skills].
var checkoutSkills = []string{".sandboxd/skills", ".claude/skills"}

const (
	maxSkills     = 100
	maxSkillHead  = 16 << 10 // bytes of a file that are read for its front matter
	maxSkillName  = 64
	maxSkillText  = 64 << 10 // bytes of a skill that is loaded
	maxSkillsText = 8 << 10  // bytes of the list in the system prompt
	maxSkillLine  = 500      // bytes of a description in it
)

// skill is one of them.
type skill struct {
	name, description string
	allowed           []string // its allowed-tools, which allow nothing here
	path              string   // of its file
	checkout          bool     // it arrived with the project
	problem           string   // why it cannot be used; empty: it can
}

// Skills lists the skills of a session for the system prompt, bounded, as data:
// their authors wrote the names and descriptions. Empty when there are none.
func Skills(ctx context.Context, s *agentloop.Session) string {
	var b strings.Builder
	left := 0
	for _, k := range findSkills(ctx, s) {
		line := fmt.Sprintf("- %s: %s\n", k.name, clip(k.description, maxSkillLine))
		if k.checkout {
			line = fmt.Sprintf("- %s (of this checkout): %s\n", k.name, clip(k.description, maxSkillLine))
		}
		if k.problem != "" {
			line = fmt.Sprintf("- %s: cannot be used: %s\n", k.name, k.problem)
		}
		if left > 0 || b.Len()+len(line) > maxSkillsText {
			left++
			continue
		}
		b.WriteString(line)
	}
	if left > 0 {
		fmt.Fprintf(&b, "[%d more are left out]\n", left)
	}
	return b.String()
}

// findSkills looks into the directories of a session, with the user's rights. Of
// two skills of one name the user's own counts, then the first. A skill whose file
// the policy denies is not there.
func findSkills(ctx context.Context, s *agentloop.Session) []skill {
	var found []skill
	_ = as(s, func() error {
		for _, dir := range s.SkillDirs() {
			found = append(found, skillsIn(dir, ".", false)...)
		}
		for _, dir := range checkoutSkills {
			found = append(found, skillsIn(s.Workspace(), dir, true)...)
		}
		return nil
	})
	var list []skill
	for _, k := range found {
		same := func(have skill) bool { return have.name == k.name }
		if len(list) == maxSkills || slices.ContainsFunc(list, same) {
			continue
		}
		d, _ := s.Check(ctx, policy.Call{Tool: "read_file", Args: policy.Args{"file_path": k.path}})
		if d.Verdict != policy.Deny {
			list = append(list, k)
		}
	}
	slices.SortStableFunc(list, func(a, b skill) int { return cmp.Compare(a.name, b.name) })
	return list
}

// skillsIn reads the heads of the skills in dir below root. In a checkout no link
// is followed: it would show a description of any file.
func skillsIn(root, dir string, checkout bool) []skill {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC}
	if checkout {
		how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
	}
	top, err := openHow(unix.AT_FDCWD, root, unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC})
	if err != nil {
		return nil
	}
	defer top.Close()
	d, err := openHow(int(top.Fd()), dir, how)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(10 * maxSkills)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	slices.Sort(names)
	var list []skill
	for _, name := range names {
		if len(list) == maxSkills {
			break
		}
		if k, ok := headOf(d, name, how.Resolve); ok {
			k.path, k.checkout = filepath.Join(root, dir, name, skillFile), checkout
			list = append(list, k)
		}
	}
	return list
}

// headOf reads the front matter of the skill in the directory name of d.
func headOf(d *os.File, name string, resolve uint64) (skill, bool) {
	k := skill{name: name}
	if !validSkillName(name) {
		return k, false
	}
	f, err := openHow(int(d.Fd()), name+"/"+skillFile, unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: resolve})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return k, false
	}
	if err != nil {
		k.problem = "its file cannot be read: " + err.Error()
		return k, true
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		k.problem = "its file is no regular file"
		return k, true
	}
	head, err := io.ReadAll(io.LimitReader(f, maxSkillHead))
	if err == nil {
		err = k.parse(string(head))
	}
	if err != nil {
		k.problem = oneLine(err.Error())
	}
	return k, true
}

// parse reads the front matter at the beginning of text.
func (k *skill) parse(text string) error {
	head, _, ok := agentloop.CutFrontMatter(text)
	if !ok {
		return errors.New("no front matter (---) with name and description")
	}
	fields, err := agentloop.ParseFrontMatter(head)
	if err != nil {
		return err
	}
	name := ""
	for _, f := range fields {
		switch f.Name {
		case "name":
			name, err = f.Text()
		case "description":
			k.description, err = f.Text()
		case "allowed-tools":
			k.allowed, err = f.List()
		}
		if err != nil {
			return fmt.Errorf("front matter: %s: %w", f.Name, err)
		}
	}
	if name != "" && name != k.name {
		return fmt.Errorf("its name is %q and its directory %q", clip(name, maxSkillName), k.name)
	}
	k.description = oneLine(k.description)
	for i := range k.allowed {
		k.allowed[i] = oneLine(k.allowed[i])
	}
	return nil
}

// validSkillName says whether a name can be one: it never leads out of its directory.
func validSkillName(name string) bool {
	if name == "" || len(name) > maxSkillName || name[0] == '.' {
		return false
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

func openHow(dir int, path string, how unix.OpenHow) (*os.File, error) {
	fd, err := policypath.OpenNamedAt(dir, path, how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// clip cuts a text after limit bytes, at a character.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
