package policy

import "strings"

// Access is what a tool does with a path argument.
type Access uint8

const (
	AccessRead Access = iota
	AccessWrite
)

// PathArg declares one argument of a tool that holds a path.
type PathArg struct {
	Field  string
	Access Access
	// Start is true when a missing argument means the working directory.
	Start bool
}

// Tool is what the decision needs to know about a tool. The zero Tool is the
// cautious one: its content is unknown and every call may write.
type Tool struct {
	// Name is the canonical name (run_bash), which rules and audit use.
	Name string
	// ReadOnly tools change nothing outside the session.
	ReadOnly bool
	// Paths are all arguments that hold paths.
	Paths []PathArg
	// Patterns are arguments that choose files by a pattern, from the first
	// path argument, or the start directory, on.
	Patterns []string
	// Command lists the arguments that hold a Bash script. Several are given
	// only by a confused or hostile client; then each is judged.
	Command []string
	// Dir lists the arguments that hold the working directory of Command.
	Dir []string
	// URL, Agent and Text list the arguments with an address, the type of a
	// sub-agent and any other text that a rule's content is compared with.
	URL, Agent, Text []string
	// Body lists the arguments with what a write tool writes.
	Body []string
	// Other lists arguments without meaning for rules (limits, descriptions).
	Other []string
}

// builtinTools is the table of our tools and their arguments, under every name
// of an argument that a known client uses.
var builtinTools = []Tool{
	{Name: "run_bash", Command: []string{"command", "cmd", "script"}, Dir: []string{"working_dir", "cwd", "workdir"},
		Other: []string{"description", "timeout", "timeout_ms", "run_in_background", "dangerouslyDisableSandbox", "is_background", "dir_path"}},
	{Name: "bg_task_run", Command: []string{"command", "cmd", "script"}, Dir: []string{"working_dir", "cwd", "workdir"},
		Other: []string{"description", "timeout"}},
	{Name: "bg_task_list", ReadOnly: true},
	{Name: "bg_task_output", ReadOnly: true, Text: []string{"task"}, Other: []string{"offset", "wait"}},
	{Name: "bg_task_kill", ReadOnly: true, Text: []string{"task"}},
	{Name: "read_file", ReadOnly: true, Paths: []PathArg{{Field: "file_path"}, {Field: "path"}, {Field: "filePath"}, {Field: "absolute_path"}, {Field: "notebook_path"}},
		Other: []string{"offset", "limit", "pages", "start_line", "end_line"}},
	{Name: "file_write", Paths: []PathArg{{Field: "file_path", Access: AccessWrite}, {Field: "path", Access: AccessWrite}, {Field: "filePath", Access: AccessWrite}},
		Body: []string{"content", "contents", "text"}, Other: []string{"description"}},
	{Name: "file_edit", Paths: []PathArg{{Field: "file_path", Access: AccessWrite}, {Field: "path", Access: AccessWrite}, {Field: "filePath", Access: AccessWrite}, {Field: "notebook_path", Access: AccessWrite}},
		Body:  []string{"new_string", "newString", "new_source", "content"},
		Other: []string{"old_string", "oldString", "replace_all", "replaceAll", "edits", "expected_replacements", "instruction", "cell_id", "cell_type", "edit_mode"}},
	{Name: "grep_files", ReadOnly: true, Paths: []PathArg{{Field: "path", Start: true}, {Field: "dir_path"}}, Text: []string{"pattern"}, Patterns: []string{"glob", "include"},
		Other: []string{"type", "output_mode", "-A", "-B", "-C", "-n", "-i", "context", "head_limit", "offset", "multiline", "case_sensitive"}},
	{Name: "glob_files", ReadOnly: true, Paths: []PathArg{{Field: "path", Start: true}, {Field: "dir_path"}}, Text: []string{"pattern"}, Patterns: []string{"pattern"},
		Other: []string{"case_sensitive", "respect_git_ignore"}},
	{Name: "list_dir", ReadOnly: true, Paths: []PathArg{{Field: "path", Start: true}, {Field: "dir_path"}}, Other: []string{"ignore"}},
	{Name: "web_fetch", URL: []string{"url"}, Other: []string{"prompt", "format", "timeout"}},
	{Name: "web_search", Text: []string{"query"}, Other: []string{"allowed_domains", "blocked_domains"}},
	// A sub-agent does nothing by being started: each of its calls is decided.
	{Name: "subagent", ReadOnly: true, Agent: []string{"subagent_type", "agent_type", "type", "agent"},
		Other: []string{"description", "prompt", "model", "mode", "tools", "max_turns", "run_in_background"}},
	{Name: "load_skill", ReadOnly: true, Text: []string{"name", "skill"}, Other: []string{"args"}},
	{Name: "todo_write", ReadOnly: true, Other: []string{"todos", "merge"}},
	{Name: "save_note", ReadOnly: true, Text: []string{"title"}, Body: []string{"content", "text", "note"}},
	{Name: "save_memory", Text: []string{"key"}, Body: []string{"content", "text", "fact"}, Other: []string{"forget"}},
	{Name: "ask_user", ReadOnly: true, Other: []string{"question", "questions", "options"}},
	{Name: "compress_context", ReadOnly: true, Other: []string{"focus"}},
	{Name: "read_result", ReadOnly: true, Other: []string{"id", "offset", "limit"}},
}

