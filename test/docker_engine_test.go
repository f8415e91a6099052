package test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// engine is a Docker engine with an image that holds nothing but a static
// busybox and a static sbx.
type engine struct {
	host, image string
}

// newEngine takes the engine of this machine if it answers, else it starts one
// that touches neither the firewall nor the network. It ends with the test.
func newEngine(t *testing.T) engine {
	t.Helper()
	if os.Getuid() != 0 {
		require.Missing(t, require.Docker, "only root can start an engine")
	}
	for _, program := range []string{"docker", "dockerd", "busybox"} {
		if _, err := osexec.LookPath(program); err != nil {
			require.Missing(t, require.Docker, err.Error())
		}
	}
	e := engine{host: "unix:///var/run/docker.sock"}
	if !e.answers() {
		e = startEngine(t)
	}
	e.image = "sandboxd-test:" + fmt.Sprint(os.Getpid())
	e.importImage(t)
	return e
}

func (e engine) answers() bool {
	return osexec.Command("docker", "-H", e.host, "version").Run() == nil
}

func startEngine(t *testing.T) engine {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", runName()+"-docker-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := engine{host: "unix://" + dir + "/socket"}
	log, err := os.Create(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := osexec.Command("dockerd", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none",
		"--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid", "-H", e.host)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		// Asked to end, it ends its containerd too.
		c.Process.Signal(unix.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			c.Process.Kill()
			<-ended
		}
	})
	for deadline := time.Now().Add(time.Minute); !e.answers(); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(dir + "/log")
			require.Missing(t, require.Docker, fmt.Sprintf("the engine ended: %v\n%s", err, text))
		default:
		}
		if time.Now().After(deadline) {
			require.Missing(t, require.Docker, "the engine does not answer within a minute")
		}
	}
	return e
}

func (e engine) importImage(t *testing.T) {
	t.Helper()
	sbx, err := staticSbx()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, d := range []string{"bin", "tmp", "etc", "proc", "v"} {
		must(t, os.Mkdir(root+"/"+d, 0o755))
	}
	for _, d := range []string{"tmp", "v"} { // the engine gives a tmpfs the mode that is here
		must(t, os.Chmod(root+"/"+d, 0o1777))
	}
	busybox, err := osexec.LookPath("busybox")
	must(t, err)
	must(t, errors.Join(copyProgram(busybox, root+"/bin/busybox"), copyProgram(sbx, root+"/bin/sbx")))
	list, err := osexec.Command(busybox, "--list").Output()
	must(t, err)
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			must(t, os.Symlink("busybox", root+"/bin/"+applet))
		}
	}
	tar := osexec.Command("tar", "-C", root, "-c", ".")
	out, err := tar.StdoutPipe()
	must(t, err)
	c := osexec.Command("docker", "-H", e.host, "import", "-", e.image)
	c.Stdin = out
	must(t, tar.Start())
	text, err := c.CombinedOutput()
	must(t, errors.Join(err, tar.Wait()))
	t.Cleanup(func() { osexec.Command("docker", "-H", e.host, "rmi", "-f", e.image).Run() })
	t.Logf("image %s", strings.TrimSpace(string(text)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// staticSbx builds the program that make static does.
var staticSbx = sync.OnceValues(func() (string, error) {
	dir, err := stages()
	if err != nil {
		return "", err
	}
	path := dir + "/bin/sbx-static"
	c := osexec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "urfave_cli_no_docs,netgo,osusergo",
		"-ldflags", `-s -w -linkmode external -extldflags "-static"`, "-o", path, "../cmd/sbx")
	c.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a static sbx: %w\n%s", err, out)
	}
	return path, nil
})

// run starts a container with flags and waits for its end.
func (e engine) run(t *testing.T, flags []string, argv ...string) result {
	t.Helper()
	return e.docker(t, append(append([]string{"run", "--rm", "--network", "none"}, flags...), append([]string{e.image}, argv...)...)...)
}

func (e engine) docker(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	c := osexec.CommandContext(t.Context(), "docker", append([]string{"-H", e.host}, args...)...)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		if _, ok := errors.AsType[*osexec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return result{Code: c.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
}

// box is a container that stays, with a volume of ours at /v.
type box struct {
	engine
	t         *testing.T
	id        string
	volume    string
	user      string
	workspace string
}

// newBox starts one. Its volume has a directory work, which belongs to owner, and
// one out, which user can write.
func (e engine) newBox(t *testing.T, user, owner int) box {
	t.Helper()
	volume := t.TempDir()
	for _, d := range []string{t.TempDir(), volume} {
		must(t, os.Chmod(d, 0o755))
	}
	for dir, uid := range map[string]int{"work": owner, "out": user} {
		must(t, os.Mkdir(volume+"/"+dir, 0o777))
		must(t, os.Chmod(volume+"/"+dir, 0o777))
		must(t, os.Chown(volume+"/"+dir, uid, uid))
	}
	b := box{engine: e, t: t, volume: volume, user: fmt.Sprintf("%d:%d", user, user)}
	r := e.docker(t, "run", "-d", "--network", "none", "-u", b.user, "-v", volume+":/v", "-w", "/v/work", e.image, "sleep", "1000")
	if r.Code != 0 {
		t.Fatalf("no container: %s", r.Stderr)
	}
	b.id = strings.TrimSpace(r.Stdout)
	t.Cleanup(func() { osexec.Command("docker", "-H", e.host, "rm", "-f", b.id).Run() })
	return b
}

// exec runs argv in the container, as its user, in the workspace.
func (b box) exec(env []string, argv ...string) result {
	b.t.Helper()
	args := []string{"exec", "-u", b.user, "-w", "/v/work"}
	for _, v := range env {
		args = append(args, "-e", v)
	}
	return b.docker(b.t, append(append(args, b.id), argv...)...)
}
