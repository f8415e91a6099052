package main

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/exec"
)

// explainOutcome is the one line about a command that failed: how it ended, what
// confined it and what kinds of variables it did not get. It says what held the
// command, not that this was the reason: sbx cannot know what was denied.
// Empty for a success.
func explainOutcome(res exec.Result, name string, l exec.Limits, confined string) string {
	how := ""
	switch res.Outcome {
	case exec.TimedOut:
		how = "timed out"
		if l.Wall > 0 {
			how += fmt.Sprintf(" after %v", l.Wall)
		}
	case exec.OutOfMem:
		how = "ended at its memory limit"
		if l.Memory > 0 {
			how += " of " + sizeText(l.Memory)
		}
	case exec.TaskLimit:
		how = "reached its limit of tasks"
		if l.Tasks > 0 {
			how += fmt.Sprintf(" (%d)", l.Tasks)
		}
	case exec.CPULimit:
		how = "used up its processor time"
		if l.CPU > 0 {
			how += fmt.Sprintf(" of %v", l.CPU)
		}
	case exec.FileLimit:
		how = "wrote a file up to its size limit"
		if l.FileSize > 0 {
			how += " of " + sizeText(l.FileSize)
		}
	case exec.Signaled:
		if res.Signal == int(unix.SIGPIPE) {
			return "" // the reader had enough: `sbx run -- yes | head`
		}
		how = "was ended by signal " + signalName(res.Signal)
	case exec.Exited:
		if res.ExitCode == 0 {
			return ""
		}
		how = fmt.Sprintf("exited %d", res.ExitCode)
	default:
		return "" // nothing ran; the error says why
	}
	return fmt.Sprintf("%s %s; confined: %s", oneLine(name), how, confined)
}

func signalName(n int) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprint(n)
}

// withheldKinds groups the names of withheld variables for one line: how many
// look like secrets and how many others there are.
func withheldKinds(names []string, verbose bool) string {
	if len(names) == 0 {
		return "no variables withheld"
	}
	if verbose {
		return "withheld variables: " + oneLine(strings.Join(slices.Sorted(slices.Values(names)), " "))
	}
	secrets := 0
	for _, n := range names {
		if looksSecret(n) {
			secrets++
		}
	}
	var kinds []string
	switch others := len(names) - secrets; {
	case secrets == 0:
		kinds = append(kinds, fmt.Sprint(others))
	case others > 0:
		kinds = append(kinds, looking(secrets), counted(others, "other"))
	default:
		kinds = append(kinds, looking(secrets))
	}
	return "variables withheld: " + strings.Join(kinds, ", ")
}

func looking(secrets int) string {
	if secrets == 1 {
		return "1 that looks like a secret"
	}
	return fmt.Sprintf("%d that look like secrets", secrets)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// looksSecret is for the wording of a message only; what is withheld was
// decided elsewhere, by an allow list.
func looksSecret(name string) bool {
	name = strings.ToUpper(name)
	for _, part := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY", "AUTH"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// explainWeaker is the one line about parts that are held less well than
// elsewhere, by name; with verbose also what holds them and why. Empty when all
// are held.
func explainWeaker(e exec.Enforced, verbose bool) string {
	var missing, weakened []string
	for _, g := range e.Missing {
		switch {
		case onlyRefused(g):
		case verbose:
			missing = append(missing, gapText(g, g.Instead, true))
		default:
			missing = append(missing, oneLine(g.Part))
		}
	}
	for _, g := range e.Weakened {
		switch {
		case verbose:
			weakened = append(weakened, gapText(g, g.Instead, true))
		case g.Part == agentloop.HomeSizePart: // the same in every tier
		default:
			weakened = append(weakened, oneLine(g.Part))
		}
	}
	separator := ", "
	if verbose {
		separator = "; "
	}
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, "not held here: "+strings.Join(missing, separator))
	}
	if len(weakened) > 0 {
		parts = append(parts, "held less well here: "+strings.Join(weakened, separator))
	}
	if len(parts) == 0 {
		return ""
	}
	if !verbose {
		parts = append(parts, "--verbose says how, --quiet leaves this line out")
	}
	return "tier " + e.Tier + ": " + strings.Join(parts, "; ")
}

func gapText(g exec.Gap, instead string, verbose bool) string {
	text := g.Part
	if instead != "" {
		text += ": " + instead
	}
	if verbose && g.Why != "" {
		text += " (" + g.Why + ")"
	}
	return oneLine(text)
}

// onlyRefused reports a gap by which nothing is weaker: a system call whose name
// the library does not know stays refused.
func onlyRefused(g exec.Gap) bool { return strings.HasPrefix(g.Part, "system call ") }