// toolAliases are the names that other agents give to the same tools.
var toolAliases = map[string]string{
	"Bash": "run_bash", "bash": "run_bash", "run_shell_command": "run_bash", "shell": "run_bash",
	"exec_command": "run_bash", "local_shell": "run_bash",
	"Read": "read_file", "read": "read_file", "NotebookRead": "read_file",
	"Write": "file_write", "write": "file_write", "write_file": "file_write",
	"Edit": "file_edit", "edit": "file_edit", "MultiEdit": "file_edit", "NotebookEdit": "file_edit", "replace": "file_edit",
	"Grep": "grep_files", "grep": "grep_files", "search_file_content": "grep_files", "grep_search": "grep_files",
	"Glob": "glob_files", "glob": "glob_files",
	"LS": "list_dir", "list": "list_dir", "list_directory": "list_dir",
	"WebFetch": "web_fetch", "webfetch": "web_fetch",
	"WebSearch": "web_search", "websearch": "web_search", "google_web_search": "web_search",
	"Agent": "subagent", "Task": "subagent", "task": "subagent",
	"Skill": "load_skill", "skill": "load_skill",
	"TodoWrite": "todo_write", "todowrite": "todo_write", "write_todos": "todo_write",
	"AskUserQuestion": "ask_user",
	"BashOutput":      "bg_task_output", "TaskOutput": "bg_task_output",
	"KillShell": "bg_task_kill", "KillBash": "bg_task_kill", "TaskStop": "bg_task_kill",
}

// CanonicalTool returns our name of the tool that a client calls name. A name
// that is not in the tables is returned as it is.
func CanonicalTool(name string) string {
	if c, ok := toolAliases[name]; ok {
		return c
	}
	return name
}

// BuiltinTool returns what is declared of one of our tools, under any of its names.
func BuiltinTool(name string) (Tool, bool) { return builtinTool(CanonicalTool(name)) }

// builtinTool returns the table's entry of a canonical name.
func builtinTool(name string) (Tool, bool) {
	for i := range builtinTools {
		if builtinTools[i].Name == name {
			return builtinTools[i], true
		}
	}
	return Tool{}, false
}

// IsMCPTool reports whether name has the form mcp__SERVER__TOOL.
func IsMCPTool(name string) bool {
	server, tool := splitMCP(name)
	return server != "" && tool != ""
}

// splitMCP cuts mcp__SERVER__TOOL; tool is empty for mcp__SERVER.
func splitMCP(name string) (server, tool string) {
	rest, ok := strings.CutPrefix(name, "mcp__")
	if !ok {
		return "", ""
	}
	server, tool, _ = strings.Cut(rest, "__")
	return server, tool
}

// genericContent are the arguments of a tool without declaration that hold what
// rules are about (the design's list, and the other spellings of command).
var genericContent = struct{ command, path, url, text []string }{
	command: []string{"command", "cmd", "script", "shell_command", "commandline", "command_line", "bash", "shell", "code", "argv"},
	path:    []string{"file_path", "path", "filePath", "absolute_path", "notebook_path", "file", "filename", "dir_path", "directory"},
	url:     []string{"url", "uri"},
	text:    []string{"pattern", "query"},
}
