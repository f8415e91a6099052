package test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"

	"sandboxd/test/require"
)

// The cases from the field about what users see and hosts lack, each by its id.

// S003: the loader and the libraries of a named program.
func TestCaseS003LibrariesOfANamedProgram(t *testing.T) {
	onStages(t, func(s *scene) {
		s.file(s.Out+"/lib.c", "int answer(void){return 42;}\n")
		s.file(s.Out+"/main.c", "#include <stdio.h>\nint answer(void);\nint main(void){printf(\"answer %d\\n\",answer());return 0;}\n")
		s.mkdir(s.Out + "/bin")
		s.mkdir(s.Out + "/libs")
		for _, args := range [][]string{{"-shared", "-fPIC", "-o", "libs/libanswer.so", "lib.c"},
			{"-o", "bin/prog", "main.c", "-Llibs", "-lanswer", "-Wl,-rpath," + s.Out + "/libs"}} {
			c := s.command(append([]string{"gcc"}, args...)...)
			c.Dir = s.Out
			if out, err := c.CombinedOutput(); err != nil {
				require.Missing(s, require.Program, "no compiler: ", err, string(out))
			}
		}
		r := s.sbx([]string{"--ro", s.Out + "/bin"}, s.Out+"/bin/prog")
		if r.Stdout != "answer 42\n" && !strings.Contains(r.Stderr+fmt.Sprint(r.Report.Error), "libanswer.so") {
			s.Errorf("neither works nor says what is missing: %d %q %q %+v", r.Code, r.Stdout, r.Stderr, r.Report.Error)
		}
		if r := s.sbx([]string{"--ro", s.Out + "/bin", "--ro", s.Out + "/libs"}, s.Out+"/bin/prog"); r.Stdout != "answer 42\n" {
			s.Errorf("with its library granted: %d %q %q", r.Code, r.Stdout, r.Stderr)
		}
	})
}

// S007: the names, never the values, of variables that were withheld.
func TestCaseS007WithheldVariablesAreNamed(t *testing.T) {
	onStages(t, func(s *scene) {
		s.Env = []string{"DOCKER_HOST=" + s.Token}
		c := s.command(s.sbxArgs(nil, "sh", "-c", `echo "${DOCKER_HOST-unset}"; exit 3`)...)
		raw := s.finish(c)
		r := s.report(raw)
		if r.Code != 3 || r.Stdout != "unset\n" || !slices.Contains(r.Report.Withheld, "DOCKER_HOST") {
			s.Errorf("exit %d, stdout %q, withheld %q", r.Code, r.Stdout, r.Report.Withheld)
		}
		loud := s.plain(s.program("sbx"), "run", "--verbose", "--tier", s.Tier, "--workspace", s.Work, "--", "false")
		if loud.Code != 1 || !strings.Contains(loud.Stderr, "DOCKER_HOST") {
			s.Errorf("a failed command: %d %q", loud.Code, loud.Stderr)
		}
		brief := s.plain(s.program("sbx"), "run", "--tier", s.Tier, "--workspace", s.Work, "--", "false")
		if !strings.Contains(brief.Stderr, "variables withheld") {
			s.Errorf("without --verbose: %q", brief.Stderr)
		}
		if strings.Contains(raw.Stdout+raw.Stderr+loud.Stderr+brief.Stderr, s.Token) {
			s.Error("the value is shown")
		}
	})
}

func TestCaseS008NpmInstall(t *testing.T) {
	if _, err := osexec.LookPath("/usr/bin/npm"); err != nil {
		require.Missing(t, require.Program, "no npm in the system directories")
	}
	onStages(t, func(s *scene) {
		s.file(s.Work+"/src/package/package.json", `{"name":"local","version":"1.0.0","main":"i.js"}`)
		s.file(s.Work+"/src/package/i.js", "module.exports = 42\n")
		s.file(s.Work+"/package.json", `{"name":"app","version":"1.0.0"}`)
		r := s.succeeds([]string{"--timeout", "2m"}, "tar -C src -czf local.tgz package && npm install --no-audit --no-fund ./local.tgz && "+
			`node -e 'console.log(require("local"))' && ! grep -rl EXDEV ~/.npm/_logs`)
		if !strings.HasSuffix(r.Stdout, "42\n") || !exists(s.Work+"/node_modules/local/i.js") {
			s.Errorf("stdout %q, stderr %q", r.Stdout, r.Stderr)
		}
	})
}

// S016: the container's filter is told from a switch of the kernel.
func TestCaseS016DoctorNamesWhoRefuses(t *testing.T) {
	require.Root(t, "to set the switch")
	s := newScene(t, 1000, "full")
	doctor := func(argv ...string) string {
		r := s.plain(argv...)
		_, after, found := strings.Cut(r.Stdout, "user namespace ")
		if !found {
			t.Fatalf("doctor says nothing of user namespaces: %q %q", r.Stdout, r.Stderr)
		}
		lines := strings.SplitAfter(after, "\n")
		return strings.Join(lines[:min(3, len(lines))], "")
	}
	if text := doctor(s.program("sbx"), "doctor"); !strings.Contains(text, "works") {
		require.Missing(t, require.UserNS, text)
	}
	if text := doctor(s.behind("user namespaces", s.program("sbx"), "doctor")...); !strings.Contains(text, "refused") || !strings.Contains(text, "outer seccomp filter") {
		t.Errorf("behind a filter: %s", text)
	}
	limited := doctor("unshare", "-U", "--map-root-user", "sh", "-c",
		`echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -all --inh-caps -all "$0" doctor`, s.program("sbx"))
	if !strings.Contains(limited, "refused") || !strings.Contains(limited, "sysctl") {
		t.Errorf("with the switch off: %s", limited)
	}
	r := s.plain(s.behind("user namespaces", s.program("sbx"), "run", "--quiet", "--json", "--workspace", s.Work, "--", "true")...)
	if r.Code != 0 || !strings.Contains(r.Stdout, `"tier":"base"`) {
		t.Errorf("a run behind the filter: %d %q %q", r.Code, r.Stdout, r.Stderr)
	}
}

