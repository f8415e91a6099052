package bash_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandboxd/test/require"
)

// composer makes scripts of constructs that are harmless to run. Each takes a
// script and wraps it so that it runs, or, for decoys, does not.
type composer struct {
	r   *rand.Rand
	n   int
	box *toolbox
}

func sq(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func dq(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
}

func ansi(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		fmt.Fprintf(&b, `\x%02x`, s[i])
	}
	return b.String() + "'"
}

func tick(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`", "$", `\$`).Replace(s) + "`"
}

func (c *composer) quote(s string) string {
	switch c.r.IntN(5) {
	case 0:
		return dq(s)
	case 1:
		if len(s) < 200 {
			return ansi(s)
		}
	}
	return sq(s)
}

func (c *composer) name() string { c.n++; return "v" + strconv.Itoa(c.n) }

// words are ways to write the command itself.
func (c *composer) leaf() string {
	v := c.name()
	forms := []string{
		"canary", `c\anary`, "'can'ary", `"canary" x`, `$'\x63anary'`, "{canary,x}", v + "=canary; $" + v,
		v + "=can; ${" + v + "}ary", "${" + v + ":-canary}", v + "=CANARY; ${" + v + ",,}", "$(echo canary)",
		v + "=(x canary); ${" + v + "[1]}", v + "=xcanary; ${" + v + "#x}", "./bin/canary", "bin/../bin/canary",
		"cp bin/canary " + v + "; ./" + v, "ln -s bin/canary " + v + "; ./" + v, "PATH=$PWD/bin:$PATH canary",
		"command canary", "(exec canary)", "env A=1 canary", "hash -p bin/canary " + v + "; " + v, "set -- canary; $1",
		"read -r " + v + " <<< canary; $" + v, "printf -v " + v + " %s can ary; $" + v, "nice canary", "timeout 2 canary",
		"cd bin && ./canary", "(cd bin; ./canary)", "echo a | xargs canary", "find . -maxdepth 0 -exec canary {} \\;",
		"declare -n " + v + "r=" + v + "; " + v + "=canary; $" + v + "r", v + "=x" + v + "; x" + v + "=canary; ${!" + v + "}",
		"for " + v + " in true canary; do $" + v + "; done", "cat bin/canary > " + v + "; sh " + v, "sh bin/canary", ". bin/canary",
		"sh < bin/canary", "cat bin/canary | sh", "mapfile -t " + v + " <<< canary; ${" + v + "[0]}", "stdbuf -o0 canary",
		v + "=; can${" + v + "}ary", "IFS=:; " + v + "=canary:x; $" + v, "setsid -w canary", "env -S 'canary x'", "nohup canary",
		v + "() { \"$@\"; }; " + v + " canary", v + "() { $1; }; " + v + " canary", "tee " + v + " < bin/canary >/dev/null; sh " + v,
		"echo $((" + v + "[$(canary)0]))", v + "[$(canary)0]=1", "[[ -v " + v + "['$(canary)'] ]]", "b*n/canary", "bin/c?nary",
	}
	return forms[c.r.IntN(len(forms))]
}

