package test

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// samples are measurements of one contender, in the order they were taken.
type samples []float64

// percentile is the smallest sample that q of all samples do not exceed. Of no
// samples it is NaN.
func (s samples) percentile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func (s samples) median() float64 { return s.percentile(0.5) }

// contender is one of those that take turns. run does the thing once and returns
// the measurement; an error ends the whole comparison.
type contender struct {
	name string
	run  func() (float64, error)
}

// interleave lets the contenders take turns, so that what else the machine does
// meets all of them alike, until each had rounds turns or the time is over. Who
// is first changes with every round.
func interleave(rounds int, atMost time.Duration, list []contender) (map[string]samples, error) {
	got := map[string]samples{}
	end := time.Now().Add(atMost)
	for round := 0; round < rounds && (round == 0 || time.Now().Before(end)); round++ {
		for i := range list {
			c := list[(round+i)%len(list)]
			v, err := c.run()
			if err != nil {
				return got, fmt.Errorf("%s: %w", c.name, err)
			}
			got[c.name] = append(got[c.name], v)
		}
	}
	return got, nil
}

// budget is what a ratio must keep to. The zero budget is none.
type budget struct {
	limit   float64
	atLeast bool // the ratio must be limit or more, else limit or less
}

func atMost(limit float64) budget  { return budget{limit: limit} }
func atLeast(limit float64) budget { return budget{limit: limit, atLeast: true} }

func (b budget) String() string {
	switch {
	case b.limit == 0:
		return ""
	case b.atLeast:
		return fmt.Sprintf(">= %.2f", b.limit)
	}
	return fmt.Sprintf("<= %.2f", b.limit)
}

// verdict is what is printed about a ratio. What could not be measured is missed.
func (b budget) verdict(ratio float64) string {
	switch {
	case b.limit == 0:
		return ""
	case b.atLeast && ratio >= b.limit, !b.atLeast && ratio <= b.limit:
		return "met"
	}
	return "missed"
}

// table collects the rows of a run of the benchmarks.
type table struct{ rows [][]string }

// section begins a group of rows.
func (t *table) section(format string, args ...any) {
	t.rows = append(t.rows, []string{"", "", "", "", "", "", ""}, []string{fmt.Sprintf(format, args...), "", "", "", "", "", ""})
}

// add enters what was measured in the given unit.
func (t *table) add(name, unit string, s samples) {
	t.rows = append(t.rows, []string{"  " + name, fmt.Sprintf("%.2f %s", s.median(), unit), fmt.Sprintf("%.2f", s.percentile(0.95)),
		fmt.Sprint(len(s)), "", "", ""})
}

// ratio enters how two medians compare.
func (t *table) ratio(name string, s, to samples, b budget) {
	t.value(name, s.median()/to.median(), b)
}

// value enters a ratio.
func (t *table) value(name string, v float64, b budget) {
	t.rows = append(t.rows, []string{"  " + name, "", "", "", fmt.Sprintf("%.2f", v), b.String(), b.verdict(v)})
}

// note enters a line of text.
func (t *table) note(format string, args ...any) {
	t.rows = append(t.rows, []string{"  " + fmt.Sprintf(format, args...), "", "", "", "", "", ""})
}

// missed names the budgets that were not kept.
func (t *table) missed() []string {
	var names []string
	for _, r := range t.rows {
		if r[6] == "missed" {
			names = append(names, strings.TrimSpace(r[0]))
		}
	}
	return names
}

func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\tmedian\tp95\tn\tratio\tbudget\t")
	for _, r := range t.rows {
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(r, "\t"), "\t"))
	}
	tw.Flush()
}

// measuredOn says where and under what load the rows were measured.
func measuredOn() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	load, _ := os.ReadFile("/proc/loadavg")
	var cpus unix.CPUSet
	_ = unix.SchedGetaffinity(0, &cpus)
	return fmt.Sprintf("Linux %s %s, %d CPUs, load %s", unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]),
		cpus.Count(), strings.Join(strings.Fields(string(load))[:3], " "))
}