// S048: doctor tries what run does, and names the step that fails.
func TestCaseS048DoctorTriesTheWholeSequence(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprintf("uid%d", uid), func(t *testing.T) {
			s := newScene(t, uid, "full")
			r := s.plain(s.behind("loopback", s.program("sbx"), "doctor")...)
			_, after, _ := strings.Cut(r.Stdout, "net namespace ")
			line, _, _ := strings.Cut(after, "\n")
			if !strings.Contains(line, "refused") || !strings.Contains(line, "loopback") {
				t.Errorf("doctor says %q of the net namespace\n%s", line, r.Stdout)
			}
			r = s.plain(s.behind("loopback", s.program("sbx"), "run", "--quiet", "--json", "--workspace", s.Work, "--", "true")...)
			if r.Code != 0 || !strings.Contains(r.Stdout, "seccomp: no IP sockets") {
				t.Errorf("a run on that host: %d %q %q", r.Code, r.Stdout, r.Stderr)
			}
		})
	}
}

// S051: the standard streams opened by path, whatever they are.
func TestCaseS051StandardStreamsByPath(t *testing.T) {
	onStages(t, func(s *scene) {
		const script = "echo a > /dev/stdout; echo b > /dev/stderr; echo c > /dev/null; cat < /dev/fd/0"
		argv := []string{s.program("sbx"), "run", "--quiet", "--tier", s.Tier, "--workspace", s.Work, "--", "bash", "-c", script}
		if r := s.plain(argv...); r.Code != 0 || r.Stdout != "a\n" || r.Stderr != "b\n" {
			s.Errorf("pipes: %d %q %q", r.Code, r.Stdout, r.Stderr)
		}
		file, err := os.Create(s.Out + "/output")
		s.must(err)
		defer file.Close()
		c := s.command(argv...)
		c.Stdout, c.Stderr = file, file
		if err := c.Run(); err != nil || !strings.Contains(s.content(file.Name()), "a\n") || !strings.Contains(s.content(file.Name()), "b\n") {
			s.Errorf("a file: %v %q", err, s.content(file.Name()))
		}
		for _, flags := range [][]string{nil, {"--tty"}} {
			term := newTerminal(s)
			c := term.start(nil, term.run(flags, "bash", "-c", script)...)
			term.want("a\r\n")
			term.want("b\r\n")
			const endOfFile = "\x04" // typed after sbx set the terminal up, which drops earlier input
			term.typeIn(endOfFile)
			if code := term.wait(c); code != 0 {
				s.Errorf("a terminal, %q: exit %d, %q", flags, code, term.text())
			}
		}
	})
}

// S073: grants follow links, as distributions use them for /etc and PATH.
func TestCaseS073LinkedSystemFiles(t *testing.T) {
	require.Root(t, "to lay a file system over /etc")
	onStages(t, func(s *scene) {
		for _, d := range []string{"/etc/up", "/etc/work", "/store", "/real/bin"} {
			s.must(os.MkdirAll(s.Out+d, 0o755))
		}
		s.must(os.WriteFile(s.Out+"/store/1-hosts", []byte("127.0.0.1 linked\n"), 0o644))
		s.link("1-hosts", s.Out+"/store/hosts")
		s.link(s.Out+"/store/hosts", s.Out+"/etc/up/hosts")
		s.must(copyProgram(touchPath(), s.Out+"/real/bin/mytouch"))
		s.link("real", s.Out+"/linked")
		path := s.Out + "/linked/bin:/usr/bin:/bin"
		c := s.command("unshare", "-m", "sh", "-c",
			`mount -t overlay overlay -o "lowerdir=/etc,upperdir=$0/etc/up,workdir=$0/etc/work" /etc && shift 0 && exec setpriv --reuid "$1" --regid "$1" --clear-groups env PATH="$2" "$3" run --quiet --tier "$4" --workspace "$5" -- sh -c 'echo test; cat /etc/hosts; mytouch made'`,
			s.Out, fmt.Sprint(s.UID), path, s.program("sbx"), s.Tier, s.Work)
		c.SysProcAttr.Credential = nil
		if r := s.finish(c); r.Code != 0 || r.Stdout != "test\n127.0.0.1 linked\n" || !exists(s.Work+"/made") {
			s.Errorf("exit %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
		}
	})
}

// What the user wrote and this tier cannot hold runs on request only, and is
// then reported and held as far as possible.
func TestNoExecWriteByBestEffort(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprintf("uid%d", uid), func(t *testing.T) {
			s := newScene(t, uid, "base")
			s.must(copyProgram(touchPath(), s.Work+"/program"))
			s.own(s.Work + "/program")
			r := s.sbx([]string{"--no-exec-write", "--best-effort"}, "sh", "-c", "./program made; touch honest")
			if r.Code != 0 || exists(s.Work+"/made") || !exists(s.Work+"/honest") || !reported(r, "no-exec-write") {
				t.Errorf("exit %d, made %v, weakened %+v", r.Code, exists(s.Work+"/made"), r.Report.Enforced.Weakened)
			}
		})
	}
}
