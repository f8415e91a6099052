// Package require says what a test needs of its host, and is the only place that
// skips a test. Tests of every room may use it, programs may not.
//
//	if !host.MountView {
//		require.Missing(t, require.UserNS, "no mount view")
//	}
//
// A test skips where its host lacks something, unless SANDBOXD_TEST_REQUIRE names
// that feature: then what is missing is a failure, so that a run of all tests that
// is green has tried everything it says. The variable is a list with commas.
package require

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Variable lists the features whose absence is a failure.
const Variable = "SANDBOXD_TEST_REQUIRE"

// Feature is something that a host may lack, as [Variable] writes it.
type Feature string

const (
	Landlock Feature = "landlock"
	Seccomp  Feature = "seccomp"
	// UserNS is the namespaces tier: user, mount and the other namespaces.
	UserNS Feature = "userns"
	Docker Feature = "docker"
	Cgroup Feature = "cgroup"
	// Program is a program that tests run: git, bash, strace, npm.
	Program Feature = "program"
	// Host is any other property of the machine: a file system with file handles,
	// a second network interface, a kernel with POSIX queues.
	Host Feature = "host"
)

// features are all that Variable may name: a misspelt one must not pass as met.
var features = []Feature{Landlock, Seccomp, UserNS, Docker, Cgroup, Program, Host}

// Missing ends a test whose host lacks f: skipped, or failed where f is required.
func Missing(t testing.TB, f Feature, why ...any) {
	t.Helper()
	required, err := required(f, os.Getenv(Variable))
	switch text := fmt.Sprint(why...); {
	case err != nil:
		t.Fatal(err)
	case required:
		t.Fatalf("%s is required and missing: %s", f, text)
	default:
		t.Skipf("%s: %s", f, text)
	}
}

// Root ends a test of an ordinary user that needs root. For root it does nothing.
func Root(t testing.TB, why ...any) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("needs root: %s", fmt.Sprint(why...))
	}
}

// NotHere ends a test that has no meaning in this place of a table: for this user,
// machine or input. It must never stand for something that the host lacks.
func NotHere(t testing.TB, why ...any) {
	t.Helper()
	t.Skip(why...)
}

// OwnMemory ends a test that measures the memory of its own process under the race
// detector, which takes several times as much for itself.
func OwnMemory(t testing.TB) {
	if raceDetector {
		NotHere(t, "the race detector takes memory, too")
	}
}

// Asked ends a test that runs only when somebody asks for it by a variable or by
// leaving -short out.
func Asked(t testing.TB, how ...any) {
	t.Helper()
	t.Skip(how...)
}

func required(f Feature, list string) (bool, error) {
	if !slices.Contains(features, f) {
		return false, fmt.Errorf("bug: no feature %q", f)
	}
	found := false
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if word != "" && !slices.Contains(features, Feature(word)) {
			return false, fmt.Errorf("%s: no feature %q, there are %q", Variable, word, features)
		}
		found = found || word == string(f)
	}
	return found, nil
}
