package path

// protected is the table. What is here is read by another program as orders,
// without anybody starting the project's own build: by git at any command, by a
// shell or an editor or an agent when it starts, by direnv on cd.
//
// Sources: git-config(1), gitrepository-layout(5), githooks(5),
// gitattributes(5), bash(1) INVOCATION, zsh(1) STARTUP/SHUTDOWN FILES, the
// settings pages of the named editors and agents, and the list of dangerous
// files in the design document (rows 93 and 94 of docs/requirements.md).
var protected = []Entry{
	// Inside a git directory, also a submodule's or a linked worktree's.
	{".git/hooks", GitHooks, LevelKernel, "git runs the programs in it"},
	{".git/config", GitConfig, LevelKernel, "git runs programs named in it"},
	{".git/config.worktree", GitConfig, LevelKernel, "git runs programs named in it"},
	{".git/info/attributes", GitAttributes, LevelKernel, "it selects filters and drivers, which are programs"},
	{".git/commondir", GitLink, LevelKernel, "git reads its configuration and hooks from where it points"},
	{".git/modules/*/hooks", GitHooks, LevelCheck, "git runs the programs in it when it enters the submodule"},
	{".git/modules/*/config", GitConfig, LevelCheck, "git runs programs named in it when it enters the submodule"},
	{".git/modules/*/info/attributes", GitAttributes, LevelCheck, "it selects filters and drivers, which are programs"},
	{".git/worktrees/*/config.worktree", GitConfig, LevelCheck, "git runs programs named in it when it enters the worktree"},
	{".git/worktrees/*/commondir", GitLink, LevelCheck, "git reads its configuration and hooks from where it points"},
	{".git/worktrees/*/gitdir", GitLink, LevelAsk, "git removes or repairs what it points to"},
	// The rest of .git is written by every honest git command, so nothing but
	// a question holds it. As a file or a link, .git names another repository,
	// and is judged by the guard.
	{".git", GitData, LevelAsk, "it holds the repository; git should change it, not a tool that writes files"},
	{".gitmodules", GitModules, LevelKernel, "git fetches from and runs what it names when submodules are updated"},
	// Changed by every checkout; harmless until a config defines the filter.
	{".gitattributes", GitAttributes, LevelAsk, "it selects filters and drivers, which are programs"},

	// Homes, and workspaces that are used as one.
	{".gitconfig", GitConfig, LevelKernel, "git runs programs named in it"},
	{".config/git", GitConfig, LevelKernel, "git runs programs named in it"},
	{".bashrc", ShellStart, LevelKernel, "bash runs it at start"},
	{".bash_profile", ShellStart, LevelKernel, "bash runs it at login"},
	{".bash_login", ShellStart, LevelKernel, "bash runs it at login"},
	{".bash_logout", ShellStart, LevelKernel, "bash runs it at logout"},
	{".bash_aliases", ShellStart, LevelKernel, "the usual .bashrc runs it"},
	{".profile", ShellStart, LevelKernel, "shells run it at login"},
	{".zshrc", ShellStart, LevelKernel, "zsh runs it at start"},
	{".zshenv", ShellStart, LevelKernel, "zsh runs it at start, also for scripts"},
	{".zprofile", ShellStart, LevelKernel, "zsh runs it at login"},
	{".zlogin", ShellStart, LevelKernel, "zsh runs it at login"},
	{".zlogout", ShellStart, LevelKernel, "zsh runs it at logout"},
	{".kshrc", ShellStart, LevelKernel, "ksh runs it at start"},
	{".cshrc", ShellStart, LevelKernel, "csh runs it at start"},
	{".tcshrc", ShellStart, LevelKernel, "tcsh runs it at start"},
	{".config/fish", ShellStart, LevelKernel, "fish runs the files in it at start"},
	{".inputrc", ShellStart, LevelKernel, "readline binds keys to commands as it says"},
	{".xprofile", ShellStart, LevelKernel, "the display manager runs it at login"},
	{".xinitrc", ShellStart, LevelKernel, "startx runs it"},
	{".xsessionrc", ShellStart, LevelKernel, "the display manager runs it at login"},
	{".config/autostart", ShellStart, LevelKernel, "the desktop starts what it names"},
	{".config/systemd", ShellStart, LevelKernel, "the user's service manager starts what it names"},
	{".config/environment.d", ShellStart, LevelKernel, "the user's service manager sets variables from it"},
	{".local/share/systemd", ShellStart, LevelKernel, "the user's service manager starts what it names"},
	{".ssh", ShellStart, LevelKernel, "it says who may log in, and which programs ssh starts"},
	{".netrc", ToolSettings, LevelKernel, "git and curl take credentials for a host from it"},

	// Read on entering a directory or on the next command in it.
	{".envrc", ToolSettings, LevelKernel, "direnv runs it"},
	{".npmrc", ToolSettings, LevelKernel, "npm starts the shell and sets the node options it names"},
	{".yarnrc.yml", ToolSettings, LevelKernel, "yarn is replaced by the program it names"},
	{".husky", GitHooks, LevelKernel, "husky's git hooks are in it"},
	{".gdbinit", ToolSettings, LevelKernel, "gdb runs the commands in it"},
	{".lldbinit", ToolSettings, LevelKernel, "lldb runs the commands in it"},

	// Editors that open the directory.
	{".vscode", EditorSettings, LevelKernel, "the editor runs tasks and programs named in it"},
	{".idea", EditorSettings, LevelKernel, "the editor runs configurations and programs named in it"},
	{".zed", EditorSettings, LevelKernel, "the editor runs tasks and programs named in it"},
	{".fleet", EditorSettings, LevelKernel, "the editor runs configurations named in it"},
	{".devcontainer", EditorSettings, LevelKernel, "commands in it run when the container is made, some on the host"},
	{".devcontainer.json", EditorSettings, LevelKernel, "commands in it run when the container is made, some on the host"},
	{".exrc", EditorSettings, LevelKernel, "vi runs the commands in it"},
	{".vimrc", EditorSettings, LevelKernel, "vim runs the commands in it"},
	{".nvimrc", EditorSettings, LevelKernel, "neovim runs the commands in it"},
	{".nvim.lua", EditorSettings, LevelKernel, "neovim runs it"},
	{".dir-locals.el", EditorSettings, LevelKernel, "emacs evaluates forms in it"},
	{".emacs", EditorSettings, LevelKernel, "emacs runs it"},
	{".emacs.d", EditorSettings, LevelKernel, "emacs runs the files in it"},

	// Agents that start in the directory: hooks, MCP servers, permissions.
	{".mcp.json", AgentSettings, LevelKernel, "agents start the servers named in it"},
	{".claude", AgentSettings, LevelKernel, "the agent takes hooks, servers and permissions from it"},
	{".claude.json", AgentSettings, LevelKernel, "the agent takes servers and permissions from it"},
	{".codex", AgentSettings, LevelKernel, "the agent takes servers and permissions from it"},
	{".gemini", AgentSettings, LevelKernel, "the agent takes hooks, servers and permissions from it"},
	{".opencode", AgentSettings, LevelKernel, "the agent runs plugins in it"},
	{"opencode.json", AgentSettings, LevelKernel, "the agent takes servers and permissions from it"},
	{"opencode.jsonc", AgentSettings, LevelKernel, "the agent takes servers and permissions from it"},
	{".cursor", AgentSettings, LevelKernel, "the agent takes hooks, servers and permissions from it"},
	{".windsurf", AgentSettings, LevelKernel, "the agent takes hooks and servers from it"},
	{".continue", AgentSettings, LevelKernel, "the agent takes servers from it"},
	{".roo", AgentSettings, LevelKernel, "the agent takes servers from it"},
	{".kiro", AgentSettings, LevelKernel, "the agent takes hooks and servers from it"},
	{".amazonq", AgentSettings, LevelKernel, "the agent takes servers from it"},
	{".srt-settings.json", AgentSettings, LevelKernel, "it says what the agent's sandbox permits"},
	{".aider.conf.yml", AgentSettings, LevelKernel, "the agent takes lint and test commands from it"},
	// Aider's chat history and caches are honest output; the rest is settings.
	{".aider.chat.history.md", AgentSettings, LevelAsk, "it is the agent's memory"},
	{".aider*", AgentSettings, LevelAsk, "the agent keeps its settings and memory in it"},

	// Our own policy, which a confined command may never loosen.
	{"sandboxd.toml", OwnPolicy, LevelKernel, "it says what commands may do"},
	{".sandboxd", OwnPolicy, LevelKernel, "it says what commands may do"},
	{".sandboxd.toml", OwnPolicy, LevelKernel, "it says what commands may do"},
	{"sandboxd.local.toml", OwnPolicy, LevelKernel, "it says what commands may do"},
	{".sandboxd*", OwnPolicy, LevelCheck, "it says what commands may do"},
}

// gitHookNames are the names git starts from a hooks directory; githooks(5) of
// git 2.39 to 2.51. Files whose names are not here are judged by their execute
// bit, since later versions know more.
var gitHookNames = map[string]bool{
	"applypatch-msg": true, "pre-applypatch": true, "post-applypatch": true,
	"pre-commit": true, "pre-merge-commit": true, "prepare-commit-msg": true,
	"commit-msg": true, "post-commit": true, "pre-rebase": true,
	"post-checkout": true, "post-merge": true, "pre-push": true,
	"pre-receive": true, "update": true, "proc-receive": true,
	"post-receive": true, "post-update": true, "reference-transaction": true,
	"push-to-checkout": true, "pre-auto-gc": true, "post-rewrite": true,
	"sendemail-validate": true, "fsmonitor-watchman": true,
	"post-index-change": true, "p4-changelist": true,
	"p4-prepare-changelist": true, "p4-post-changelist": true,
	"p4-pre-submit": true,
}