// wrap composes s into something that runs it.
func (c *composer) wrap(s string) string {
	q := c.quote(s)
	v := c.name()
	forms := []string{
		"( " + s + "\n)", "{ " + s + "\n}", "if true; then " + s + "\nfi", "if " + s + "\nthen :; fi", "while :; do " + s + "\nbreak; done",
		"until " + s + "\n! false; do :; done", "for i in 1; do " + s + "\ndone", "for ((i=0;i<1;i++)); do " + s + "\ndone",
		"case x in x) " + s + "\n;; esac", "case x in y) :;; *) " + s + "\nesac", v + "() { " + s + "\n}; " + v,
		"function " + v + " { " + s + "\n}; " + v + " a", "eval " + q, "bash -c " + q, "sh -c " + sq("exec bash -c "+sq(s)), "echo " + sq(s) + " | bash",
		"bash <<'E" + v + "'\n" + s + "\nE" + v, "bash <<< " + sq(s), v + "=" + q + "; eval \"$" + v + "\"", "printf '%s\\n' " + sq(s) + " | bash",
		"echo " + sq(s) + " > " + v + "; bash " + v, "cat > " + v + " <<'E" + v + "'\n" + s + "\nE" + v + "\n. ./" + v, ". <(echo " + sq(s) + ")",
		"source /dev/stdin <<< " + q, "echo \"$(" + s + "\n)\"", v + "=" + tick(s), "cat <(" + s + "\n)", "trap " + q + " EXIT", "env bash -c " + q,
		"timeout 5 bash -c " + q, "find . -maxdepth 0 -exec bash -c " + q + " \\;", "echo a | xargs -I{} bash -c " + sq(strings.ReplaceAll(s, "{}", "x")),
		"awk 'BEGIN{system(" + strings.ReplaceAll(`"exec bash -c "`, `"`, `"`) + " \"" + strings.ReplaceAll(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(sq(s)), "'", `'\''`) + "\")}'",
		"set -- " + q + "; eval \"$1\"", "echo " + base64.StdEncoding.EncodeToString([]byte(s)) + " | base64 -d | bash", "command eval " + q,
		"builtin eval " + q, "{ " + s + "\n} & wait", "! { " + s + "\n}", "time { " + s + "\n}", "(exec bash -c " + q + ")", "true && { " + s + "\n}",
		"false || { " + s + "\n}", "true | { " + s + "\n}", "{ " + s + "\n} | cat", "{ " + s + "\n} > /dev/null 2>&1", v + "() { eval \"$1\"; }; " + v + " " + q,
		v + "() { " + s + "\n}; export -f " + v + "; bash -c " + v, v + "=" + sq("$("+s+"\n)") + "; : \"${" + v + "@P}\"",
		"export " + v + "=" + q + "; bash -c 'eval \"$" + v + "\"'", v + "=" + q + " bash -c 'eval \"$" + v + "\"'", "bash -c 'eval \"$1\"' _ " + q,
		"bash -c '\"$@\"' _ bash -c " + q, "shopt -s expand_aliases\nalias " + v + "=" + sq("eval "+sq(s)) + "\n" + v, "coproc { " + s + "\n}; wait",
		"cat <<E" + v + "\n$(" + s + "\n)\nE" + v, "echo ${" + v + ":-$(" + s + "\n)}", "echo $(( 1 + $(" + s + "\necho 1) )) 2>/dev/null",
		"arr=($(" + s + "\n))", "echo a | while read -r l; do " + s + "\ndone", "exec 5<<< " + q + "; bash /dev/fd/5", "bash < <(echo " + sq(s) + ")",
		"echo " + sq(s) + " > >(bash); sleep 0.05", "tee >(bash) <<< " + sq(s) + " > /dev/null; sleep 0.05", "a=(" + q + "); eval \"${a[@]}\"",
		"nice -n 1 bash -c " + q, "env -i PATH=\"$PATH\" bash -c " + q, "bash -s <<< " + q, "bash /dev/stdin <<< " + q, "printf %s " + q + " | tr a a | bash",
		"echo " + sq(s) + " | sed s/zzz/y/ | bash", "xargs -0 bash -c < <(printf '%s\\0' " + sq(s) + ")", "mapfile -C " + sq("eval "+sq(s)+" #") + " -c 1 m <<< a",
		"compgen -C " + sq("eval "+sq(s)+" #") + " x", "BASH_ENV=<(echo " + sq(s) + ") bash -c :", "IFS= read -r -d '' " + v + " <<< " + q + "; eval \"$" + v + "\"",
		"for " + v + " in " + q + "; do eval \"$" + v + "\"; done", v + "+=" + q + "; eval \"$" + v + "\"", "cd . && " + s, "pushd . >/dev/null; " + s,
		"declare " + v + "=" + q + "; eval \"${" + v + "}\"", "printf -v " + v + " %s " + q + "; eval \"$" + v + "\"", "git -c alias.z=" + sq("!eval "+sq(s)+" #") + " z",
	}
	return forms[c.r.IntN(len(forms))]
}

