package tools

import (
	"context"
	"fmt"
	"strings"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// skillTool is load_skill: it gives the model the text of a skill, as data. The
// file is read in the confinement of the call, so that what a policy denies to
// read_file is not loaded either.
//
// The front matter's allowed-tools allow nothing: what may run is decided for each
// call, as without the skill.
type skillTool struct{ helper }

func (skillTool) Name() string { return "load_skill" }

// Traits are those of requirement 16.
func (skillTool) Traits(policy.Args) agentloop.Traits { return readingTraits }

func (skillTool) Schema() agentloop.ToolSchema {
	return schema("load_skill", "Loads the text of a skill: how a kind of work is done. The list of skills stands in your instructions.", object{
		{name: "name", kind: "string", text: "The name of the skill, as listed.", required: true},
	})
}

func (t skillTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	name, err := need(r.Call.Args, "name", "skill")
	if err != nil {
		return "", err
	}
	if !validSkillName(name) {
		return "", fmt.Errorf("%q is no name of a skill: one word, as listed", clip(name, maxSkillName))
	}
	k, err := findSkill(ctx, r.Session, name)
	if err != nil {
		return "", err
	}
	if k.problem != "" {
		return "", fmt.Errorf("the skill %s cannot be used: %s", name, k.problem)
	}
	a, err := t.run(ctx, r, files.Request{Path: k.path, Read: &files.ReadRequest{From: 1, Plain: maxSkillText}})
	if err != nil {
		return "", err
	}
	_, body, _ := agentloop.CutFrontMatter(a.Text)
	return k.intro() + strings.TrimLeft(body, "\n"), nil
}

// findSkill returns a skill by its name.
func findSkill(ctx context.Context, s *agentloop.Session, name string) (skill, error) {
	var names []string
	for _, k := range findSkills(ctx, s) {
		if k.name == name {
			return k, nil
		}
		names = append(names, k.name)
	}
	if names == nil {
		return skill{}, fmt.Errorf("no skill %q: there are none here", name)
	}
	return skill{}, fmt.Errorf("no skill %q; there are: %s", name, clip(strings.Join(names, ", "), maxSkillLine))
}

// intro says what the text that follows is.
func (k skill) intro() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Skill %s, from %s. Files that it names lie beside it.\n", k.name, k.path)
	if k.checkout {
		b.WriteString("It arrived with the checkout.\n")
	}
	if len(k.allowed) > 0 {
		fmt.Fprintf(&b, "It names tools that it wants (%s); that allows nothing, the policy decides each call.\n", clip(strings.Join(k.allowed, ", "), maxSkillLine))
	}
	b.WriteString("\n")
	return b.String()
}
