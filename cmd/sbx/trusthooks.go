package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"sandboxd/agentloop"
	"sandboxd/policy"
	"sandboxd/policy/settings"
)

// allToTrust returns the named files, or all: the project's policy files, and the
// programs of the project that hooks name. Definitions of sub-agents are named.
func (p *program) allToTrust(e *settings.Effective, paths, digests []string) ([]fileToTrust, error) {
	programs, err := p.hookPrograms(e)
	if err != nil {
		return nil, err
	}
	all := len(paths) == 0
	if !all { // a prompt is trusted by name alone
		for _, d := range agentloop.CheckoutAgentDefs(e.Workspace) {
			programs = append(programs, fileToTrust{path: d.File, content: d.Content(), agent: d.Name})
		}
	}
	isProgram := func(path string) bool {
		return slices.ContainsFunc(programs, func(f fileToTrust) bool { return f.path == path })
	}
	policies := slices.DeleteFunc(slices.Clone(paths), isProgram)
	var files []fileToTrust
	if len(policies) > 0 || all && (len(e.ProjectFiles()) > 0 || len(programs) == 0) {
		if files, err = filesToTrust(e, policies, digests); err != nil {
			return nil, err
		}
	}
	for _, f := range programs {
		if !all && !slices.Contains(paths, f.path) {
			continue
		}
		if len(digests) > 0 && !slices.Contains(digests, settings.Digest(f.content)) {
			return nil, &failure{code: exitSandbox, stage: "trust", hint: "look at it again: sbx trust --dry-run",
				err: fmt.Errorf("the content of %s has another digest (%s)", f.path, settings.Digest(f.content))}
		}
		files = append(files, f)
	}
	return files, nil
}

// hookPrograms returns the files of the project that the hooks in force, and
// those of the project's own policy files, name. They are read once: what is
// shown is what is trusted.
func (p *program) hookPrograms(e *settings.Effective) ([]fileToTrust, error) {
	hooks := slices.Clone(e.Hooks)
	for _, path := range e.ProjectFiles() {
		if filepath.Base(path) == settings.MCPFile {
			continue // it has none
		}
		content, ok := e.ProjectContent(path)
		if !ok {
			continue
		}
		own, err := settings.Parse(policy.Source{Kind: policy.SourceProject, File: path}, content)
		if err != nil {
			return nil, settingsFailure(err)
		}
		hooks = append(hooks, own.Hooks...)
	}
	if len(hooks) == 0 {
		return nil, nil
	}
	caller, _ := agentloop.CurrentCaller(p.environ)
	var files []fileToTrust
	for _, h := range hooks {
		found, err := agentloop.HookFiles(agentloop.HookSpec(h), agentloop.HookEnvironment{Caller: caller, Workspace: e.Workspace})
		if err != nil {
			p.note("warning", fmt.Sprintf("hook %s %s will not start: %v", h.Event, oneLine(h.Command), err))
		}
		for _, f := range found {
			if !slices.ContainsFunc(files, func(have fileToTrust) bool { return have.path == f.Path }) {
				files = append(files, fileToTrust{path: f.Path, content: f.Content, hook: h.Command})
			}
		}
	}
	return files, nil
}