// decoy holds s without running it.
func (c *composer) decoy(s string) string {
	v := c.name()
	forms := []string{"echo " + sq(s), ": " + c.quote(s), v + "=" + c.quote(s), "cat <<'E" + v + "'\n" + s + "\nE" + v, v + "() { " + s + "\n}",
		"if false; then " + s + "\nfi", "printf %s " + sq(s) + " | wc -c", "trap - EXIT", "[[ x == " + sq(s) + " ]]", "echo \"" + "\\$(canary)\"",
		"# canary", "grep -c canary <<< " + sq(s), "cat bin/canary", "ls canary bin 2>/dev/null", "x=canary; echo $x", "echo canary > out.txt"}
	return forms[c.r.IntN(len(forms))]
}

func (c *composer) script() string {
	s := c.leaf()
	switch c.r.IntN(8) {
	case 0:
		s = "echo canary"
	case 1, 2:
		s = c.chain("canary")
	case 3:
		s = c.use()
	case 4:
		s = c.chain("bash -c " + c.quote(s))
	}
	for range 1 + c.r.IntN(3) {
		switch c.r.IntN(10) {
		case 8, 9:
			s = c.carry(s)
		case 0:
			s = c.decoy(s)
		case 1:
			s = c.decoy("canary") + "\n" + s
		case 2:
			s += "\n" + c.decoy(s)
		default:
			s = c.wrap(s)
		}
	}
	return s
}

// playground runs scripts and tells whether canary ran.
type playground struct{ dir, marker string }

