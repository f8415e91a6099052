package test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"time"
)

// job is ordinary work in the workspace. Its CPU time is compared, so that the
// launch, which has rows of its own, is not in it.
type job struct {
	name, script string
	needs        string // a program
}

// jobs run in a workspace that prepareJobs made.
func jobs() []job {
	return []job{
		{"git status, 5,000 files", "cd repo; git status --porcelain", "git"},
		{"find, 50,000 files", "find many -name '*7.txt'", "find"},
		{"go build of a changed program", "cd gopkg; echo \"package main; const changed = $RANDOM$RANDOM\" >changed.go; GOCACHE=$PWD/cache GOFLAGS=-mod=mod GOPROXY=off go build -o program .", "go"},
		{"2,000 small writes", `for i in {1..2000}; do echo "$i" >"w$((i % 50))"; done`, "bash"},
		{"python start, twice", "for i in 1 2; do python3 -c 'import json, subprocess'; done", "python3"},
		{"tar of 5,000 files", "tar -cf - repo", "tar"},
	}
}

// prepareJobs fills the workspace.
func prepareJobs(g *ground) error {
	for _, dir := range []string{"repo", "many", "gopkg"} {
		if err := os.Mkdir(g.work+"/"+dir, 0o755); err != nil {
			return err
		}
	}
	if err := fillTree(g.work+"/repo", 5_000); err != nil {
		return err
	}
	if err := fillTree(g.work+"/many", 50_000); err != nil {
		return err
	}
	if err := os.WriteFile(g.work+"/gopkg/go.mod", []byte("module bench\n"), 0o644); err != nil {
		return err
	}
	program := "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(changed) }\n"
	if err := os.WriteFile(g.work+"/gopkg/main.go", []byte(program), 0o644); err != nil {
		return err
	}
	c := g.command(wrapper{}, shell(`cd repo && git init -q && git add -A && git -c user.name=b -c user.email=b@b commit -qm b`)...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("git: %w: %.300q", err, out)
	}
	return nil
}

// steadyTime bounds when the last job may begin. Each takes some 10 s more.
const steadyTime = 75 * time.Second

// steadyStates compares the CPU time of jobs with and without confinement.
func steadyStates(t *table) error {
	g, err := newGround(os.Getuid())
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.dir)
	if err := prepareJobs(g); err != nil {
		return err
	}
	all, _ := g.wrappers()
	have := only(all, plain, control, sbxBase, sbxFull, bwrap)
	ratios := map[string]samples{}
	end := time.Now().Add(steadyTime)
	for _, j := range jobs() {
		if time.Now().After(end) {
			t.section("steady state: %s: left out, the machine is too slow for all jobs in %v", j.name, steadyTime)
			continue
		}
		if _, err := osexec.LookPath(j.needs); err != nil {
			t.section("steady state: %s: %s is not here", j.name, j.needs)
			continue
		}
		var list []contender
		for _, w := range have {
			list = append(list, g.cpu(w, j.script))
		}
		if _, err := interleave(1, time.Minute, list); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		got, err := interleave(9, 7*time.Second, list)
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		t.section("steady state, CPU time: %s", j.name)
		for _, c := range list {
			t.add(c.name, "ms", got[c.name])
		}
		for _, c := range list[1:] {
			r := got[c.name].median() / got[plain].median()
			ratios[c.name] = append(ratios[c.name], r)
			limit := budget{}
			if slices.Contains([]string{sbxBase, sbxFull}, c.name) {
				limit = atMost(1.10)
			}
			t.value(c.name+" / plain", r, limit)
		}
	}
	t.section("steady state, median of all jobs")
	for _, c := range have[1:] {
		limit := budget{}
		if slices.Contains([]string{sbxBase, sbxFull}, c.name) {
			limit = atMost(1.05)
		}
		t.value(c.name+" / plain", ratios[c.name].median(), limit)
	}
	return nil
}
