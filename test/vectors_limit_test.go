package test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"sandboxd/test/require"
)

const (
	mib       = 1 << 20
	fileLimit = 10 * mib
)

// limitVectors are ways around the limits of one process and of one file. Those
// of a whole tree have tests of their own.
func limitVectors() []vector {
	size := func(*scene) []string { return []string{"--file-size", "10MiB"} }
	large := func(s *scene, _ result) bool {
		st, err := os.Stat(s.Work + "/large")
		return err == nil && st.Size() > fileLimit
	}
	small := func(p places) error { return os.WriteFile(p.Work+"/small", make([]byte, 9*mib), 0o644) }
	return []vector{
		{name: "limit file written", flags: size, reached: large, honest: small, attack: func(p places) error {
			f, err := os.Create(p.Work + "/large")
			for i := 0; err == nil && i < 20; i++ {
				_, err = f.Write(make([]byte, mib))
			}
			return err
		}},
		{name: "limit file sparse", flags: size, reached: large, honest: small, attack: func(p places) error {
			return errors.Join(os.WriteFile(p.Work+"/large", nil, 0o644), os.Truncate(p.Work+"/large", 2*fileLimit))
		}},
		{name: "limit file preallocated", flags: size, reached: large, honest: small, attack: func(p places) error {
			f, err := os.Create(p.Work + "/large")
			if err != nil {
				return err
			}
			return unix.Fallocate(int(f.Fd()), 0, 0, 2*fileLimit)
		}},
		{name: "limit file after raising it", flags: size, reached: large, honest: small, attack: func(p places) error {
			raised := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
			return errors.Join(raised, os.WriteFile(p.Work+"/large", make([]byte, 2*fileLimit), 0o644))
		}},
		// No file system is sure to have quotas that an ordinary user may set.
		{name: "limit many small files", flags: size, honest: small,
			open: []gap{{tier: "full", part: "total of files"}, {tier: "base", part: "total of files"}},
			reached: func(s *scene, _ result) bool {
				files, err := filepath.Glob(s.Work + "/many/*")
				return err == nil && len(files)*mib > fileLimit
			},
			attack: func(p places) error {
				err := os.Mkdir(p.Work+"/many", 0o755)
				for i := 0; err == nil && i < 15; i++ {
					err = os.WriteFile(fmt.Sprintf("%s/many/%d", p.Work, i), make([]byte, mib), 0o644)
				}
				return err
			}},
		{name: "limit descriptors", rootOnly: true, reached: printed("more than 65536"), honest: ordinaryLimits, setup: func(s *scene) {
			var now unix.Rlimit
			s.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &now))
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: now.Cur, Max: max(now.Max, 70_000)}); err != nil {
				require.Missing(s, require.Host, "this host gives at most ", now.Max, " descriptors: ", err)
			}
		}, attack: func(places) error {
			const many = 66000
			raised := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: many + 100, Max: many + 100})
			for i := range many {
				if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
					return errors.Join(raised, fmt.Errorf("descriptor %d: %w", i, err))
				}
			}
			fmt.Println("more than 65536")
			return nil
		}},
		{name: "limit core dump", honest: ordinaryLimits,
			setup: func(s *scene) {
				if s.content("/proc/sys/kernel/core_pattern") != "core\n" {
					require.Missing(s, require.Host, "core files of this host lie elsewhere")
				}
			},
			reached: func(s *scene, _ result) bool {
				files, err := filepath.Glob(s.Work + "/core*")
				return err == nil && len(files) > 0
			},
			attack: func(places) error {
				return osexec.Command("/bin/sh", "-c", "ulimit -c unlimited; kill -SEGV $$").Run()
			}},
		{name: "limit real-time priority", rootOnly: true, reached: printed("policy 1"), honest: ordinaryLimits, attack: func(places) error {
			runtime.LockOSThread()
			priority := int32(1)
			err := call(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&priority)))()
			policy, _, _ := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
			fmt.Println("policy", policy)
			return err
		}},
		{name: "limit negative nice", rootOnly: true, reached: printed("nice -5"), honest: ordinaryLimits, attack: func(places) error {
			runtime.LockOSThread()
			err := unix.Setpriority(unix.PRIO_PROCESS, 0, -5)
			n, err2 := unix.Getpriority(unix.PRIO_PROCESS, 0)
			fmt.Println("nice", 20-n)
			return errors.Join(err, err2)
		}},
		{name: "limit locked memory", rootOnly: true, reached: printed("locked"), honest: ordinaryLimits, attack: func(places) error {
			raised := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 * mib, Max: 64 * mib})
			memory, err := unix.Mmap(-1, 0, 16*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				return err
			}
			if err := unix.Mlock(memory); err != nil {
				return errors.Join(raised, err)
			}
			fmt.Println("locked")
			return nil
		}},
		{name: "limit raised above the hard one", rootOnly: true, reached: printed("raised"), honest: ordinaryLimits, attack: func(places) error {
			for _, resource := range []int{unix.RLIMIT_CORE, unix.RLIMIT_NICE, unix.RLIMIT_RTPRIO, unix.RLIMIT_NOFILE} {
				if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: 100_000, Max: 100_000}); err != nil {
					return fmt.Errorf("limit %d: %w", resource, err)
				}
				fmt.Println("raised", resource)
			}
			return nil
		}},
	}
}

// ordinaryLimits: being nice, a thousand descriptors, a little locked memory,
// limits of its own that are lower.
func ordinaryLimits(places) error {
	for range 900 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
	}
	memory, err := unix.Mmap(-1, 0, 65536, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	// S019: programs that pin themselves or choose a policy work.
	script := "nice -n 5 true && chrt --batch 0 true && taskset 1 true && ulimit -n 512"
	out, script2 := osexec.Command("/bin/sh", "-c", script).CombinedOutput()
	if script2 != nil {
		script2 = fmt.Errorf("%w: %s", script2, strings.TrimSpace(string(out)))
	}
	return errors.Join(unix.Mlock(memory), unix.Setpriority(unix.PRIO_PROCESS, 0, 5), script2)
}
