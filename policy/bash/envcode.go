package bash

import (
	"slices"
	"strings"
	"sync"
)

// envRule is a variable through which programs start others.
type envRule struct {
	name string
	// users are the programs that obey it; "*" means any.
	users string
	role  byte
}

// envRules lists variables that carry commands, code or libraries, from the
// manuals of the programs named.
var envRules = []envRule{
	{"PAGER", "git man systemctl journalctl psql mysql gh aws bat perldoc pydoc ri gcloud docker apt-listchanges hg svn", roleShell},
	{"MANPAGER", "man", roleShell},
	{"BROWSER", "man git xdg-open sensible-browser gh python python3 npm", roleShell},
	{"GIT_PAGER", "git", roleShell},
	{"EDITOR", "git crontab visudo sudoedit sudo less more psql mysql systemctl kubectl hg svn vipw edquota sensible-editor fc bash gh ed dpkg ranger mutt", roleShell},
	{"VISUAL", "git crontab visudo sudoedit sudo less more psql mysql systemctl kubectl hg svn vipw edquota sensible-editor fc bash gh mutt", roleShell},
	{"GIT_EDITOR", "git", roleShell},
	{"GIT_SEQUENCE_EDITOR", "git", roleShell},
	{"GIT_SSH_COMMAND", "git", roleShell},
	{"GIT_SSH", "git", roleProgram},
	{"GIT_EXTERNAL_DIFF", "git", roleShell},
	{"GIT_ASKPASS", "git", roleProgram},
	{"GIT_PROXY_COMMAND", "git", roleShell},
	{"GIT_TRACE_SETUP", "", roleUnsafe},
	{"SSH_ASKPASS", "git ssh scp sftp ssh-add sudo", roleProgram},
	{"SUDO_ASKPASS", "sudo", roleProgram},
	{"SUDO_EDITOR", "sudo sudoedit", roleShell},
	{"SYSTEMD_EDITOR", "systemctl", roleShell},
	{"SYSTEMD_PAGER", "systemctl journalctl", roleShell},
	{"LESSOPEN", "less man git lesspipe", roleShell},
	{"LESSCLOSE", "less man git", roleShell},
	{"LESSEDIT", "less", roleShell},
	{"LESSSECURE", "", roleUnsafe},
	{"RSYNC_RSH", "rsync", roleShell},
	{"RSYNC_CONNECT_PROG", "rsync", roleShell},
	{"CVS_RSH", "cvs git", roleShell},
	{"SVN_SSH", "svn git", roleShell},
	{"HGEDITOR", "hg", roleShell},
	{"CVSEDITOR", "cvs", roleShell},
	{"FCEDIT", "fc bash", roleShell},
	{"TAR_OPTIONS", "tar", roleUnsafe},
	{"TAPE", "", roleUnsafe},
	{"ZIPOPT", "zip", roleUnsafe},
	{"ZIP", "zip", roleUnsafe},
	{"MANOPT", "man", roleUnsafe},
	{"VALGRIND_OPTS", "valgrind", roleUnsafe},
	{"FZF_DEFAULT_OPTS", "fzf", roleUnsafe},
	{"PARALLEL", "parallel", roleUnsafe},
	{"HARNESS_PERL", "prove", roleShell},
	{"HARNESS_PERL_SWITCHES", "prove perl", roleCode},
	{"GCC_EXEC_PREFIX", "gcc g++ cc c++ make", roleLoad},
	{"COMPILER_PATH", "gcc g++ cc c++ make", roleLoad},
	{"FZF_DEFAULT_COMMAND", "fzf", roleShell},
	{"SHELL", "script vim ex vi less more ed tmux screen make watch xterm parallel find man ssh su sudo mutt mc ranger nano flock emacs entr runuser sg newgrp unshare nsenter chroot fakeroot fakeroot-sysv fakeroot-tcp proot firejail ftp mail mailx lftp telnet gdb", roleProgram},
	{"MAKEFLAGS", "make gmake", roleCode},
	{"GNUMAKEFLAGS", "make gmake", roleCode},
	{"MAKEFILES", "make gmake", roleFile},
	{"CC", "make gmake cargo go pip pip3 npm configure cmake meson", roleShell},
	{"CXX", "make gmake cargo go pip pip3 npm configure cmake meson", roleShell},
	{"LD", "make gmake pip pip3", roleShell},
	{"AR", "make gmake cargo go pip pip3", roleShell},
	{"GOFLAGS", "go", roleUnsafe},
	{"RUSTC", "cargo", roleShell},
	{"RUSTC_WRAPPER", "cargo", roleShell},
	{"RUSTC_WORKSPACE_WRAPPER", "cargo", roleShell},
	{"RUSTDOC", "cargo", roleShell},
	{"PERL5OPT", "perl git prove cpan *perl", roleCode},
	{"PERL5DB", "perl", roleCode},
	{"PERL5LIB", "perl git prove cpan", roleLoad},
	{"PYTHONSTARTUP", "python python3 ipython", roleFile},
	{"PYTHONPATH", "python python3 pytest pip pip3", roleLoad},
	{"PYTHONHOME", "python python3 pytest pip pip3", roleLoad},
	{"PYTHONBREAKPOINT", "python python3", roleUnsafe},
	{"PYTHONWARNINGS", "python python3", roleUnsafe},
	{"NODE_OPTIONS", "node npm npx yarn pnpm tsc eslint nodejs", roleCode},
	{"NODE_PATH", "node npm npx yarn pnpm", roleLoad},
	{"npm_config_script_shell", "npm npx", roleShell},
	{"NPM_CONFIG_SCRIPT_SHELL", "npm npx", roleShell},
	{"RUBYOPT", "ruby gem bundle rake irb", roleCode},
	{"RUBYLIB", "ruby gem bundle rake", roleLoad},
	{"JAVA_TOOL_OPTIONS", "java javac mvn gradle", roleCode},
	{"_JAVA_OPTIONS", "java javac mvn gradle", roleCode},
	{"LUA_INIT", "lua", roleCode},
	{"AWKPATH", "", roleUnsafe},
	{"GAWK_READ_TIMEOUT", "", roleUnsafe},
	{"BASH_ENV", "", roleUnsafe},
	{"ENV", "", roleUnsafe},
	{"LD_PRELOAD", "*", roleLoad},
	{"LD_AUDIT", "*", roleLoad},
	{"LD_LIBRARY_PATH", "*", roleUnsafe},
	{"GCONV_PATH", "*", roleLoad},
	{"DYLD_INSERT_LIBRARIES", "*", roleLoad},
	{"GTK_MODULES", "", roleUnsafe},
	{"RIPGREP_CONFIG_PATH", "rg", roleFile},
	{"INPUTRC", "bash", roleUnsafe},
	{"HISTFILE", "bash sh zsh", roleWrite}, // when an interactive shell ends
	{"PSQL_EDITOR", "psql", roleShell},
	{"PSQL_PAGER", "psql", roleShell},
	{"MYSQL_HISTFILE", "", roleUnsafe},
	{"KUBE_EDITOR", "kubectl", roleShell},
	{"GH_PAGER", "gh", roleShell},
	{"GH_EDITOR", "gh", roleShell},
	{"GH_BROWSER", "gh", roleShell},
	{"BAT_PAGER", "bat batcat", roleShell},
	{"AWS_PAGER", "aws", roleShell},
	{"DELTA_PAGER", "delta", roleShell},
	{"TEXEDIT", "tex latex pdflatex", roleShell},
	{"MOSH_SERVER", "mosh", roleShell},
	{"DOCKER_HOST", "", roleUnsafe},
	{"VIMINIT", "vim vi ex nvim view", roleCode},
	{"EXINIT", "vim vi ex nvim view", roleCode},
	{"MYVIMRC", "vim vi ex nvim", roleFile},
	{"LESS", "less man git", roleUnsafe},
	{"PYTEST_ADDOPTS", "pytest", roleUnsafe},
	{"PYTEST_PLUGINS", "pytest python python3", roleLoad},
	{"GIT_CONFIG_PARAMETERS", "", roleUnsafe},
	{"XDG_CONFIG_HOME", "", roleUnsafe},
	{"HOME", "", roleUnsafe},
	{"GDBHISTFILE", "", roleUnsafe},
	{"MANROFFOPT", "", roleUnsafe},
	{"STRACE_LOG", "", roleUnsafe},
	{"CARGO_BUILD_RUSTC_WRAPPER", "cargo", roleShell},
	{"CCACHE_PREFIX", "ccache", roleShell},
	{"DISTCC_CMDLIST", "", roleUnsafe},
	{"WATCH_INTERVAL", "", roleUnsafe},
	{"PIP_CONFIG_FILE", "", roleUnsafe},
}

