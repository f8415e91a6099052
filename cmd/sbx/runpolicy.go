package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// loadPolicy reads the policy files that hold for the workspace and puts what the
// flags ask for on top. Of the rules, those that deny and ask stop the command.
// The safety floors, the default and modes do not apply: who types sbx run has
// decided.
func (j *job) loadPolicy(c agentloop.Caller) (agentloop.PolicyInForce, error) {
	var in agentloop.PolicyInForce
	ws, _, err := agentloop.DetectWorkspace(c.Cwd, j.o.grant.Workspace, c)
	if err != nil {
		return in, err
	}
	j.plan.Workspace = ws.Root
	e, err := settings.Load(settings.Options{
		Workspace: ws.Root, Environ: j.p.environ, AccountHome: ownAccountHome,
		PolicyFiles: fromHere(c.Cwd, j.o.policyFiles), Profile: j.o.profile,
	})
	if err != nil {
		return in, settingsFailure(err)
	}
	for _, n := range e.Ignored {
		if n.ForAgents() {
			continue
		}
		j.policyWarnings = append(j.policyWarnings, "ignored: "+n.String())
	}
	if in.Config, err = e.Config(); err != nil {
		return in, settingsFailure(err)
	}
	in.Config.OnlyRules, in.Config.Mode, in.Config.Confinement = true, policy.ModeDefault, policy.FullyConfined
	if len(in.Config.Rules) > 0 && !j.o.dryRun {
		in.Config.Askers = terminalAskers(strings.Join(j.o.argv, " "))
	}
	in.Recorded = e.Audit.Run.V && !j.o.dryRun
	if e.Audit.RunsUnrecorded() {
		in.Unrecorded = agentloop.UnrecordedRun
	}
	in.Grant, err = mergeGrant(e, j.o.grant)
	return in, err
}

// denied says why a command does not run, and what would let it.
func (j *job) denied(d policy.Decision) error {
	toAllow := api.Remedy(d)
	if _, ok := d.Reason.(policy.HeadlessReason); ok {
		toAllow = "run it from a terminal and answer, or narrow that rule"
	}
	return &refusal{what: strings.Join(j.o.argv, " "), by: d.Reason.String(), toAllow: toAllow}
}

// refusal is a command that the policy does not let run.
type refusal struct{ what, by, toAllow string }

func (r *refusal) Error() string { return "denied: " + r.what + ": " + r.by }

// mergeGrant puts the flags over what the files say, for a run without the daemon:
// what the policy cannot hold to is refused before anything is prepared.
func mergeGrant(e *settings.Effective, flags policy.Grant) (policy.Grant, error) {
	g := agentloop.GrantWithFlags(e.Grant(), flags, e.ManagedLimits())
	g.Workspace, g.ReadOnlyWorkspace = flags.Workspace, false
	for _, n := range g.Network {
		if n != "none" && n != "full" {
			return g, misuse("--net none runs without the network; a list of hosts is never widened to the whole network",
				"the policy grants %s: access by host is not available in this version", n)
		}
	}
	return g, nil
}

// terminalAskers is the person at the terminal, if there is one.
func terminalAskers(command string) []policy.Asker {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	_ = tty.Close()
	return []policy.Asker{terminalAsker{command}}
}

// terminalAsker asks on the controlling terminal, whatever standard input is.
type terminalAsker struct{ command string }

// Ask shows one question. Only "y" or "yes" allows.
func (a terminalAsker) Ask(ctx context.Context, q policy.Question) (policy.Answer, error) {
	deny := policy.Answer{Verdict: policy.Deny, By: "terminal"}
	yes, err := askTerminal(ctx, fmt.Sprintf("sbx: asked: %s\nsbx: by: %s\nsbx: run it?", oneLine(a.command), oneLine(q.Reason.String())))
	if !yes || err != nil {
		return deny, err
	}
	return policy.Answer{Verdict: policy.Allow, By: "terminal"}, nil
}

// askTerminal asks the person at the controlling terminal. Only "y" or "yes" is
// yes.
func askTerminal(ctx context.Context, question string) (yes bool, err error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer tty.Close()
	stop := context.AfterFunc(ctx, func() { _ = tty.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := fmt.Fprintf(tty, "%s [y/N] ", question); err != nil {
		return false, err
	}
	answer := make([]byte, 64) // a terminal gives one line at a time
	n, err := tty.Read(answer)
	if err != nil {
		return false, err
	}
	word := strings.TrimSpace(string(answer[:n]))
	return word == "y" || word == "yes", nil
}
