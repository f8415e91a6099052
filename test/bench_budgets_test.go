package test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkBudgets prints the table of docs/benchmarks.md: what users feel of the
// built program, each row beside a plain start, a second plain start as control,
// and the peers that the host has, taking turns. One pass takes at most six
// minutes; run it once (-benchtime 1x), as make bench does.
//
// It reports a missed budget in the table and does not fail for it: a figure of
// one loaded machine is no defect. A contender that fails does fail it.
func BenchmarkBudgets(b *testing.B) {
	var t table
	for _, part := range []struct {
		name string
		run  func(*table) error
	}{
		{"launch", launches}, {"launch of an ordinary user", ordinaryLaunches}, {"steady state", steadyStates},
		{"workspace size", workspaceSizes}, {"concurrency", concurrency}, {"capture", captures},
	} {
		b.Run(part.name, func(b *testing.B) {
			for b.Loop() {
				if err := part.run(&t); err != nil {
					b.Error(err)
				}
			}
		})
	}
	fmt.Fprintln(os.Stderr, "\n"+measuredOn()+"\n")
	t.print(os.Stderr)
	missed := t.missed()
	fmt.Fprintf(os.Stderr, "\n%d budgets missed%s\n", len(missed), strings.Join(append([]string{""}, missed...), "\n  "))
}

// launches compares whole starts of /bin/true as the user who runs this.
func launches(t *table) error {
	g, err := newGround(os.Getuid())
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.dir)
	t.section("launch and exit of /bin/true, uid %d", g.uid)
	return g.launches(t, 200, 60*time.Second)
}

// ordinaryLaunches does the same as uid 1000, where an own user namespace is
// needed first.
func ordinaryLaunches(t *table) error {
	if os.Getuid() != 0 {
		return nil
	}
	g, err := newGround(1000)
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.dir)
	t.section("launch and exit of /bin/true, uid 1000")
	return g.launches(t, 100, 25*time.Second)
}

func (g *ground) launches(t *table, rounds int, atMostTime time.Duration) error {
	have, missing := g.wrappers()
	var list []contender
	for _, w := range have {
		list = append(list, g.launch(w, "/bin/true"))
	}
	list = append(list, g.launch(wrapper{name: bareGo}, g.bare))
	// Once unmeasured: what is kept for later runs is made by the first.
	if _, err := interleave(1, time.Minute, list); err != nil {
		return err
	}
	got, err := interleave(rounds, atMostTime, list)
	if err != nil {
		return err
	}
	for _, c := range list {
		t.add(c.name, "ms", got[c.name])
	}
	for _, why := range missing {
		t.note("missing: %s", why)
	}
	t.ratio("control: plain again / plain", got[control], got[plain], budget{})
	t.ratio("base tier / bare Go start", got[sbxBase], got[bareGo], atMost(1.3))
	t.ratio("full tier / bare Go start", got[sbxFull], got[bareGo], budget{})
	if peer := got[bwrap]; peer != nil {
		t.ratio("base tier / bwrap", got[sbxBase], peer, atMost(0.85))
		t.ratio("full tier / bwrap", got[sbxFull], peer, atMost(1.0))
	}
	if peer := got["landrun"]; peer != nil {
		t.ratio("base tier / landrun", got[sbxBase], peer, atMost(1.0))
	}
	if peer := got["firejail"]; peer != nil {
		t.ratio("full tier / firejail", got[sbxFull], peer, budget{})
	}
	return nil
}

// workspaceSizes compares the start in a small and in a large workspace. The
// start is over when the command tells the time; the walk after the run, which
// looks for planted hooks, is in the total only.
func workspaceSizes(t *table) error {
	var grounds []*ground
	sizes := []int{10, 300_000}
	for _, files := range sizes {
		g, err := newGround(os.Getuid())
		if err != nil {
			return err
		}
		defer os.RemoveAll(g.dir)
		if err := fillTree(g.work, files); err != nil {
			return err
		}
		grounds = append(grounds, g)
	}
	t.section("start against the size of the workspace")
	for _, tier := range []string{sbxBase, sbxFull} {
		total := map[string]samples{}
		var list []contender
		for i, g := range grounds {
			have, _ := g.wrappers()
			list = append(list, g.startOf(named(have, tier), fmt.Sprintf("%s, %d files", tier, sizes[i]), total))
		}
		got, err := interleave(25, 8*time.Second, list)
		if err != nil {
			return err
		}
		for _, c := range list {
			t.add("start: "+c.name, "ms", got[c.name])
			t.add("total: "+c.name, "ms", total[c.name])
		}
		t.ratio("start of "+tier+", large / small", got[list[1].name], got[list[0].name], atMost(1.03))
		t.ratio("total of "+tier+", large / small", total[list[1].name], total[list[0].name], budget{})
	}
	return nil
}

