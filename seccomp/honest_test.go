package seccomp

import (
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

// honest are the neighbours of the attacks: what must work under the tightest
// filter that can hold them.
var honest = []attempt{
	{name: "chmod 0755 and set-group-id", do: withFile(func(n string) error {
		if err := unix.Chmod(n, 0o755); err != nil {
			return err
		}
		return unix.Chmod(n, 0o2755)
	})},
	{name: "fchmodat", do: withFile(func(n string) error { return call(unix.SYS_FCHMODAT, here, pathArg(n), 0o600) })},
	{name: "open with garbage for an unread mode", do: withFile(func(n string) error {
		return call(unix.SYS_OPENAT, here, pathArg(n), unix.O_RDONLY, 0xffff)
	})},
	{name: "open a directory with garbage for an unread mode", do: func(s stage) error {
		return call(unix.SYS_OPENAT, here, pathArg(s.dir), unix.O_RDONLY|unix.O_DIRECTORY, 0xffff)
	}},
	{name: "O_TMPFILE", do: func(s stage) error {
		return call(unix.SYS_OPENAT, here, pathArg(s.dir), unix.O_TMPFILE|unix.O_WRONLY, 0o644)
	}},
	{name: "FIFO and regular node", do: func(s stage) error {
		if err := unix.Mknodat(unix.AT_FDCWD, s.dir+"/fifo", unix.S_IFIFO|0o644, 0); err != nil {
			return err
		}
		return unix.Mknodat(unix.AT_FDCWD, s.dir+"/plain", 0o644, 0)
	}},
	{name: "window size", do: func(s stage) error {
		_, err := unix.IoctlGetWinsize(s.terminal, unix.TIOCGWINSZ)
		return err
	}},
	{name: "terminal modes", do: func(s stage) error {
		modes, err := unix.IoctlGetTermios(s.terminal, unix.TCGETS)
		if err != nil {
			return err
		}
		return unix.IoctlSetTermios(s.terminal, unix.TCSETS, modes)
	}},
	{name: "controlling terminal", do: func(s stage) error { return unix.IoctlSetInt(s.terminal, unix.TIOCSCTTY, 0) }},
	{name: "new process", do: func(stage) error { return exec.Command("/bin/true").Run() }},
	{name: "fork by clone", do: func(stage) error { return newTask(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) }},
	{name: "unshare descriptors", do: func(stage) error { return unix.Unshare(unix.CLONE_FILES) }},
	{name: "stream pair", do: func(stage) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		return err
	}},
	{name: "seqpacket pair", do: func(stage) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		return err
	}},
	{name: "descriptor passing", do: func(stage) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(1), nil, 0)
	}},
	{name: "TCP", do: socketOf(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP), with: Options{Inet: true}},
	{name: "UDP", do: socketOf(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP), with: Options{Inet: true}},
	{name: "list of interfaces", do: socketOf(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE), with: Options{Inet: true}},
	{name: "UNIX datagram", do: func(s stage) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: s.dir + "/service"})
	}, with: Options{Unix: true}},
	{name: "connect to a UNIX socket and TCP port", do: func(s stage) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrInet4{Port: s.port, Addr: [4]byte{127, 0, 0, 1}})
	}, with: Options{Inet: true}},
	{name: "own limits", do: func(stage) error {
		var limit unix.Rlimit
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
			return err
		}
		return unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil)
	}},
	{name: "own priority and affinity", do: func(stage) error {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 3); err != nil {
			return err
		}
		var cpus unix.CPUSet
		if err := unix.SchedGetaffinity(0, &cpus); err != nil {
			return err
		}
		return unix.SchedSetaffinity(0, &cpus)
	}},
	{name: "limits of another process in an own pid namespace", do: func(s stage) error {
		return unix.Prlimit(s.victim, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	}, with: Options{OwnPID: true}},
	{name: "System V segment in an own IPC namespace", do: func(stage) error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	}, with: Options{OwnIPC: true}},
	{name: "personality asked", do: func(stage) error { return call(unix.SYS_PERSONALITY, 0xffffffff) }},
	{name: "memory file", do: func(stage) error {
		_, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		return err
	}},
	{name: "memory file without execute right", do: func(stage) error {
		_, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
		return err
	}, with: Options{NoExecWrite: true}},
	{name: "thread name", do: func(stage) error { return call(unix.SYS_PRCTL, unix.PR_SET_NAME, pathArg("x")) }},
	// A sandbox inside: its filter installs, and opens nothing.
	{name: "own filter that allows everything", do: func(s stage) error {
		return install(encode([]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}))
	}},
	{name: "Landlock version asked", do: func(stage) error { return call(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) }},
}

