package test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What players do to use up tasks and memory. Each has a bound of its own, so
// that it hurts nobody where nothing holds it, and stays for a moment, so that
// who samples can see it.

const (
	bombTasks  = 300
	bombBytes  = 1 << 30
	bombStay   = time.Second
	bombZombie = 100_000
)

// bombProcesses starts many programs that live.
func bombProcesses(places) error {
	var err error
	for i := 0; i < bombTasks && err == nil; i++ {
		err = osexec.Command("/bin/sleep", "30").Start()
	}
	time.Sleep(bombStay)
	return err
}

// bombThreads starts many threads. Go ends the program when it gets none.
func bombThreads(places) error {
	for range bombTasks {
		go func() {
			runtime.LockOSThread()
			time := unix.Timespec{Sec: 30}
			unix.Nanosleep(&time, nil)
		}()
	}
	time.Sleep(bombStay)
	return nil
}

// bombZombies leaves children that ended and that nobody waits for.
func bombZombies(p places) error {
	many := bombZombie
	if n, err := strconv.Atoi(p.Extra["zombies"]); err == nil {
		many = n
	}
	for i := range many {
		if err := leaveTask(); err != nil {
			time.Sleep(bombStay)
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	time.Sleep(bombStay)
	return nil
}

// leaveTask makes a child that ends at once and is not waited for.
func leaveTask() error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// bombChain is one process at a time, each the child of the one before, which
// has ended: who lists processes to signal them comes too late.
func bombChain(p places) error {
	unix.Setsid()
	if err := os.WriteFile(p.Work+"/chain", nil, 0o644); err != nil {
		return err
	}
	for {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 || pid != 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
}

// fill touches n bytes a step at a time.
func fill(n int, step func(piece []byte, at int) error) error {
	piece := make([]byte, 4*mib)
	for i := range piece {
		piece[i] = 1
	}
	for at := 0; at < n; at += len(piece) {
		if err := step(piece, at); err != nil {
			return fmt.Errorf("at %d MiB: %w", at/mib, err)
		}
	}
	time.Sleep(bombStay)
	return nil
}

func fillPrivate(n int) error {
	memory, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	return fill(n, func(piece []byte, at int) error { copy(memory[at:], piece); return nil })
}

func bombMemory(places) error { return fillPrivate(bombBytes) }

// bombManyMemories spreads it over processes of which each is small.
func bombManyMemories(p places) error {
	const each = 128 * mib
	if p.Extra["part"] == "small" {
		return fillPrivate(each)
	}
	var all []*osexec.Cmd
	for range bombBytes / each {
		c := osexec.Command("/proc/self/exe", partWord, "memory of many", `{"Extra":{"part":"small"}}`)
		if err := c.Start(); err != nil {
			return err
		}
		all = append(all, c)
	}
	var err error
	for _, c := range all {
		if e := c.Wait(); e != nil {
			err = e
		}
	}
	return err
}

func fillFile(f *os.File, err error) error {
	if err != nil {
		return err
	}
	return fill(bombBytes, func(piece []byte, at int) error { _, err := f.WriteAt(piece, int64(at)); return err })
}

func bombMemoryFile(places) error {
	fd, err := unix.MemfdCreate("bomb", unix.MFD_CLOEXEC)
	return fillFile(os.NewFile(uintptr(fd), "bomb"), err)
}

func bombTemp(places) error { return fillFile(os.Create("/tmp/bomb")) }
func bombSharedFiles(places) error {
	defer os.Remove("/dev/shm/bomb")
	return fillFile(os.Create("/dev/shm/bomb"))
}

// bombSegments fills System V segments, which nobody holds open.
func bombSegments(places) error {
	const each = 64 * mib
	var ids []int
	defer func() {
		for _, id := range ids {
			unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}()
	for range bombBytes / each {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, each, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		ids = append(ids, id)
		memory, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		for i := 0; i < each; i += 4096 {
			memory[i] = 1
		}
		if _, _, errno := unix.Syscall(unix.SYS_SHMDT, uintptr(unsafe.Pointer(&memory[0])), 0, 0); errno != 0 {
			return errno
		}
	}
	time.Sleep(bombStay)
	return nil
}