func newPlayground(t testing.TB) *playground {
	t.Helper()
	if _, err := osexec.LookPath("bash"); err != nil {
		require.Missing(t, require.Program, "no bash")
	}
	dir, err := os.MkdirTemp("", "bashfuzz")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &playground{dir: dir, marker: filepath.Join(dir, "marker")}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"path"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	prog := "#!/bin/sh\necho ran >> " + p.marker + "\n"
	if err := os.WriteFile(filepath.Join(dir, "path", "canary"), []byte(prog), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// run reports whether canary ran.
func (p *playground) run(t testing.TB, script string) bool {
	t.Helper()
	work, err := os.MkdirTemp(p.dir, "w")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	os.Remove(p.marker)
	prog, _ := os.ReadFile(filepath.Join(p.dir, "path", "canary"))
	os.Mkdir(filepath.Join(work, "bin"), 0o755)
	os.WriteFile(filepath.Join(work, "bin", "canary"), prog, 0o755)
	os.WriteFile(filepath.Join(work, "f.txt"), []byte("!canary\n"), 0o666)
	os.WriteFile(filepath.Join(work, "a"), []byte("a\n"), 0o666)
	os.WriteFile(filepath.Join(work, "f"), []byte("f\n"), 0o666)
	os.WriteFile(p.marker, nil, 0o666)
	os.Chmod(p.marker, 0o666)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := osexec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + filepath.Join(p.dir, "path") + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + work}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 {
		// Nothing that a tool leaves behind outlives its script, and no signal
		// or packet leaves it.
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC
		os.Chown(work, 1000, 1000)
		os.Chown(filepath.Join(work, "bin"), 1000, 1000)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 1000, Gid: 1000}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Run()
	data, _ := os.ReadFile(p.marker)
	return bytes.Contains(data, []byte("ran"))
}

// budget is how long a test with real processes runs, and the seed it draws by:
// BASHFUZZ_SECONDS makes it longer, BASHFUZZ_SEED takes another seed.
func budget(t *testing.T, seconds int) (deadline time.Time, r *rand.Rand) {
	t.Helper()
	if testing.Short() {
		require.Asked(t, "starts many processes")
	}
	seed := uint64(1)
	if s, err := strconv.Atoi(os.Getenv("BASHFUZZ_SECONDS")); err == nil {
		seconds = s
	}
	if s, err := strconv.ParseUint(os.Getenv("BASHFUZZ_SEED"), 10, 64); err == nil {
		seed = s
	}
	return time.Now().Add(time.Duration(seconds) * time.Second), rand.New(rand.NewPCG(seed, seed))
}

// TestAgainstRealBash composes scripts and lets Bash say what runs: nothing that
// starts canary may be allowed.
func TestAgainstRealBash(t *testing.T) {
	deadline, r := budget(t, 15)
	c := &composer{r: r, box: newToolbox(t)}
	judgedByBash(t, c.script, deadline)
}

// TestToolsAgainstRealBash does the same with programs of the tables and
// options that they may or may not have: an option that is said to take a value
// and takes none makes the value a command.
func TestToolsAgainstRealBash(t *testing.T) {
	deadline, r := budget(t, 10)
	c := &composer{r: r, box: newToolbox(t)}
	p := newPlayground(t)
	// Programs of every launcher with every letter as an option, first; then by
	// chance. Starting them together costs a fifth.
	letters := []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
	var queue []string
	for _, s := range c.box.starters {
		for _, l := range letters {
			queue = append(queue, fmt.Sprintf("%s -%c %scanary", s.name, l, strings.Repeat("1 ", s.Skip)))
		}
	}
	r.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	tried := 0
	var batch []string
	for time.Now().Before(deadline) {
		s := c.use()
		if n := len(queue); n > 0 {
			s, queue = queue[n-1], queue[:n-1]
		}
		if v, _ := judge(s); v != "allow" {
			continue
		}
		if batch = append(batch, s); len(batch) < 20 {
			continue
		}
		tried += len(batch)
		if p.run(t, "exec </dev/null >/dev/null 2>&1\n"+strings.Join(batch, "\n")+"\n:") {
			for _, s := range batch {
				if p.run(t, s) {
					t.Errorf("allowed, but canary ran:\n%s\n", s)
				}
			}
		}
		batch = batch[:0]
	}
	t.Logf("%d commands allowed and tried", tried)
	if tried == 0 {
		t.Error("tried nothing")
	}
}

// judgedByBash runs what is allowed, and a tenth of the rest.
func judgedByBash(t *testing.T, next func() string, deadline time.Time) {
	t.Helper()
	p := newPlayground(t)
	if !p.run(t, "canary") || p.run(t, "echo canary") {
		t.Fatal("the playground does not tell whether canary ran")
	}
	scripts, ran := 0, 0
	count := map[string]int{}
	for scripts < 20_000 && time.Now().Before(deadline) {
		s := next()
		if len(s) > 20_000 {
			continue
		}
		scripts++
		verdict, _ := judge(s)
		count[verdict]++
		// Denied scripts prove nothing here: only what is allowed is run.
		if verdict != "allow" && scripts%10 != 0 {
			continue
		}
		start := time.Now()
		if p.run(t, s) {
			ran++
			if verdict == "allow" {
				t.Errorf("allowed, but canary ran:\n%s\n", s)
			}
		}
		if d := time.Since(start); d > time.Second && os.Getenv("BASHFUZZ_SLOW") != "" {
			t.Logf("slow: %v: %s", d, s)
		}
	}
	t.Logf("%d scripts: %d allowed, %d denied, %d asked; canary ran in %d of those tried", scripts, count["allow"], count["deny"], count["ask"], ran)
	if scripts < 20 || count["deny"] == 0 || count["allow"] == 0 {
		t.Errorf("the generator tried too little")
	}
}

// FuzzAgainstRealBash is TestAgainstRealBash with seeds by the fuzzer, for as
// long as it is let run.
func FuzzAgainstRealBash(f *testing.F) {
	if testing.Short() {
		require.Asked(f, "starts many processes")
	}
	for seed := range uint64(4) {
		f.Add(seed)
	}
	box, p := newToolbox(f), newPlayground(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		c := &composer{r: rand.New(rand.NewPCG(seed, seed)), box: box}
		s := c.script()
		if seed%3 == 0 {
			s = c.use()
		}
		if len(s) > 20_000 {
			return
		}
		if v, _ := judge(s); v == "allow" && p.run(t, s) {
			t.Errorf("allowed, but canary ran:\n%s\n", s)
		}
	})
}
