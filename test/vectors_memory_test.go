package test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryFileVectors fill memory by files: by what is in them, and by how many there
// are, of which each takes about a KiB of the kernel's memory that no size counts.
func memoryFileVectors() []vector {
	const shmBytes, shmFiles = 64 * mib, 16384 // what a run may have in /dev/shm
	const tmpBytes = 1024 * mib
	more := func(limit int) func(*scene, result) bool {
		return func(s *scene, r result) bool {
			n, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
			if err != nil {
				return false // it had no place to write to
			}
			s.Logf("%d", n)
			return n > limit
		}
	}
	// Files of the unconfined stage are not those of the confined one.
	place := func(dir string) func(*scene) {
		return func(s *scene) {
			s.Extra["dir"] = dir + "/" + s.Token
			s.Cleanup(func() { os.RemoveAll(s.Extra["dir"]) })
		}
	}
	atEnd := func(n int, err error) error {
		if n > 0 {
			fmt.Println(n)
		}
		if errors.Is(err, unix.ENOSPC) {
			return nil
		}
		return err
	}
	bytes := func(limit int) func(places) error {
		return func(p places) error {
			err := os.Mkdir(p.Extra["dir"], 0o700)
			f, e := os.Create(p.Extra["dir"] + "/f")
			if err = errors.Join(err, e); err != nil {
				return err
			}
			defer f.Close()
			n := 0
			for err == nil && n < limit+64*mib {
				if err = unix.Fallocate(int(f.Fd()), 0, int64(n), 16*mib); err == nil {
					n += 16 * mib
				}
			}
			return atEnd(n, err)
		}
	}
	files := func(limit int) func(places) error {
		return func(p places) error {
			err, n := os.Mkdir(p.Extra["dir"], 0o700), 0
			for err == nil && n < limit+1000 {
				if err = unix.Mknod(p.Extra["dir"]+"/"+strconv.Itoa(n), unix.S_IFREG|0o600, 0); err == nil {
					n++
				}
			}
			return atEnd(n, err)
		}
	}
	honest := func(dir string) func(places) error {
		return func(p places) error {
			if _, err := os.Stat(dir); err != nil {
				return nil // base has none
			}
			for i := range 3 { // what is removed can be used again
				name := dir + "/" + p.Extra["dir"][len(dir)+1:]
				if err := os.WriteFile(name, make([]byte, 40*mib), 0o600); err != nil {
					if errors.Is(err, unix.EACCES) {
						return nil
					}
					return fmt.Errorf("time %d: %w", i, err)
				}
				if err := os.Remove(name); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []vector{
		{name: "limit bytes in shared memory", setup: place("/dev/shm"), attack: bytes(shmBytes), reached: more(shmBytes), honest: honest("/dev/shm")},
		{name: "limit files in shared memory", setup: place("/dev/shm"), attack: files(shmFiles), reached: more(shmFiles), honest: honest("/dev/shm")},
		{name: "limit bytes in the temporary directory", setup: place("/tmp"), attack: bytes(tmpBytes), reached: more(tmpBytes), honest: honest("/tmp")},
	}
}
