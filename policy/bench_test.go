package policy

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cpuLoop runs f and reports the processor time of one call, the least of all
// rounds of a hundred: what the code costs on a machine that others use too.
func cpuLoop(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const round = 100
	least, n := time.Duration(1<<62), 0
	start := threadTime(b)
	for b.Loop() {
		f()
		if n++; n%round == 0 {
			now := threadTime(b)
			least, start = min(least, now-start), now
		}
	}
	if n >= round {
		b.ReportMetric(float64(least.Nanoseconds())/round, "cpu-ns/op")
	}
}

func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// manyRules are 1,000 rules as policies have them.
func manyRules() []Rule {
	var rules []Rule
	for i := range 200 {
		rules = append(rules,
			deny(fmt.Sprintf("Bash(tool%d *)", i)),
			deny(fmt.Sprintf("Bash(git sub%d --force*)", i)),
			ask(fmt.Sprintf("Bash(npm run task%d:*)", i)),
			allow(fmt.Sprintf("Bash(make target%d)", i)),
			deny(fmt.Sprintf("Read(/data/%d/**)", i)))
	}
	return rules
}

func BenchmarkMatch(b *testing.B) {
	s := mustRules(b, manyRules()...)
	v := words("git -C r push --force origin main")
	find := finder{}
	cpuLoop(b, func() {
		find.best, find.possible = nil, nil
		find.commandRules(&s.table[DenyRule].commands, &v)
	})
}

func BenchmarkMatchPath(b *testing.B) {
	s := mustRules(b, manyRules()...)
	find := finder{}
	cpuLoop(b, func() {
		find.best = nil
		find.onePath(&s.table[DenyRule].read, "/home/dev/src/project/file.go", -1)
	})
}

// BenchmarkMatchSameProgram is the worst layout: every rule is about one
// sub-command of one program.
func BenchmarkMatchSameProgram(b *testing.B) {
	var rules []Rule
	for i := range 1000 {
		rules = append(rules, deny(fmt.Sprintf("Bash(git push origin branch-%d)", i)))
	}
	s := mustRules(b, rules...)
	v := words("git push origin main")
	find := finder{}
	cpuLoop(b, func() {
		find.best, find.possible = nil, nil
		find.commandRules(&s.table[DenyRule].commands, &v)
	})
}

func BenchmarkDecide(b *testing.B) {
	_, cfg := place(b)
	for _, n := range []int{0, 1000} {
		c := cfg
		if n > 0 {
			c.Rules = manyRules()
		}
		e := engine(b, c)
		for name, call := range map[string]Call{
			"write": write("src/a"),
			"bash":  BashCall("cd src && grep -rn x . | head -20", ""),
			"push":  BashCall("git -C r push --force origin main", ""),
			"git":   BashCall("git status --short", ""),
		} {
			b.Run(fmt.Sprintf("rules=%d/%s", n, name), func(b *testing.B) {
				cpuLoop(b, func() { e.Check(b.Context(), call) })
			})
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	s := mustRules(t, manyRules()...)
	v := words("git -C r push --force origin main")
	find := finder{}
	if n := testing.AllocsPerRun(100, func() {
		find.best, find.possible = nil, nil
		find.commandRules(&s.table[DenyRule].commands, &v)
	}); n != 0 {
		t.Errorf("%v allocations for a command", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		find.best = nil
		find.onePath(&s.table[DenyRule].read, "/home/dev/src/project/file.go", -1)
	}); n != 0 {
		t.Errorf("%v allocations for a path", n)
	}
}
