package settings

import (
	"slices"
	"strings"

	"sandboxd/policy"
)

// schema lists the keys of each table of a policy file. A key that is not here
// is an error. The empty name is the top level.
var schema = map[string][]string{
	"": {"extends", "mode", "default", "confined", "syscalls", "description",
		"rules", "filesystem", "network", "limits", "env", "hooks", "modes", "protect", "profiles",
		"classifier", "ask", "audit", "agent", "mcp", "skills", "daemon",
		"permission_deny_rules", "permission_ask_rules", "permission_allow_rules", "permission_mode"},
	"rules":      {"deny", "ask", "allow"},
	"rule":       {"rule", "reason", "message", "except", "modes", "expires", "match", "not_match"},
	"filesystem": {"read", "write", "deny", "protect", "unprotect", "tmp", "no_exec_write", "strict_names"},
	"protect":    {"paths", "off"},
	"network":    {"allow", "deny", "unix"},
	"limits": {"timeout", "cpu", "memory", "tasks", "file_size", "output", "max_file_size",
		"denials_in_row", "denials_total"},
	"env":        {"pass", "set"},
	"modes":      {"forbid"},
	"mcp":        {"servers"},
	"mcp server": {"command", "args", "env", "url", "headers", "network", "write", "timeout", "tools"},
	"skills":     {"dirs"},
	"agent":      {"provider", "model", "base_url", "key_env", "script", "classifier", "explainer", "explain", "limits", "prices"},
	"agent limits": {"max_steps", "soft_tokens", "hard_tokens", "output_chars", "answer_tokens", "repeats", "stale", "parallel", "depth", "spawns",
		"budget", "time", "silence"},
	"price":      {"input", "output", "cache_read", "cache_write"},
	"classifier": {"allow_above", "deny_below", "timeout", "patience"},
	"audit":      {"on_failure", "run"},
	"ask":        {},
	"daemon":     {},
	"hook":       {"matcher", "if", "command", "timeout", "on_failure", "shape", "write", "network", "type", "hooks"},
}

// keyless are reserved tables without a key, with where such a setting stands.
var keyless = map[string]string{
	"ask":    "no key of [ask] exists; how long a question waits is the daemon's: sandboxd --ask-timeout",
	"daemon": "no key of [daemon] exists; its settings are flags: sandboxd --help",
}

// misplaced maps names that people write, often from other products, to where
// the setting really is.
var misplaced = map[string]string{
	"writable_roots":        "filesystem.write",
	"sandbox":               "filesystem",
	"allowed_hosts":         "network.allow",
	"allowed_domains":       "network.allow",
	"allowedDomains":        "network.allow",
	"hosts":                 "network.allow",
	"network_access":        "network.allow",
	"permissions":           "rules",
	"permission":            "rules",
	"allow":                 "rules.allow",
	"deny":                  "rules.deny",
	"ask":                   "rules.ask",
	"read":                  "filesystem.read",
	"write":                 "filesystem.write",
	"ro":                    "filesystem.read",
	"rw":                    "filesystem.write",
	"allow_write":           "filesystem.write",
	"deny_read":             "filesystem.deny",
	"tmp":                   "filesystem.tmp",
	"strict":                "filesystem.strict_names",
	"windows_names":         "filesystem.strict_names",
	"timeout":               "limits.timeout",
	"memory":                "limits.memory",
	"pids":                  "limits.tasks",
	"processes":             "limits.tasks",
	"max_steps":             "agent.limits.max_steps",
	"budget":                "agent.limits.budget",
	"cost":                  "agent.limits.budget",
	"api_key":               "key_env, the name of a variable that holds the key",
	"apiKey":                "key_env, the name of a variable that holds the key",
	"api_key_env":           "agent.key_env",
	"baseURL":               "agent.base_url",
	"defaultMode":           "mode",
	"default_mode":          "mode",
	"environment":           "env",
	"additionalDirectories": "filesystem.read",
}

// events are the hook events; see the agent loop for when each fires.
var events = []string{"PreToolUse", "PostToolUse", "PermissionRequest", "SessionStart", "SessionStop", "Stop",
	"StepComplete", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "UserPromptSubmit"}

// eventAliases are other names of events: those of the design documents, and of
// Claude Code where it has another.
var eventAliases = map[string]string{
	"on_session_start": "SessionStart", "on_session_stop": "SessionStop", "SessionEnd": "SessionStop", "pre_tool_use": "PreToolUse",
	"post_tool_use": "PostToolUse", "on_step_complete": "StepComplete", "on_subagent_start": "SubagentStart",
	"on_subagent_stop": "SubagentStop", "on_pre_compact": "PreCompact", "on_post_compact": "PostCompact",
}

// canonicalEvent returns our name of an event.
func canonicalEvent(name string) string {
	if c, ok := eventAliases[name]; ok {
		return c
	}
	return name
}

// Modes lists the permission modes.
var Modes = []string{"default", "acceptEdits", "bypassPermissions", "dontAsk", "plan", "auto", "bubble"}

// checkKeys refuses keys of n that the table does not have, naming the nearest
// known one. where is the table's full name for the message.
func (r reader) checkKeys(n *node, name, where string) error {
	for _, m := range n.members {
		if slices.Contains(schema[name], m.key) {
			continue
		}
		full := m.key
		if where != "" {
			full = where + "." + m.key
		}
		return &Error{File: r.file, Line: m.line, Text: "unknown key " + full, Hint: suggest(m.key, name, where)}
	}
	return nil
}

// suggest names the key that was meant.
func suggest(key, name, where string) string {
	if hint, ok := keyless[name]; ok {
		return hint
	}
	if near := nearest(key, schema[name]); near != "" {
		if where != "" {
			near = where + "." + near
		}
		return "did you mean " + near + "?"
	}
	if at, ok := misplaced[key]; ok && at != strings.TrimPrefix(where+"."+key, ".") {
		return "did you mean " + at + "?"
	}
	// The same key may belong to another table.
	for _, other := range []string{"", "rules", "filesystem", "network", "limits", "env"} {
		if other != name && slices.Contains(schema[other], key) {
			if other == "" {
				return "did you mean " + key + " at the top level?"
			}
			return "did you mean " + other + "." + key + "?"
		}
	}
	known := slices.Clone(schema[name])
	slices.Sort(known)
	return "known keys here: " + strings.Join(known, ", ")
}

// nearest returns the known name closest to name, when it is close enough to be
// a slip: a third of its letters, or one contains the other.
func nearest(name string, known []string) string {
	best, edits := "", max(len(name)/3, 1)+1
	if len(name) >= 4 {
		edits = max(edits, 3) // two letters changed places
	}
	lower := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
	for _, k := range known {
		flat := strings.ToLower(strings.ReplaceAll(k, "_", ""))
		d := policy.EditDistance(lower, flat)
		if len(flat) >= 4 && len(lower) >= 4 && (strings.Contains(lower, flat) || strings.Contains(flat, lower)) {
			d = min(d, 1)
		}
		// allowed_hosts means allow.
		if rest, ok := strings.CutPrefix(lower, flat); ok && rest != "" && len(flat) >= 4 {
			d = 0
		}
		if d < edits {
			best, edits = k, d
		}
	}
	return best
}
