package test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A run of these tests has two directories: one of all stages and programs, and one
// that is TMPDIR. The process that waits outside of the private namespace makes them
// and removes them, however the tests end; what an orderly end left in them, or
// beside them under their name, is told and fails the run. A run that was killed
// with that process leaves them to the next run.
const (
	stagePrefix    = "sandboxd-test-"
	stagesVariable = "SANDBOXD_TEST_STAGES"
	// stageLock is held as long as the run lives. A directory without it is not ours.
	stageLock = ".lock"
)

// sharedTemps are where tests make things that others must find.
var sharedTemps = []string{"/tmp", "/var/tmp", "/dev/shm"}

// runPlaces are the directories of one run.
type runPlaces struct {
	stages, temp string
	lock         *os.File
	// homeless are places that the product makes for a user without a home, and
	// that were not there before.
	homeless []string
}

// newRunPlaces also removes what runs that were killed have left.
func newRunPlaces() (r runPlaces, err error) {
	old, _ := filepath.Glob("/var/tmp/" + stagePrefix + "*")
	for _, dir := range old {
		removeDead(dir)
	}
	// Not below /tmp, which every run hides: a stand-in there would be safe by accident.
	for r.lock == nil {
		if r.stages, err = os.MkdirTemp("/var/tmp", stagePrefix); err != nil {
			return r, err
		}
		if err = os.Chmod(r.stages, 0o755); err != nil {
			return r, err
		}
		// Another run's look at old ones may come between.
		r.lock, _ = lockStage(r.stages, os.O_CREATE)
	}
	r.temp = filepath.Join(os.TempDir(), filepath.Base(r.stages)) + ".tmp"
	if err = errors.Join(os.Mkdir(r.temp, 0o700), os.Chmod(r.temp, 0o777|os.ModeSticky)); err != nil {
		return r, err
	}
	for _, uid := range users() {
		for _, dir := range []string{fmt.Sprintf("/tmp/sandboxd-%d", uid), fmt.Sprintf("/tmp/sandboxd-%d-shared", uid)} {
			if !exists(dir) {
				r.homeless = append(r.homeless, dir)
			}
		}
	}
	return r, nil
}

// lockStage returns the lock of a directory whose run has ended, or that is new.
func lockStage(dir string, flags int) (*os.File, error) {
	f, err := os.OpenFile(dir+"/"+stageLock, os.O_RDWR|unix.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := f.Stat()
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		var there os.FileInfo
		if there, err = os.Lstat(dir + "/" + stageLock); err == nil && !os.SameFile(held, there) {
			err = os.ErrNotExist
		}
	}
	if err == nil && int(held.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		err = os.ErrPermission
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func removeDead(stages string) {
	lock, err := lockStage(stages, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	for _, path := range append(besides(stages), stages) {
		os.RemoveAll(path)
	}
}

// besides are the directories and files that carry the name of a run.
func besides(stages string) (paths []string) {
	for _, dir := range append(sharedTemps, os.TempDir()) {
		for _, form := range []string{"-*", ".tmp"} {
			found, _ := filepath.Glob(filepath.Join(dir, filepath.Base(stages)) + form)
			paths = append(paths, found...)
		}
	}
	return paths
}

// remove removes everything and returns what the tests should have removed.
func (r runPlaces) remove() (left []string) {
	for _, dir := range []string{r.stages, r.temp} {
		found, _ := os.ReadDir(dir)
		for _, e := range found {
			if dir == r.temp || e.Name() != "bin" && e.Name() != stageLock {
				left = append(left, filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, path := range besides(r.stages) {
		if path != r.temp {
			left = append(left, path)
		}
		if err := os.RemoveAll(path); err != nil {
			left = append(left, err.Error())
		}
	}
	for _, path := range r.homeless {
		if exists(path) {
			left = append(left, path) // and stays: it may be of someone else
		}
	}
	if err := os.RemoveAll(r.stages); err != nil {
		left = append(left, err.Error())
	}
	r.lock.Close()
	return left
}

// runName begins the name of what a test makes in a place of all.
func runName() string { return filepath.Base(os.Getenv(stagesVariable)) }

// stages is the directory of all stages and programs of this run, with the programs.
var stages = sync.OnceValues(func() (string, error) {
	dir := os.Getenv(stagesVariable)
	if err := errors.Join(os.Mkdir(dir+"/bin", 0o755), copyProgram("/proc/self/exe", dir+"/bin/player")); err != nil {
		return dir, err
	}
	if own := os.Getenv("SANDBOXD_TEST_SBX"); own != "" {
		return dir, copyProgram(own, dir+"/bin/sbx")
	}
	return dir, buildProgram(dir, "sbx")
})

// daemonProgram is sandboxd, beside sbx. Only the tests of the daemon need it.
var daemonProgram = sync.OnceValues(func() (string, error) {
	dir, err := stages()
	if err != nil {
		return "", err
	}
	to := dir + "/bin/sandboxd"
	if own := os.Getenv("SANDBOXD_TEST_SANDBOXD"); own != "" {
		return to, copyProgram(own, to)
	}
	return to, buildProgram(dir, "sandboxd")
})

func buildProgram(dir, name string) error {
	build := osexec.Command("go", "build", "-buildvcs=false", "-tags", "urfave_cli_no_docs", "-o", dir+"/bin/"+name, "../cmd/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// stageCount is only read and written below the lock.
var stageCount struct {
	sync.Mutex
	n int
}
