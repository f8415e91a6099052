package settings

import (
	"strings"

	"sandboxd/policy"
)

// importCodexConfig reads what a config.toml of Codex says about approval,
// sandbox and environment.
func importCodexConfig(source policy.Source, data []byte) (*Policy, []Imported, error) {
	root, err := parseTOML(source.File, data)
	if err != nil {
		return nil, nil, err
	}
	i := newImporter(source)
	for _, m := range root.members {
		var err error
		switch m.key {
		case "approval_policy":
			i.codexApproval(m, root.get("sandbox_mode"))
		case "sandbox_mode":
			i.codexSandboxMode(m, root.get("approval_policy"))
		case "sandbox_workspace_write":
			err = i.codexWorkspace(m.value, root.get("sandbox_mode"))
		case "shell_environment_policy":
			err = i.codexEnvironment(m.value)
		case "mcp_servers":
			i.note(m.line, m.key, Refused, "MCP servers belong into [mcp]")
		case "profiles", "permissions", "default_permissions":
			i.note(m.line, m.key, Refused, "import what you use of it as a file of its own")
		case "projects":
			i.note(m.line, m.key, Refused, "projects are trusted by sbx trust alone")
		case "hooks", "notify":
			i.note(m.line, m.key, Refused, "commands that other agents start are not taken over")
		default:
			i.note(m.line, m.key, Skipped, "not part of a policy")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return i.result()
}

// codexApproval maps when Codex asks. "never" means that nothing is asked: what
// would be asked about is denied here.
func (i *importer) codexApproval(m member, sandbox *node) {
	word := m.value.text
	text := "approval_policy " + quote(word)
	from := i.p.source(m.line)
	switch word {
	case "untrusted":
		i.p.Mode = set("default", from)
		i.note(m.line, text, Kept, "", "mode default")
	case "on-request", "on-failure":
		i.p.Mode = set("default", from)
		i.note(m.line, text, Narrowed, "asked before, not after a failure; see sandbox_mode for what needs no question", "mode default")
	case "never":
		i.p.Mode = set("dontAsk", from)
		i.note(m.line, text, Kept, "", "mode dontAsk")
	default:
		i.note(m.line, text, Refused, "no equal here")
	}
}

// codexSandboxMode maps the sandbox. Codex runs a confined command without a
// question, unless approval_policy is "untrusted".
func (i *importer) codexSandboxMode(m member, approval *node) {
	text := "sandbox_mode " + quote(m.value.text)
	from := i.p.source(m.line)
	switch m.value.text {
	case "read-only":
		// A workspace that nothing may be written in.
		i.p.Paths = append(i.p.Paths, policy.PathGrant{Path: ".", Access: policy.GrantProtect, Source: from})
		i.note(m.line, text, Kept, "", "filesystem protect .")
	case "workspace-write":
		if word := approval; word.isText() && (word.text == "on-request" || word.text == "on-failure" || word.text == "never") {
			i.p.Confined = set("allow", from)
			i.note(m.line, text, Kept, "only where confinement is complete", "confined allow")
			return
		}
		i.note(m.line, text, Kept, "commands are asked about")
	case "danger-full-access":
		i.note(m.line, text, Refused, "commands stay confined")
	default:
		i.note(m.line, text, Refused, "no equal here")
	}
}

func (i *importer) codexWorkspace(n *node, sandbox *node) error {
	if !n.isTable() {
		return i.errorf(n, "sandbox_workspace_write must be a table, not %s", n.kind)
	}
	active := sandbox.isText() && sandbox.text == "workspace-write"
	for _, m := range n.members {
		text := "sandbox_workspace_write." + m.key
		switch m.key {
		case "writable_roots":
			items, err := i.textsOf(m.value, m.key)
			if err != nil {
				return err
			}
			for _, item := range items {
				if !active || !strings.HasPrefix(item.text, "/") && !strings.HasPrefix(item.text, "~/") {
					i.note(item.line, "writable_roots "+shorten(item.text), Refused, "Codex takes absolute paths, and in sandbox_mode workspace-write only")
					continue
				}
				i.path(item.line, "writable_roots "+shorten(item.text), item.text, policy.GrantWrite, Kept, "")
			}
		case "network_access":
			if m.value.isTrue() && active {
				i.p.Network = append(i.p.Network, Entry{"full", i.p.source(m.line)})
				i.note(m.line, text, Kept, "", "network full")
				continue
			}
			i.note(m.line, text, Kept, "no network")
		case "exclude_slash_tmp", "exclude_tmpdir_env_var":
			if m.value.isTrue() {
				i.p.Tmp = set("none", i.p.source(m.line))
				i.note(m.line, text, Narrowed, "no temporary directory at all", "filesystem.tmp none")
				continue
			}
			i.note(m.line, text, Narrowed, "the temporary directory is private")
		default:
			i.note(m.line, text, Skipped, "unknown to this importer; it permits nothing here")
		}
	}
	return nil
}

// codexEnvironment: the environment is an allow list here, so "inherit" and
// "exclude" have nothing to add.
func (i *importer) codexEnvironment(n *node) error {
	if !n.isTable() {
		return i.errorf(n, "shell_environment_policy must be a table, not %s", n.kind)
	}
	for _, m := range n.members {
		text := "shell_environment_policy." + m.key
		switch m.key {
		case "set":
			for _, v := range m.value.members {
				if !v.value.isText() || !plainVariable(v.key) {
					i.note(v.line, text+" "+quote(v.key), Refused, "not a variable with a string that may be set")
					continue
				}
				i.p.EnvSet = append(i.p.EnvSet, Entry{v.key + "=" + v.value.text, i.p.source(v.line)})
				i.note(v.line, text+" "+v.key, Kept, "", "env.set "+v.key)
			}
		case "include_only":
			items, err := i.textsOf(m.value, m.key)
			if err != nil {
				return err
			}
			for _, item := range items {
				if !plainVariable(item.text) {
					i.note(item.line, text+" "+quote(item.text), Refused, "name the variables one by one")
					continue
				}
				i.p.EnvPass = append(i.p.EnvPass, Entry{item.text, i.p.source(item.line)})
				i.note(item.line, text+" "+item.text, Kept, "", "env.pass "+item.text)
			}
		case "inherit", "ignore_default_excludes":
			i.note(m.line, text, Narrowed, "only the built-in list and env.pass travel")
		case "exclude":
			i.note(m.line, text, Kept, "nothing travels that is not named")
		default:
			i.note(m.line, text, Skipped, "unknown to this importer; it permits nothing here")
		}
	}
	return nil
}

// plainVariable reports whether name is a variable that a file of another agent
// may hand over: letters, digits and _ only.
func plainVariable(name string) bool { return isAssignment(name + "=") }