// startOf measures until the command runs, and collects the whole time in total.
func (g *ground) startOf(w wrapper, name string, total map[string]samples) contender {
	return contender{name, func() (float64, error) {
		c := g.command(w, "/bin/date", "+%s%N")
		var out bytes.Buffer
		c.Stdout = &out
		start := time.Now()
		err := g.run(c)
		end := time.Now()
		if err != nil {
			return 0, err
		}
		ran, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
		if err != nil {
			return 0, err
		}
		total[name] = append(total[name], milliseconds(end.Sub(start)))
		return milliseconds(time.Unix(0, ran).Sub(start)), nil
	}}
}

// fillTree makes empty files in directories of at most a thousand.
func fillTree(dir string, files int) error {
	for i := range files {
		sub := fmt.Sprintf("%s/d%03d", dir, i/1000)
		if i%1000 == 0 {
			if err := os.Mkdir(sub, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mknod(fmt.Sprintf("%s/f%03d.txt", sub, i%1000), unix.S_IFREG|0o644, 0); err != nil {
			return err
		}
	}
	return nil
}

// concurrency counts launches a second with so many callers at once.
func concurrency(t *table) error {
	g, err := newGround(os.Getuid())
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.dir)
	have, _ := g.wrappers()
	for _, callers := range []int{1, 8, 64} {
		t.section("launches a second, %d at once", callers)
		var list []contender
		for _, w := range only(have, plain, control, sbxBase, sbxFull, bwrap) {
			list = append(list, contender{w.name, func() (float64, error) { return g.rate(w, callers, 700*time.Millisecond) }})
		}
		got, err := interleave(2, 20*time.Second, list)
		if err != nil {
			return err
		}
		for _, c := range list {
			t.add(c.name, "/s", got[c.name])
		}
		t.ratio("control: plain again / plain", got[control], got[plain], budget{})
		if peer := got[bwrap]; peer != nil {
			t.ratio("full tier / bwrap", got[sbxFull], peer, budget{})
		}
	}
	return nil
}

// rate is how many launches of /bin/true callers finish in a second, together.
func (g *ground) rate(w wrapper, callers int, during time.Duration) (float64, error) {
	var all sync.WaitGroup
	var done atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(start) < during && failed.Load() == nil {
				if err := g.run(g.command(w, "/bin/true")); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(start).Seconds(), nil
}

// captures compares how fast a flood is taken in: all of it is read, little of
// it is kept.
func captures(t *table) error {
	g, err := newGround(os.Getuid())
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.dir)
	const mebibytes = 256
	flood := []string{"/usr/bin/head", "-c", fmt.Sprint(mebibytes << 20), "/dev/zero"}
	rate := func(name string, w wrapper, argv ...string) contender {
		c := g.launch(w, argv...)
		return contender{name, func() (float64, error) {
			ms, err := c.run()
			return mebibytes / ms * 1000, err
		}}
	}
	sbx := func(tier string) wrapper {
		return wrapper{argv: []string{g.sbx, "run", "--tier", tier, "--json", "--output-limit", "64KiB", "--"}}
	}
	list := []contender{
		rate("cat >/dev/null", wrapper{}, shell(`"$@" | cat >/dev/null`, flood...)...),
		rate("sbx run --json, base tier", sbx("base"), flood...),
		rate("sbx run --json, full tier", sbx("full"), flood...),
	}
	got, err := interleave(7, 10*time.Second, list)
	if err != nil {
		return err
	}
	t.section("capture of %d MiB of output", mebibytes)
	for _, c := range list {
		t.add(c.name, "MiB/s", got[c.name])
	}
	t.ratio("base tier / cat", got[list[1].name], got[list[0].name], atLeast(0.5))
	t.ratio("full tier / cat", got[list[2].name], got[list[0].name], atLeast(0.5))
	return nil
}
