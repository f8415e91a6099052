package test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The users of a container and the owners of what is mounted into it.
var dockerUsers = []struct{ user, owner int }{{0, 0}, {1000, 1000}, {0, 1000}, {0, 1001}}

// TestDocker runs in a container under the engine's default profile, which
// refuses namespaces and leaves the base tier.
func TestDocker(t *testing.T) {
	e := newEngine(t)
	for _, u := range dockerUsers {
		t.Run(fmt.Sprintf("uid%d-owner%d", u.user, u.owner), func(t *testing.T) {
			b := e.newBox(t, u.user, u.owner)
			t.Run("works", func(t *testing.T) { b.with(t).works(u.owner) })
			t.Run("statuses", func(t *testing.T) { b.with(t).statuses() })
			t.Run("deadline", func(t *testing.T) { b.with(t).deadline() })
			for _, v := range dockerVectors() {
				t.Run(strings.ReplaceAll(v.name, " ", "-"), func(t *testing.T) { b.with(t).vector(v) })
			}
		})
	}
	t.Run("first process", func(t *testing.T) { dockerFirst(t, e) })
	t.Run("hardened", func(t *testing.T) { dockerHardened(t, e) })
	// S015: namespaces fail in a container, and the rest works and is named. That
	// commands run there is tested above.
	t.Run("case S015 doctor", func(t *testing.T) { dockerDoctor(t, e) })
}

func (b box) with(t *testing.T) box { b.t = t; return b }

// works: a run writes its workspace, as the owner, and says what held it.
func (b box) works(owner int) {
	r := b.exec(nil, "sbx", "run", "--json", "--", "sh", "-c", "id -u; echo made >file; cat file; echo to stderr >&2")
	var got report
	if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
		b.t.Fatalf("%v: %+v", err, r)
	}
	if want := fmt.Sprintf("%d\nmade\n", owner); r.Code != 0 || got.Stdout.Text != want || got.Stderr.Text != "to stderr\n" || got.Outcome != "exited" {
		b.t.Errorf("exit %d, outcome %s, stdout %q, stderr %q; want %q", r.Code, got.Outcome, got.Stdout.Text, got.Stderr.Text, want)
	}
	if got.Enforced.Tier != "base" || len(got.Enforced.Missing) != 0 {
		b.t.Errorf("tier %q, missing %v", got.Enforced.Tier, got.Enforced.Missing)
	}
	for _, g := range got.Enforced.Weakened {
		if g.Part == "end of the tree" {
			b.t.Errorf("weakened: %+v, and signals can be scoped here", g)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.volume, "work", "file"))
	if err != nil || string(text) != "made\n" {
		b.t.Errorf("outside the file holds %q, %v", text, err)
	}
}

func (b box) statuses() {
	must(b.t, os.WriteFile(filepath.Join(b.volume, "work", "plain"), []byte("no program\n"), 0o644))
	for _, tt := range []struct {
		want int
		args []string
	}{
		{0, []string{"--", "true"}},
		{7, []string{"--", "sh", "-c", "exit 7"}},
		{137, []string{"--", "sh", "-c", "kill -9 $$"}},
		{124, []string{"--timeout", "200ms", "--", "sleep", "30"}},
		{125, []string{"--no-such-flag", "--", "true"}},
		{125, []string{"--tier", "full", "--", "true"}},
		{125, []string{"--deny", "/v/work/plain", "--", "true"}},
		{126, []string{"--", "/v/work/plain"}},
		{127, []string{"--", "no-such-program"}},
	} {
		r := b.exec(nil, append([]string{"sbx", "run"}, tt.args...)...)
		if r.Code != tt.want {
			b.t.Errorf("sbx run %q exits %d, want %d: %s", tt.args, r.Code, tt.want, r.Stderr)
		}
		if tt.want != 0 && tt.want != 7 && !strings.Contains(r.Stderr, "sbx: ") {
			b.t.Errorf("sbx run %q says nothing", tt.args)
		}
	}
}

