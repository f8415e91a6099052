package test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/test/require"
)

// tool is one everyday job. It runs confined with no flag, or with the one that
// docs/tools.md names, in each tier and as each user.
type tool struct {
	name string
	// needs are the programs that must be on the caller's PATH.
	needs []string
	// flags is what the job needs; %W stands for the workspace.
	flags []string
	// files are put into the workspace beforehand.
	files map[string]string
	// before runs unconfined in the workspace.
	before string
	script string
	// want must be in the output.
	want string
	// refused are tiers that cannot do it. There the job fails, and the result
	// names the part that is the reason.
	refused map[string]string
	// says must be on one line of sbx about the failure that is then wanted.
	says []string
	// ordinary: the program itself refuses to run as root.
	ordinary bool
}

func TestTools(t *testing.T) {
	for _, tl := range slices.Concat(gitTools(), languageTools(), serviceTools()) {
		t.Run(strings.ReplaceAll(tl.name, " ", "-"), func(t *testing.T) {
			for _, uid := range users() {
				for _, tier := range tiers() {
					t.Run(fmt.Sprintf("uid%d/%s", uid, tier), func(t *testing.T) { testTool(t, tl, uid, tier) })
				}
			}
		})
	}
}

// toolScene is a stage of a caller with tools: for root those of who runs the
// tests, with what lies below the home; for others those of the system.
func toolScene(t *testing.T, uid int, tier string) *scene {
	s := newScene(t, uid, tier)
	s.patience = 4 * time.Minute
	s.file(s.Home+"/.gitconfig", "[user]\n\tname = A Caller\n\temail = caller@example.org\n")
	s.Env = []string{"PATH=" + systemPath()}
	if uid == os.Getuid() {
		s.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
			"XDG_CACHE_HOME=" + s.Home + "/.cache", "XDG_STATE_HOME=" + s.Home + "/.local/state",
			"GIT_CONFIG_GLOBAL=" + s.Home + "/.gitconfig"}
	}
	return s
}

// systemPath is the part of PATH that every user can use, and Go's own directory.
func systemPath() string {
	path := "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	if gobin, err := osexec.LookPath("go"); err == nil {
		if real, err := filepath.EvalSymlinks(gobin); err == nil && !strings.HasPrefix(real, "/root/") {
			path = filepath.Dir(real) + ":" + path
		}
	}
	return path
}

func (s *scene) has(program string) bool {
	path := strings.TrimPrefix(s.Env[0], "PATH=")
	for _, dir := range filepath.SplitList(path) {
		if info, err := os.Stat(dir + "/" + program); err == nil && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

func testTool(t *testing.T, tl tool, uid int, tier string) {
	if tl.ordinary && uid == 0 {
		require.NotHere(t, "the program refuses to run as root")
	}
	s := toolScene(t, uid, tier)
	for _, program := range tl.needs {
		if !s.has(program) {
			require.Missing(t, require.Program, program+" is not on this user's PATH")
		}
	}
	for name, text := range tl.files {
		s.file(s.Work+"/"+name, text)
	}
	if tl.before != "" {
		if r := s.plain("bash", "-ec", tl.before); r.Code != 0 {
			t.Fatalf("the preparation fails: %s%s", r.Stdout, r.Stderr)
		}
	}
	flags := []string{"--timeout", "200s"}
	for _, f := range tl.flags {
		flags = append(flags, strings.ReplaceAll(f, "%W", s.Work))
	}
	if tl.says != nil {
		testToolSays(s, tl, flags)
		return
	}
	r := s.sbx(flags, "bash", "-ec", tl.script)
	if part, ok := tl.refused[tier]; ok {
		if r.Code == 0 || r.Report.Outcome == "setup" {
			t.Errorf("docs/tools.md says that tier %s cannot do it, but: %s, exit %d, %s%s", tier, r.Report.Outcome, r.Code, r.Stdout, r.Stderr)
		}
		if part != "" && !reported(r, part) {
			t.Errorf("the result does not name %q: %+v", part, r.Report.Enforced)
		}
		return
	}
	if r.Code != 0 || !strings.Contains(r.Stdout, tl.want) {
		t.Errorf("exit %d (%s), want %q\nstdout %s\nstderr %s", r.Code, r.Report.Outcome, tl.want, r.Stdout, r.Stderr)
	}
	if len(r.Report.Detected) > 0 {
		t.Errorf("an honest job is reported: %+v", r.Report.Detected)
	}
}

// testToolSays: the job fails, and one line of sbx says which flag lets it pass.
// In the base tier, which judges such files after the run, it passes.
func testToolSays(s *scene, tl tool, flags []string) {
	args := slices.Concat([]string{s.program("sbx"), "run", "--tier", s.Tier}, flags, []string{"--", "bash", "-ec", tl.script})
	r := s.finish(s.command(args...))
	if _, ok := tl.refused[s.Tier]; !ok {
		if r.Code != 0 {
			s.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		return
	}
	if r.Code == 0 {
		s.Errorf("it passes without the flag: %s%s", r.Stdout, r.Stderr)
	}
	for line := range strings.Lines(r.Stderr) {
		if strings.HasPrefix(line, "sbx: ") && !slices.ContainsFunc(tl.says, func(w string) bool { return !strings.Contains(line, w) }) {
			return
		}
	}
	s.Errorf("no line of sbx has all of %q:\n%s", tl.says, r.Stderr)
}
