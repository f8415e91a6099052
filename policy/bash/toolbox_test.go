package bash_test

import (
	osexec "os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sandboxd/policy/bash"
)

// toolbox is what the generator draws from: the launchers and carriers of
// testdata, and the rows of the tables, as far as their programs are installed.
type toolbox struct {
	// prefixes start the command after them; inner ones are programs, which may
	// also stand behind another prefix.
	prefixes, inner []string
	// carriers hand CODE or WORD to something that runs it.
	carriers []string
	// tools are the programs of the tables; starters those that are launchers.
	tools, starters []tool
}

type tool struct {
	bash.Tool
	name string
}

// unfit are programs that wait for their end, need a terminal, or look at all
// processes and disks: they cost seconds and say nothing here.
var unfit = strings.Fields(`watch top htop yes sleep usleep tmux mtr ping ping6 vmstat iostat mpstat dmesg pkexec systemd-run start-stop-daemon
	valgrind xvfb-run npx npm node cargo go rustc java javac gcc g++ c++ cc docker tail write wall git-shell perf mesg telnet ldd apt-get
	gcloud gsutil mvn jshell cpan yq invoke vim vimdiff rvim view vi vim.basic vim.tiny su ipython jupyter aws gradle R Rscript julia
	apt pip pip3 man whatis apropos lsof fuser x86_64 uclampset dbus-run-session lsns lsblk lsmod lspci lsusb hyperfine ssh-agent`)

func newToolbox(t testing.TB) *toolbox {
	t.Helper()
	b := &toolbox{}
	installed := map[string]bool{}
	has := func(name string) bool {
		ok, seen := installed[name]
		if !seen {
			_, err := osexec.LookPath(name)
			ok = err == nil
			installed[name] = ok
		}
		return ok
	}
	shell := strings.Fields("command exec builtin eval coproc ! true false ls A=1 >out 2>&1 </dev/null {fd}>x if time")
	for _, l := range lines(t, "launchers.txt") {
		first, _, _ := strings.Cut(l, " ")
		switch {
		case slices.Contains(shell, first):
			b.prefixes = append(b.prefixes, l)
		case has(first) && !slices.Contains(unfit, first):
			b.prefixes = append(b.prefixes, l)
			if !strings.ContainsAny(l, "|") {
				b.inner = append(b.inner, l)
			}
		}
	}
	for _, l := range lines(t, "carriers.txt") {
		if !strings.ContainsAny(l, "~") && !slices.ContainsFunc(unfit, func(u string) bool { return slices.Contains(strings.Fields(l), u) }) {
			b.carriers = append(b.carriers, l)
		}
	}
	for _, p := range bash.Tools() {
		for _, n := range p.Names {
			if has(n) && !slices.Contains(unfit, n) {
				b.tools = append(b.tools, tool{p, n})
				if p.Launches {
					b.starters = append(b.starters, tool{p, n})
				}
			}
		}
	}
	return b
}

// chain puts one to three launchers before a command that is a program.
func (c *composer) chain(cmd string) string {
	for range c.r.IntN(3) {
		cmd = finish(c.box.inner[c.r.IntN(len(c.box.inner))], cmd)
	}
	return finish(c.box.prefixes[c.r.IntN(len(c.box.prefixes))], cmd)
}

var simpleCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z ./-]+$`) })

// carry hands s to one of the carriers, as it is or in a file.
func (c *composer) carry(s string) string {
	l := c.box.carriers[c.r.IntN(len(c.box.carriers))]
	nested := strings.Contains(l, `"'CODE'"`) || strings.Contains(l, `"CODE`)
	inFile := strings.Contains(l, "WORD") || c.r.IntN(3) == 0 || nested && !simpleCode().MatchString(s)
	if !inFile {
		q := sq(s)
		if nested {
			q = s
			if strings.Contains(l, `"'CODE'"`) {
				q = sq(s)
			}
		}
		return strings.ReplaceAll(strings.ReplaceAll(l, "'CODE'", "CODE"), "CODE", q)
	}
	v := c.name()
	pre := "cat > " + v + " <<'E" + v + "'\n#!/bin/bash\n" + s + "\nE" + v + "\nchmod +x " + v + "\n"
	return pre + strings.NewReplacer("'CODE'", "./"+v, "CODE", "./"+v, "WORD", "./"+v).Replace(l)
}

// values are what an option may be given: the command, its file, files, numbers
// and words.
var values = strings.Fields("canary ./bin/canary bin/canary 1 3 0 x a d - f.txt 0x1 root :canary sh bash %s , s:canary exec=canary !canary")

