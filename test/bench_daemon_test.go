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
		err = errors.Join(g.commands(100), g.roundTrips(1000), g.callsAtOnce(1, 100), g.callsAtOnce(8, 200), g.callsAtOnce(64, 400))
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
	if err == nil && answer.StatusCode != 200 {
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
