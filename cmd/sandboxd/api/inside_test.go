package api

import (
	"os"
	"strings"
	"testing"
)

const honestStatus = "Name:\tsh\nUmask:\t0022\nPPid:\t41\nNSpid:\t42\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"

func TestStatusOfAProcess(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       process
		bad        bool
	}{
		{"honest", honestStatus, process{parent: 41}, false},
		{"nested", strings.Replace(honestStatus, "NSpid:\t42", "NSpid:\t42\t7\t1", 1), process{parent: 41, nesting: 2}, false},
		{"bound", strings.Replace(strings.Replace(honestStatus, "Privs:\t0", "Privs:\t1", 1), "filters:\t0", "filters:\t3", 1), process{parent: 41, bound: true, filters: 3}, false},
		{"a field that is missing", strings.Replace(honestStatus, "NoNewPrivs", "Other", 1), process{}, true},
		{"cut", honestStatus[:30], process{}, true},
		{"no number", strings.Replace(honestStatus, "PPid:\t41", "PPid:\tx", 1), process{}, true},
		{"nothing", "", process{}, true},
	} {
		got, err := parseStatus([]byte(tt.text))
		if (err != nil) != tt.bad || err == nil && got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v, error %v", tt.name, got, err, tt.want, tt.bad)
		}
	}
}

// Who asks from outside is let through, also by a chain of parents; what cannot be
// seen is not.
func TestPeersThatCannotBeSeenAreRefused(t *testing.T) {
	j, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	if why := j.confined(credentials{PID: os.Getpid(), pidfd: -1}); why != "" {
		t.Errorf("this process: %s", why)
	}
	for name, pid := range map[string]int{"a container's": 0, "one that has ended": 1 << 30} {
		if why := j.confined(credentials{PID: pid, pidfd: -1}); why == "" {
			t.Errorf("%s process is let through", name)
		}
	}
}

func BenchmarkPeer(b *testing.B) {
	j, err := newJudge()
	if err != nil {
		b.Fatal(err)
	}
	delete(j.above, os.Getpid())
	for b.Loop() {
		if why := j.confined(credentials{PID: os.Getpid(), pidfd: -1}); why != "" {
			b.Fatal(why)
		}
	}
}