// deadline: what detached itself and ignores signals ends too, seen from outside
// by a file that stops growing.
func (b box) deadline() {
	beat := filepath.Join(b.volume, "work", "beat")
	const loop = `trap "" TERM HUP INT; while :; do echo x >>beat; sleep 0.05; done`
	script := `setsid sh -c '` + loop + `' & (sh -c '` + loop + `' &); sleep 60`
	r := b.exec(nil, "sbx", "run", "-q", "--timeout", "700ms", "--", "sh", "-c", script)
	if r.Code != 124 {
		b.t.Errorf("exit %d, want 124: %s", r.Code, r.Stderr)
	}
	before, err := os.Stat(beat)
	must(b.t, err)
	time.Sleep(300 * time.Millisecond)
	after, err := os.Stat(beat)
	must(b.t, err)
	if before.Size() != after.Size() || before.Size() == 0 {
		b.t.Errorf("the file grew from %d to %d bytes after the end", before.Size(), after.Size())
	}
}

// dockerVector is a way out of a run in a container. The scripts are played in
// the container, by busybox; judged is what they left in the volume.
type dockerVector struct {
	name string
	// before runs unconfined, beside the run.
	before string
	attack string
	// after runs unconfined; what it prints is judged too.
	after   string
	reached func(out, printed, token string) bool
	honest  string
}

func dockerVectors() []dockerVector {
	holds := func(name, text string) func(string, string, string) bool {
		return func(out, _, _ string) bool {
			got, err := os.ReadFile(out + "/" + name)
			return err == nil && strings.Contains(string(got), text)
		}
	}
	gone := func(name string) func(string, string, string) bool {
		return func(out, _, _ string) bool { return !exists(out + "/" + name) }
	}
	there := func(name string) func(string, string, string) bool {
		return func(out, _, _ string) bool { return exists(out + "/" + name) }
	}
	leaks := func(_, printed, token string) bool { return strings.Contains(printed, token) }
	const aFile = "echo $TOKEN >$OUT/file; chmod 666 $OUT/file"
	return []dockerVector{
		{name: "write beside", attack: "echo mark >$OUT/new", reached: holds("new", "mark"), honest: "echo mark >new"},
		{name: "append beside", before: aFile, attack: "echo mark >>$OUT/file", reached: holds("file", "mark"), honest: "echo a >f; echo b >>f"},
		{name: "truncate beside", before: aFile, attack: "truncate -s 0 $OUT/file", honest: "echo a >f; truncate -s 0 f",
			reached: func(out, _, token string) bool { return !holds("file", token)(out, "", "") }},
		{name: "write through a link", before: aFile, attack: "ln -s $OUT/file link; echo mark >>link", reached: holds("file", "mark"), honest: "echo a >f; ln -s f l; echo b >>l"},
		{name: "write through a hard link", before: aFile, attack: "ln $OUT/file hard && echo mark >>hard", reached: holds("file", "mark"), honest: "echo a >f; ln f g; echo b >>g"},
		{name: "remove beside", before: aFile, attack: "rm -f $OUT/file", reached: gone("file"), honest: "echo a >f; rm f; test ! -e f"},
		{name: "move away", before: aFile, attack: "mv $OUT/file $OUT/moved", reached: there("moved"), honest: "echo a >f; mv f g; cat g"},
		{name: "move out", attack: "echo mark >f; mv f $OUT/moved", reached: holds("moved", "mark"), honest: "mkdir d; echo a >f; mv f d/"},
		{name: "make a directory", attack: "mkdir $OUT/dir", reached: there("dir"), honest: "mkdir dir"},
		{name: "make a pipe", attack: "mkfifo $OUT/pipe", reached: there("pipe"), honest: "mkfifo pipe"},
		{name: "read beside", before: aFile, attack: "cat $OUT/file", reached: leaks, honest: "echo a >f; cat f"},
		{name: "list beside", before: "touch $OUT/name-$TOKEN", attack: "ls $OUT", reached: leaks, honest: "ls ."},
		{name: "run a program beside", before: `printf '#!/bin/sh\necho %s\n' $TOKEN >$OUT/program; chmod 755 $OUT/program`,
			attack: "$OUT/program", reached: leaks, honest: "cp /bin/busybox ./true; ./true"},
		{name: "read another environment", before: "SECRET=$TOKEN sleep 20 >/dev/null 2>&1 & echo $! >victim; sleep 0.1",
			attack: "cat /proc/$(cat victim)/environ", reached: leaks, honest: "cat /proc/self/environ"},
		{name: "kill another process", before: "sleep 21.5 >/dev/null 2>&1 & echo $! >victim",
			attack: "kill -9 $(cat victim)", after: "sleep 0.2; grep -q ^State:.[RSD] /proc/$(cat victim)/status || touch $OUT/dead",
			reached: there("dead"), honest: "sleep 21 >/dev/null 2>&1 & kill -9 $!"},
		{name: "kill everything", before: `sh -c 'trap "touch $OUT/dead; exit" TERM; touch $OUT/ready; while :; do sleep 0.1; done' >/dev/null 2>&1 & for i in $(seq 100); do [ -e $OUT/ready ] && break; sleep 0.05; done`,
			attack: "trap '' TERM; kill -TERM -1; sleep 0.3", reached: there("dead"), honest: "sh -c 'sleep 21 & kill -TERM $!; wait'; true"},
		{name: "connect", before: "nc -l -p $PORT >$OUT/heard 2>/dev/null & for i in $(seq 100); do grep -qi \":$(printf %04x $PORT) 00000000:0000 0A\" /proc/net/tcp && break; sleep 0.05; done", attack: "echo mark | nc -w 1 127.0.0.1 $PORT",
			after: "for i in $(seq 20); do [ -s $OUT/heard ] && break; sleep 0.1; done", reached: holds("heard", "mark"), honest: "echo mark | cat"},
		{name: "stay behind", attack: "setsid sh -c 'sleep 0.7; echo mark >late' >/dev/null 2>&1 & sleep 0.1", after: "sleep 1.2; cp late $OUT/late",
			reached: holds("late", "mark"), honest: "setsid sh -c 'echo mark >soon'; sleep 0.1; cat soon"},
	}
}

