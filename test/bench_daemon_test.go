package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkDaemon prints what a call through the daemon costs, taking turns with
// its peers: sbx exec against sbx run, one request against bare HTTP over a UNIX
// socket, and calls per second at 1, 8 and 64 at once. Run it with -benchtime 1x.
func BenchmarkDaemon(b *testing.B) {
	for b.Loop() {
		g, err := newDaemonGround()
		if err != nil {
			b.Fatal(err)
		}
		err = errors.Join(g.commands(100), g.roundTrips(1000), g.callsAtOnce(1, 100), g.callsAtOnce(8, 200), g.callsAtOnce(64, 400), g.noisy(200, 20<<20))
		g.end()
		if err != nil {
			b.Fatal(err)
		}
	}
}

// daemonGround is a daemon with a workspace, and a bare HTTP server beside it.
type daemonGround struct {
	dir, work, socket, bare string
	daemon                  *osexec.Cmd
	plain                   *osexec.Cmd
	log                     bytes.Buffer
}

func newDaemonGround() (*daemonGround, error) {
	all, err := stages()
	if err != nil {
		return nil, err
	}
	program, err := daemonProgram()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(all, "bench-")
	if err != nil {
		return nil, err
	}
	g := &daemonGround{dir: dir, work: dir + "/work", socket: dir + "/s.sock", bare: dir + "/bare.sock"}
	if err := errors.Join(os.Mkdir(g.work, 0o755), os.Mkdir(dir+"/state", 0o700), os.Mkdir(dir+"/home", 0o755)); err != nil {
		return nil, err
	}
	g.daemon = osexec.Command(program, "--socket", g.socket, "--state", dir+"/state", "--log-level", "warn", "--max-running-per-uid", "64")
	g.daemon.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir + "/home"}
	g.daemon.Stderr = &g.log
	if err := g.daemon.Start(); err != nil {
		return nil, err
	}
	// A process of its own, as the daemon is: a switch of processes is most of it.
	g.plain = osexec.Command("/proc/self/exe", partWord, "bare HTTP", fmt.Sprintf(`{"Extra":{"socket":%q}}`, g.bare))
	if err := g.plain.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		_, errDaemon := unixRequest(g.socket, "GET", "/api/health", "")
		if _, err := unixRequest(g.bare, "GET", "/", ""); errors.Join(err, errDaemon) == nil {
			return g, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	g.end()
	return nil, fmt.Errorf("the daemon does not serve: %s", &g.log)
}

func (g *daemonGround) end() {
	g.daemon.Process.Kill()
	g.daemon.Wait()
	if g.plain != nil && g.plain.Process != nil {
		g.plain.Process.Kill()
		g.plain.Wait()
	}
	os.RemoveAll(g.dir)
}

// serveBare is the part of the bare HTTP server: the least that net/http does.
func serveBare(p places) error {
	l, err := net.Listen("unix", p.Extra["socket"])
	if err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"status":"ok"}`+"\n")
	}))
}

// unixRequest sends one request over a connection of its own.
func unixRequest(socket, method, path, body string) (string, error) {
	t := &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}
	r, err := http.NewRequest(method, "http://localhost"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := t.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

// inTurns measures the contenders one after the other, n times, and prints medians.
func inTurns(title string, n int, names []string, run ...func() error) error {
	times := make([][]time.Duration, len(run))
	for range n {
		for i, f := range run {
			start := time.Now()
			if err := f(); err != nil {
				return fmt.Errorf("%s: %s: %w", title, names[i], err)
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	fmt.Fprintf(os.Stderr, "%s (%d turns)\n", title, n)
	for i := range times {
		slices.Sort(times[i])
	}
	for i, name := range names {
		fmt.Fprintf(os.Stderr, "  %-28s %8.3f ms  %5.2f\n", name, float64(times[i][n/2].Microseconds())/1000,
			float64(times[i][n/2])/float64(times[0][n/2]))
	}
	return nil
}

func (g *daemonGround) sbx(args ...string) func() error {
	return func() error {
		c := osexec.Command(filepath.Join(filepath.Dir(g.dir), "bin/sbx"), args...)
		c.Dir = g.work
		c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + g.dir + "/home", "SANDBOXD_SOCKET=" + g.socket}
		return c.Run()
	}
}

func (g *daemonGround) commands(n int) error {
	return inTurns("start and end of /bin/true", n, []string{"sbx run", "sbx exec", "sbx version (a start alone)"},
		g.sbx("run", "--", "/bin/true"), g.sbx("exec", "--", "/bin/true"), g.sbx("version"))
}

func (g *daemonGround) roundTrips(n int) error {
	get := func(socket string) func() error {
		return func() error { _, err := unixRequest(socket, "GET", "/api/health", ""); return err }
	}
	return inTurns("a request with its connection", n, []string{"bare HTTP", "daemon", "bare HTTP again"}, get(g.bare), get(g.socket), get(g.bare))
}

// noisy runs n commands at once that print so many bytes each, and prints what memory
// the daemon had at most: the output is kept in part, in files up to the user's bound.
func (g *daemonGround) noisy(n int, bytes int) error {
	body, err := json.Marshal(map[string]any{"argv": []string{"head", "-c", fmt.Sprint(bytes), "/dev/zero"}, "cwd": g.work, "env": []string{"PATH=/usr/bin:/bin", "HOME=" + g.dir + "/home"}})
	if err != nil {
		return err
	}
	before, err := g.resident("VmRSS:")
	if err != nil {
		return err
	}
	errs := make([]error, n)
	var callers sync.WaitGroup
	start := time.Now()
	for i := range n {
		callers.Go(func() {
			text, err := unixRequest(g.socket, "POST", "/api/exec", string(body))
			if errs[i] = err; err == nil && !strings.Contains(text, fmt.Sprintf(`"bytes":%d`, bytes)) {
				errs[i] = fmt.Errorf("a noisy command: %s", text[:min(len(text), 300)])
			}
		})
	}
	callers.Wait()
	took := time.Since(start)
	most, err := g.resident("VmHWM:")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d noisy commands at once, %d MiB each: %.1f s, %.0f MiB/s; the daemon has %d MiB before, %d MiB at most\n",
		n, bytes>>20, took.Seconds(), float64(n)*float64(bytes>>20)/took.Seconds(), before>>10, most>>10)
	return errors.Join(errs...)
}

// resident is a line of the daemon's status, in KiB.
func (g *daemonGround) resident(name string) (kib int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.daemon.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), name)
	_, err = fmt.Sscan(rest, &kib)
	return kib, err
}

// callsAtOnce runs total calls of /bin/true, n at once.
func (g *daemonGround) callsAtOnce(n, total int) error {
	body, err := json.Marshal(map[string]any{"argv": []string{"/bin/true"}, "cwd": g.work, "env": []string{"PATH=/usr/bin:/bin", "HOME=" + g.dir + "/home"}})
	if err != nil {
		return err
	}
	var left atomic.Int64
	left.Store(int64(total))
	errs := make([]error, n)
	var workers sync.WaitGroup
	start := time.Now()
	for i := range n {
		workers.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				_, errs[i] = unixRequest(g.socket, "POST", "/api/exec", string(body))
			}
		})
	}
	workers.Wait()
	fmt.Fprintf(os.Stderr, "%d at once: %.0f calls a second\n", n, float64(total)/time.Since(start).Seconds())
	return errors.Join(errs...)
}