// programs are run without a filter and under it, and must print the same. Those
// that are not installed are skipped.
var programs = []struct {
	name, needs, script string
	with                Options
}{
	{"bash job control", "bash", `set -m; (sleep 0.05; echo slept) & wait; jobs; echo a b | tr ' ' '\n' | sort -r; cat <(echo substituted); ulimit -n 100; (ulimit -n)`, Options{}},
	{"coreutils", "bash", `echo x >a; cp -a a b; mv b c; ln -s c d; chmod g+s,u-w c; touch -r a c; mkdir -p e/f; find . | sort; stat -c %A c; nice true; timeout 5 true; truncate -s 1M z; dd if=z of=y bs=64k status=none; rm -rf e z y; mkfifo p; install -m 755 a i; df . >/dev/null; date +%Y >/dev/null`, Options{}},
	{"tar", "tar", `mkdir s; echo 1 >s/1; chmod 2755 s; tar czf s.tgz s; mkdir o; tar xzpf s.tgz -C o; tar tzf s.tgz; stat -c %a o/s`, Options{}},
	{"gcc and make", "make", `printf '#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *a) { return a; }\nint main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts("joined"); }\n' >a.c; printf 'a: a.c\n\tcc -O1 -pthread -o a a.c\n' >Makefile; make -s -j2 && ./a`, Options{}},
	{"git", "git", `export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; git init -q r; cd r; git config user.email a@example.com; git config user.name a; echo 1 >f; git add f; git commit -qm one; git branch b; git worktree add -q ../w b; git gc -q; git clone -q . ../c; git log --format=%s; git fsck`, Options{}},
	{"python", "/usr/bin/python3", `/usr/bin/python3 - <<'E'
import multiprocessing as m, threading, subprocess, asyncio, os, mmap, pty, tempfile
def f(x): return 2 * x
if __name__ == "__main__":
    print(m.get_context("fork").Pool(2).map(f, range(4)))
    t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
    print(subprocess.run(["true"]).returncode)
    async def g():
        p = await asyncio.create_subprocess_exec("true"); return await p.wait()
    print(asyncio.run(g()))
    mmap.mmap(-1, 4096); os.close(os.memfd_create("x")); tempfile.TemporaryFile()
    with tempfile.TemporaryDirectory() as d: pass
E`, Options{}},
	{"python server and client", "/usr/bin/python3", `/usr/bin/python3 - <<'E'
import asyncio
async def main():
    async def serve(r, w): w.write(await r.readline()); w.close()
    s = await asyncio.start_server(serve, "localhost", 0)
    r, w = await asyncio.open_connection("localhost", s.sockets[0].getsockname()[1])
    w.write(b"hello\n"); print(await r.readline()); w.close(); s.close()
asyncio.run(main())
E`, Options{Inet: true}},
	{"node", "node", `node -e 'const {Worker}=require("worker_threads"),fs=require("fs"),cp=require("child_process"); fs.writeFileSync("a","x"); fs.copyFileSync("a","b"); console.log(cp.execSync("echo child").toString(), WebAssembly.validate(new Uint8Array([0,97,115,109,1,0,0,0]))); new Worker("console.log(1)",{eval:true})'`, Options{}},
	{"sqlite", "sqlite3", `sqlite3 db 'pragma journal_mode=wal; create table t(a); insert into t values(7); select a from t; vacuum;'`, Options{}},
	{"ssh-agent", "ssh-agent", `eval $(ssh-agent -a $PWD/agent) >/dev/null; ssh-add -l; ssh-agent -k >/dev/null`, Options{Unix: true}},
	{"postgres", "initdb", `test $(id -u) = 0 && exit; initdb -N -D d >/dev/null 2>&1 && echo 'select 6 * 7;' | postgres --single -D d postgres 2>/dev/null | grep -c 42`, Options{OwnIPC: true, Unix: true}},
	{"java", "java", `java -XX:TieredStopAtLevel=1 -version 2>&1 | head -1`, Options{}},
}

func TestOrdinaryProgramsWork(t *testing.T) {
	requireSeccomp(t)
	for _, uid := range users() {
		for _, p := range programs {
			t.Run(p.name+" as "+strconv.Itoa(uid), func(t *testing.T) {
				shell, err := exec.LookPath("bash")
				if err != nil {
					require.Missing(t, require.Program, err)
				}
				if _, err := exec.LookPath(p.needs); err != nil {
					require.Missing(t, require.Program, err)
				}
				run := func(f Filter) string {
					s := newStage(t, uid)
					cmd := child(t, "exec:"+shell, f, uid, s, nil, "-c", p.script)
					cmd.Args = append([]string{"sh", "bash"}, cmd.Args[1:]...)
					cmd.Env = append(cmd.Env, "HOME="+s.dir, "LC_ALL=C", "TMPDIR="+s.dir)
					out, err := cmd.CombinedOutput()
					if err != nil {
						out = append(out, err.Error()...)
					}
					return string(out)
				}
				free, confined := run(Filter{}), run(compile(t, "default", runtime.GOARCH, p.with))
				if free != confined {
					t.Errorf("without a filter:\n%s\nunder it:\n%s", free, confined)
				}
			})
		}
	}
}

// TestDebuggerNeedsDebugProfile: tracing works under "debug" and not under
// "default".
func TestDebuggerNeedsDebugProfile(t *testing.T) {
	requireSeccomp(t)
	strace, err := exec.LookPath("strace")
	if err != nil {
		require.Missing(t, require.Program, err)
	}
	for profile, works := range map[string]bool{"default": false, "debug": true} {
		for _, uid := range users() {
			cmd := child(t, "exec:"+strace, compile(t, profile, runtime.GOARCH, Options{}), uid, newStage(t, uid), nil,
				"strace", "-f", "-o", "trace", "/bin/true")
			if out, err := cmd.CombinedOutput(); (err == nil) != works {
				t.Errorf("%s as %d: %v, want success %v: %s", profile, uid, err, works, out)
			}
		}
	}
}