// vector plays v without confinement, where it must have its effect, confined,
// where it must not, and its honest neighbour.
func (b box) vector(v dockerVector) {
	const confined = "sbx run -q --timeout 10s --workspace $WORK --env OUT --env PORT -- sh -c"
	for i, how := range []struct{ name, run, script string }{
		{"unconfined", "sh -c", v.attack}, {"confined", confined, v.attack}, {"honest", confined, v.honest},
	} {
		token := "token-" + rand.Text()
		name := fmt.Sprintf("%s-%d", strings.ReplaceAll(v.name, " ", "-"), i)
		for _, d := range []string{"work", "out"} {
			b.copyOwner(b.volume+"/"+d, filepath.Join(b.volume, d, name))
		}
		env := []string{"TOKEN=" + token, "WORK=/v/work/" + name, "OUT=/v/out/" + name, fmt.Sprintf("PORT=%d", 20000+i), "SCRIPT=" + how.script}
		// The attack knows where to go, not the token.
		script := "cd $WORK\n" + v.before + "\nunset TOKEN\n" + how.run + " \"$SCRIPT\"\nstatus=$?\n" + v.after + "\nexit $status"
		r := b.exec(env, "sh", "-c", script)
		if how.name == "honest" {
			if r.Code != 0 {
				b.t.Errorf("the honest neighbour exits %d: %s%s", r.Code, r.Stdout, r.Stderr)
			}
			continue
		}
		got := v.reached(filepath.Join(b.volume, "out", name), r.Stdout+r.Stderr, token)
		if want := how.name == "unconfined"; got != want {
			b.t.Errorf("%s: reached %v, want %v: exit %d, %s%s", how.name, got, want, r.Code, r.Stdout, r.Stderr)
		}
		if how.name == "confined" && r.Code == 125 {
			b.t.Errorf("nothing ran: %s", r.Stderr)
		}
	}
}

// copyOwner makes a directory with the owner of another one.
func (b box) copyOwner(like, dir string) {
	b.t.Helper()
	uid, gid := ownerOf(b.t, like)
	must(b.t, os.Mkdir(dir, 0o777))
	must(b.t, os.Chmod(dir, 0o777))
	must(b.t, os.Chown(dir, uid, gid))
}
