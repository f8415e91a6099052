package bash_test

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sandboxd/policy/bash"
)

// TestBounds: any input up to 1 MiB, or nested 1,000 deep, is answered in bounded
// time and memory, and never looser than "could not look".
func TestBounds(t *testing.T) {
	rep := strings.Repeat
	for _, tt := range []struct{ name, script string }{
		{"1 MiB of words", "echo " + rep("a ", 500_000) + "; canary"},
		{"1 MiB of commands", rep("true;", 200_000) + "canary"},
		{"1 MiB of pipes", rep("true|", 200_000) + "canary"},
		{"1 MiB of and", rep("true&&", 170_000) + "canary"},
		{"1 MiB of assignments", rep("x=$x$x;", 140_000) + "canary"},
		{"doubling a variable", "x=aaaaaaaa;" + rep("x=$x$x;", 40) + "echo $x;canary"},
		{"many variables and forks", manyVars() + "canary"},
		{"a substitution for each of many variables", numbered("a%d=$(ls);", 60_000) + "canary"},
		{"a program beside each of many variables", numbered("a%d=x; ls;", 60_000) + "canary"},
		{"many descriptors", numbered("exec %d>f;", 60_000) + "canary"},
		{"many functions and forks", numbered("f%d(){ :;};(:);", 40_000) + "canary"},
		{"many aliases and forks", "shopt -s expand_aliases;" + numbered("alias a%d=x;(:);", 40_000) + "canary"},
		{"many hashed names and forks", numbered("hash -p x a%d;(:);", 40_000) + "canary"},
		{"many functions and branches", numbered("if x; then f%d(){ :;}; fi;", 30_000) + "canary"},
		{"many cases", "case x in " + numbered("a%d) ls;;", 60_000) + " esac; canary"},
		{"a long directory", "cd " + rep("a/", 150_000) + ";" + numbered("touch b%d;", 60_000) + "canary"},
		{"a long word, repeated", "x=" + rep("a", 100_000) + ";" + rep("rm $x $x;", 60_000) + "canary"},
		{"subshells", rep("( ", 1000) + "canary" + rep(")", 1000)},
		{"subshells, too deep", rep("(", 100_000) + "canary" + rep(")", 100_000)},
		{"groups", rep("{ ", 1000) + "canary" + rep("; }", 1000)},
		{"substitutions", rep("echo $(", 1000) + "canary" + rep(")", 1000)},
		{"quoted substitutions", rep(`echo "$(`, 1000) + "canary" + rep(`)"`, 1000)},
		{"defaults", rep("echo ${x:-", 1000) + "$(canary)" + rep("}", 1000)},
		{"arithmetic", "echo $((" + rep("(", 1000) + "1" + rep(")", 1000) + ")); canary"},
		{"subscripts", rep("echo ${a[", 1000) + "0" + rep("]}", 1000) + "; canary"},
		{"if", rep("if true; then ", 1000) + "canary" + rep("; fi", 1000)},
		{"while", rep("while true; do ", 1000) + "canary" + rep("; done", 1000)},
		{"for", rep("for i in 1 2 3; do ", 1000) + "canary" + rep("; done", 1000)},
		{"for, 20 deep", rep("for i in 1 2 3 4 5; do ", 20) + "canary $i" + rep("; done", 20)},
		{"case", rep("case x in x) ", 1000) + "canary" + rep(";; esac", 1000)},
		{"functions in functions", rep("f() { ", 1000) + "canary" + rep("; }", 1000)},
		{"functions that call twice", doublingFunctions(40) + "canary"},
		{"sh -c nested", nestedSh(12)},
		{"eval nested", "x='eval \"$x\"'; eval \"$x\"; canary"},
		{"braces", "echo " + rep("{a,b}", 60) + "; canary"},
		{"brace sequence", "echo {1..1000000000}; canary"},
		{"nested braces", rep("{a,", 1000) + "b" + rep("}", 1000) + "; canary"},
		{"alternatives", manyAlternatives() + "canary"},
		{"env chain", rep("env ", 50_000) + "canary"},
		{"xargs", "seq 1 | xargs " + rep("xargs ", 2000) + "canary"},
		{"negations", rep("! ", 2000) + "canary"},
		{"redirects", "canary " + rep(">a ", 100_000)},
		{"heredocs", rep("cat <<E\nx\nE\n", 50_000) + "canary"},
		{"backquotes", "echo `echo \\`echo \\\\\\`canary\\\\\\`\\``"},
		{"quote run", "echo " + rep(`"a"`, 200_000) + "; canary"},
		{"globs", "for f in " + rep("*.a ", 100_000) + "; do canary; done"},
		{"sed", "sed '" + rep("s/a/b/;", 100_000) + "' f; canary"},
		{"awk", "awk '" + rep(`x = x "a" "b";`, 50_000) + "'; canary"},
		{"unclosed quotes", rep("echo '", 1001)},
		{"coproc", rep("coproc ", 1000) + "canary"},
		{"time", rep("time ", 1000) + "canary"},
		{"aliases", "shopt -s expand_aliases\n" + rep("alias a='a a'\n", 1000) + "a\ncanary"},
		{"traps", rep("trap 'trap canary EXIT' EXIT;", 10_000)},
		{"files", manyFiles() + "canary"},
		{"tests", "[[ " + rep("( ", 1000) + "a" + rep(" )", 1000) + " ]]; canary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpuTime(t)
			a := bash.Analyze(tt.script, bash.Options{Cwd: "/w"})
			took := cpuTime(t) - start
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes: %v, %d MiB allocated, %d commands, %d unknown", len(tt.script), took.Round(time.Millisecond),
				(after.TotalAlloc-before.TotalAlloc)>>20, len(a.Commands), len(a.Unknown))
			if took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 1024 {
				t.Errorf("allocated %d MiB", mib)
			}
			if v, _ := judgeAnalysis(a); v == "allow" {
				t.Errorf("allowed")
			}
		})
	}
}

// cpuTime is what the process used: a busy machine does not change it much.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// numbered repeats s with the numbers from 10 on.
func numbered(s string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(s, "%d", strconv.Itoa(i+10)))
	}
	return b.String()
}

func manyVars() string {
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString("v" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + "=1;(true);")
	}
	return b.String()
}

func doublingFunctions(n int) string {
	var b strings.Builder
	b.WriteString("f0() { :; };")
	for i := 1; i < n; i++ {
		p := strings.Repeat("a", i-1)
		b.WriteString("f" + p + "a() { f" + p + "; f" + p + "; };")
	}
	b.WriteString("f" + strings.Repeat("a", n-1) + ";")
	return b.String()
}

func nestedSh(n int) string {
	s := "canary"
	for range n {
		s = "sh -c '" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

func manyAlternatives() string {
	var b strings.Builder
	for i := range 200 {
		b.WriteString("if x; then v=" + string(rune('a'+i%26)) + strings.Repeat("b", i) + "; fi; w=$v$v$v$w;")
	}
	return b.String()
}

func manyFiles() string {
	var b strings.Builder
	for i := range 10_000 {
		b.WriteString("echo x > f" + strings.Repeat("a", i%100) + strings.Repeat("b", i/100) + ";ls *;")
	}
	return b.String()
}