// envIndex finds a rule by the name of its variable.
var envIndex = sync.OnceValue(func() map[string]*envRule {
	m := make(map[string]*envRule, len(envRules))
	for i := range envRules {
		m[envRules[i].name] = &envRules[i]
	}
	return m
})

// envCode follows variables that the script set and that this program obeys.
func (a *analyzer) envCode(v *invocation, name string, p *program) {
	if len(v.env) == 0 && len(v.st.vars) == 0 || a.depth > maxDepth/2 {
		return
	}
	for _, b := range v.env {
		a.envRule(v, name, b.name, b.alts)
	}
	if len(v.st.vars) == 0 {
		return
	}
	var names []string
	index := envIndex()
	for n := range v.st.vars {
		if index[n] != nil || strings.HasPrefix(n, "CARGO_TARGET_") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		a.envRule(v, name, n, v.st.vars[n].alts)
	}
}

func (a *analyzer) envRule(v *invocation, prog, name string, alts []string) {
	if r := envIndex()[name]; r != nil {
		if r.users != "*" && !hasWord(r.users, prog) {
			return
		}
		for _, s := range alts {
			a.envValueRole(v, r, s)
		}
		return
	}
	if strings.HasPrefix(name, "CARGO_TARGET_") && (strings.HasSuffix(name, "_RUNNER") || strings.HasSuffix(name, "_LINKER")) && prog == "cargo" {
		for _, s := range alts {
			a.startEnv(v, s)
		}
	}
}

