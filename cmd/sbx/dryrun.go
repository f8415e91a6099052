package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sandboxd/cmd/sandboxd/api"
	"sandboxd/exec"
)

// planObject is what sbx run --dry-run --json prints: everything about a run
// that was not started. Values of variables are left out, they may be secrets.
type planObject struct {
	Version   int           `json:"version"` // of this object: 1
	DryRun    bool          `json:"dry_run"` // true
	Argv      []string      `json:"argv"`
	Program   string        `json:"program"`
	Directory string        `json:"directory"`
	Workspace string        `json:"workspace"`
	UID       int           `json:"uid"`
	GID       int           `json:"gid"`
	Files     []planFile    `json:"files"`
	Network   string        `json:"network"`
	Env       []string      `json:"env"`
	Withheld  []string      `json:"withheld_env"`
	Syscalls  string        `json:"syscalls"`
	Limits    []planLimit   `json:"limits"`
	Enforced  exec.Enforced `json:"enforced"`
	Warnings  []string      `json:"warnings"`
}

// planFile is one path of the view. The longest path decides.
type planFile struct {
	Access   string `json:"access"` // deny, protect, ro, rw, tmpfs
	Path     string `json:"path"`
	Source   string `json:"source,omitempty"` // what is shown there, where it differs
	Optional bool   `json:"optional,omitempty"`
	Reason   string `json:"reason"`
}

type planLimit struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// printPlan is the dry run: what would be done, with nothing started but the
// probes of the host.
func (j *job) printPlan() error {
	enforced, err := j.runner.Check(j.spec)
	if err != nil {
		return j.refused(err)
	}
	enforced.Weakened = append(enforced.Weakened, j.plan.Gaps...)
	plan := j.planObject(enforced)
	if j.o.json {
		return j.p.writeJSON(plan)
	}
	return j.p.writeOut("%s", plan.text())
}

func (j *job) planObject(enforced exec.Enforced) planObject {
	s := j.spec
	o := planObject{
		Version: 1, DryRun: true, Argv: s.Argv, Program: s.Path, Directory: s.Dir, Workspace: j.plan.Workspace,
		UID: os.Geteuid(), GID: os.Getegid(), Network: "none", Env: names(s.Env), Withheld: list(slices.Sorted(slices.Values(j.plan.WithheldEnv))),
		Syscalls: enforced.Seccomp, Limits: planLimits(s.Limits), Enforced: api.NewResult(exec.Result{Enforced: enforced}, nil).Enforced,
		Warnings: list(slices.Concat(j.plan.Warnings, j.stateWarnings)),
	}
	if s.User != nil {
		o.UID, o.GID = s.User.UID, s.User.GID
	}
	if s.Network == exec.NetFull {
		o.Network = "full"
	}
	for _, e := range s.View.Entries {
		f := planFile{Access: accessName(e), Path: e.Path, Optional: e.Optional, Reason: e.Reason}
		if e.Source != "" && e.Source != e.Path {
			f.Source = e.Source
		}
		o.Files = append(o.Files, f)
	}
	o.Files = list(o.Files)
	return o
}

func accessName(e exec.Entry) string {
	if e.Kind == exec.Tmpfs {
		return "tmpfs"
	}
	switch e.Access {
	case exec.Protect:
		return "protect"
	case exec.ReadOnly:
		return "ro"
	case exec.ReadWrite:
		return "rw"
	}
	return "deny"
}

// names lists the variables of an environment without their values.
func names(env []string) []string {
	list := make([]string, 0, len(env))
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// planLimits words the limits; a zero field means exec's default.
func planLimits(l exec.Limits) []planLimit {
	duration := func(d time.Duration, fallback string) string {
		switch {
		case d == 0:
			return fallback
		case d < 0:
			return unlimited
		}
		return d.String()
	}
	bytes := func(n int64, fallback string) string {
		switch {
		case n == 0:
			return fallback
		case n < 0:
			return unlimited
		}
		return sizeText(n)
	}
	tasks := "256"
	if l.Tasks < 0 {
		tasks = unlimited
	} else if l.Tasks > 0 {
		tasks = fmt.Sprint(l.Tasks)
	}
	return []planLimit{
		{"time", duration(l.Wall, unlimited)}, {"grace", duration(l.Grace, "2s")}, {"cpu", duration(l.CPU, unlimited)},
		{"memory", bytes(l.Memory, unlimited)}, {"tasks", tasks}, {"file size", bytes(l.FileSize, unlimited)},
	}
}

// text is the plan for people.
func (o planObject) text() string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s%s\n", label, oneLine(fmt.Sprintf(format, args...)))
	}
	line("command", "%s (%s)", strings.Join(o.Argv, " "), o.Program)
	line("directory", "%s", o.Directory)
	line("workspace", "%s", o.Workspace)
	line("user", "uid %d, gid %d", o.UID, o.GID)
	b.WriteString("files       the longest path decides; what is not listed cannot be opened\n")
	for _, f := range o.Files {
		text := fmt.Sprintf("%-8s %s", f.Access, f.Path)
		if f.Source != "" {
			text += " from " + f.Source
		}
		if f.Optional {
			text += " (if it exists)"
		}
		line("", "%-60s %s", text, f.Reason)
	}
	line("network", "%s", o.Network)
	line("variables", "%s", strings.Join(o.Env, " "))
	line("withheld", "%s", strings.Join(o.Withheld, " "))
	for _, l := range o.Limits {
		line("limit", "%s: %s", l.Name, l.Value)
	}
	line("filter", "system calls by the profile %s", o.Syscalls)
	line("tier", "%s, Landlock ABI %d", o.Enforced.Tier, o.Enforced.LandlockABI)
	for _, p := range o.Enforced.Parts {
		text := p.Part + ": " + p.Mechanism
		if !p.Exact {
			text += " (approximate)"
		}
		line("held by", "%s", text)
	}
	for _, g := range o.Enforced.Weakened {
		line("weaker", "%s", gapText(g, g.Instead, true))
	}
	for _, g := range o.Enforced.Missing {
		label := "not held"
		if onlyRefused(g) {
			label = "refused"
		}
		line(label, "%s", gapText(g, g.Instead, true))
	}
	for _, w := range o.Warnings {
		line("warning", "%s", w)
	}
	return b.String()
}