// options writes options for a tool: those of its row, and any letter.
func (c *composer) options(t *tool, values []string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	var b strings.Builder
	for range c.r.IntN(4) {
		b.WriteByte(' ')
		v := values[c.r.IntN(len(values))]
		set := letters
		if t.Flags != "" && c.r.IntN(3) > 0 {
			set = t.Flags
		}
		o := set[c.r.IntN(len(set))]
		if strings.IndexByte("#~?$@;:'\"\\", o) >= 0 {
			o = 'x'
		}
		switch c.r.IntN(7) {
		case 0:
			b.WriteString("-" + string(o) + v)
		case 1, 2:
			b.WriteString("-" + string(o) + " " + v)
		case 3:
			if len(t.Long) > 0 {
				n, a, _ := strings.Cut(t.Long[c.r.IntN(len(t.Long))], "=")
				if a == "" && !strings.HasSuffix(n, "=") && c.r.IntN(2) == 0 {
					b.WriteString("--" + n)
				} else if c.r.IntN(2) == 0 {
					b.WriteString("--" + n + "=" + v)
				} else {
					b.WriteString("--" + n + " " + v)
				}
				continue
			}
			b.WriteString("--")
		default:
			b.WriteString("-" + string(o))
		}
	}
	return b.String()
}

// use writes a command line for a program of the tables with the command in one
// of the places from which it might be started.
func (c *composer) use() string {
	list := c.box.tools
	if c.r.IntN(2) == 0 {
		list = c.box.starters
	}
	t := &list[c.r.IntN(len(list))]
	s := t.name + c.options(t, values)
	for range t.Skip {
		s += " " + values[c.r.IntN(len(values))]
	}
	switch c.r.IntN(9) {
	case 0:
		s += " a"
	case 1:
		s += " -- canary"
	case 2:
		s += " ./bin/canary a"
	case 3:
		s = "echo canary | " + s
	case 4:
		s += " <<< '!canary'"
	case 5:
		s += " a canary"
	case 6:
		s += " 'canary a'"
	case 7:
		s += " f.txt"
	default:
		s += " canary"
	}
	return s
}

// named lists the programs of the requirements: launchers, interpreters, programs
// that can start others, and writers.
const named = `env timeout nice nohup time stdbuf setsid ionice taskset chrt flock watch xargs find parallel sudo su doas
	chroot unshare nsenter strace gdb script busybox sh bash dash zsh ssh git tar rsync zip sort split rg fd less man awk sed ed vim make
	python perl node sbx sandboxd tee dd cp mv ln install touch mkdir rm truncate uniq file ls cat head tail grep wc echo pwd cut tr jq diff
	stat du df printenv which basename dirname realpath readlink date sleep true false curl wget scp sftp nc socat tmux screen gawk mawk
	python3 ruby php lua npm npx cargo go gcc docker kubectl pip shred mkfifo chmod chown patch
	dc bc mail ftp telnet lftp psql sqlite3 mysql gnuplot octave R Rscript m4`

// TestTablesHoldEveryProgram: the programs named in the requirements.
func TestTablesHoldEveryProgram(t *testing.T) {
	for _, n := range strings.Fields(named) {
		a := bash.Analyze("/bin/"+n+" x", bash.Options{})
		if len(a.Commands) == 0 || !a.Commands[0].InTable {
			t.Errorf("%s is in no table", n)
		}
	}
	for _, n := range strings.Fields("command builtin exec eval trap source . mapfile printf declare read unset wait compgen enable hash cd pushd test [") {
		if a := bash.Analyze(n+" x", bash.Options{}); len(a.Commands) == 0 || a.Commands[0].Kind != bash.Builtin {
			t.Errorf("%s is not known as a builtin", n)
		}
	}
}

// TestGeneratorDrawsFromTheTables: what is named and installed, and does not
// wait for a person, is tried with real Bash.
func TestGeneratorDrawsFromTheTables(t *testing.T) {
	b := newToolbox(t)
	for _, n := range strings.Fields(named) {
		if _, err := osexec.LookPath(n); err != nil || slices.Contains(unfit, n) {
			continue
		}
		if !slices.ContainsFunc(b.tools, func(x tool) bool { return x.name == n }) {
			t.Errorf("%s is not drawn", n)
		}
	}
	for _, n := range strings.Fields("env timeout nice nohup stdbuf setsid ionice taskset chrt flock xargs find strace command exec builtin") {
		if !slices.ContainsFunc(b.prefixes, func(l string) bool { return l == n || strings.HasPrefix(l, n+" ") }) {
			if _, err := osexec.LookPath(n); err == nil {
				t.Errorf("no prefix of %s is drawn", n)
			}
		}
	}
}
