// Package tools holds the built-in tools of an agent, one file each.
//
//	d, err := agentloop.NewDispatcher(agentloop.DispatcherOptions{Tools: tools.All(tools.Options{}), ...})
//
// A tool that touches files does so as one confined command per call: this
// program itself, or a lighter one of the same build, started as a helper
// ([HelperMain], package files) under the same confinement as a command of run_bash. It gets one request on its standard input and gives one
// answer. What a policy denies to cat(1) the kernel therefore denies to read_file,
// whatever became of a path between the decision and the access.
//
// # Limits
//
// The answer of a helper is data that a confined process wrote: it is shown, and
// decides nothing but what the next edit of the same conversation compares with.
package tools

import "sandboxd/agentloop"

// Options are what the tools need of their surroundings. The zero value is for a
// program that calls [HelperMain] first.
type Options struct {
	// Program is the executable that plays the helper. Empty: this process's own.
	Program string
	// Light is another one, of this installation, that plays it for files and starts
	// faster ([files.Main]). Where it does not fit, Program does.
	Light string
	// Build is what both told [HelperMain]: a program of another build does nothing.
	Build string
}

// All returns the built-in tools, in the order in which a model is offered them.
func All(o Options) []agentloop.Tool {
	h := helper{program: o.Program, build: o.Build, light: &lightProgram{path: o.Light}}
	return []agentloop.Tool{
		bashTool{agentloop.BashTool()},
		readTool{h}, writeTool{h}, editTool{h},
		globTool{h}, grepTool{h}, listTool{h},
		resultTool{},
		taskRunTool{}, taskListTool{}, taskOutputTool{}, taskKillTool{},
		todoTool{}, noteTool{}, memoryTool{}, skillTool{h}, askTool{}, compressTool{},
		fetchTool{h},
		subagentTool{},
	}
}