func (a *analyzer) envValueRole(v *invocation, r *envRule, s string) {
	if s == "" {
		return
	}
	switch r.role {
	case roleShell, roleProgram:
		if isWorld(s) {
			return
		}
		// LESSOPEN begins with | or ||-.
		a.startEnv(v, strings.TrimLeft(s, "|- "))
	case roleCode:
		if nodeHarmless(r.name, s) {
			return
		}
		a.noteHere(UnknownCode, r.name+"="+s)
	case roleLoad, roleFile:
		if r.users == "*" {
			a.danger(LoaderVariable, r.name)
			a.noteHere(UnknownCode, r.name+"="+s)
			return
		}
		for p := range a.files {
			if strings.Contains(p, strings.TrimPrefix(s, "./")) {
				a.noteHere(UnknownCode, r.name+"="+s)
				return
			}
		}
	case roleWrite:
		a.effect(v.st, Effect{Kind: Write, Path: s, Source: Code, Command: a.cur})
	case roleUnsafe:
		a.envOptions(v, r.name, s)
	}
}

// nodeHarmless reports settings that only change limits.
func nodeHarmless(name, s string) bool {
	switch name {
	case "NODE_OPTIONS":
		for _, f := range strings.Fields(s) {
			if !strings.HasPrefix(f, "--max") && !strings.HasPrefix(f, "--enable-source-maps") && !strings.HasPrefix(f, "--no-") &&
				!strings.HasPrefix(f, "--trace") && !strings.HasPrefix(f, "--openssl-legacy") && !strings.HasPrefix(f, "--unhandled") {
				return false
			}
		}
		return true
	case "MAKEFLAGS", "GNUMAKEFLAGS":
		return !strings.Contains(s, "eval") && !strings.Contains(s, "SHELL") && !strings.Contains(s, "=") && !strings.Contains(s, "f")
	case "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS":
		return !strings.Contains(s, "agent") && !strings.Contains(s, "OnError") && !strings.Contains(s, "OnOutOf")
	}
	return false
}

// envOptions follows variables that hold options of a program.
func (a *analyzer) envOptions(v *invocation, name, s string) {
	switch name {
	case "TAR_OPTIONS", "GOFLAGS", "ZIPOPT", "ZIP", "MANOPT", "VALGRIND_OPTS", "FZF_DEFAULT_OPTS", "PARALLEL":
		n := *v
		n.env = nil
		c := *v.st
		n.st = &c
		argv := append(append([]Word{v.argv[0]}, xargsWords(s)...), v.argv[1:]...)
		if name == "GOFLAGS" {
			argv = append([]Word{v.argv[0], {Text: "build"}}, xargsWords(s)...)
		}
		n.argv = argv
		n.st.vars = nil
		if a.depth < maxDepth/3 {
			a.run(&n)
		}
	case "LESS":
		if strings.Contains(s, "+") || hasHole(s) && !isWorld(s) {
			a.noteHere(UnknownCode, "LESS="+s)
		}
	case "LD_LIBRARY_PATH":
		if len(a.files) > 0 {
			a.noteHere(UnknownCode, name+"="+s)
		}
	case "PYTEST_ADDOPTS":
		if strings.Contains(s, "-p") {
			a.noteHere(UnknownCode, name+"="+s)
		}
	}
}

// startEnv runs the value of a variable as a command line.
func (a *analyzer) startEnv(v *invocation, code string) {
	if a.depth > maxDepth/2 {
		a.bound("nesting")
		return
	}
	n := *v
	n.env = nil
	c := a.fork(v.st)
	// The variables have been followed: not once more inside.
	for name := range v.st.vars {
		if envIndex()[name] != nil {
			c.drop(name)
		}
	}
	n.st = c
	a.startCode(&n, code)
}

// envProgram follows a setting of the environment that is stored for later runs.
func (a *analyzer) envProgram(v *invocation, name, val string) {
	switch name {
	case "CC", "CXX", "AR", "GOCACHEPROG", "GOAUTH", "GOVCS", "GOFLAGS":
		a.startCode(v, val)
	}
}
