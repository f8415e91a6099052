package agentloop

import "strings"

// envKind says why a variable is withheld. The zero value means that it is not
// in the list of what a command gets.
type envKind string

const (
	envUnlisted   envKind = "not listed"
	envSecret     envKind = "looks like a secret"
	envLoader     envKind = "loads code"
	envService    envKind = "names a service of the caller"
	envLocation   envKind = "names a place outside the view"
	envCredential envKind = "holds a credential in its value"
)

// envPass are the names that are passed on. A trailing * matches any rest.
var envPass = []string{
	// what programs and people expect of any session
	"PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLUMNS", "LINES",
	"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LS_COLORS", "GREP_COLORS", "CI", "CONTINUOUS_INTEGRATION", "GITHUB_ACTIONS", "GITLAB_CI",
	"DEBIAN_FRONTEND", "SOURCE_DATE_EPOCH", "USER", "LOGNAME", "SHELL", "HOSTNAME", "SHLVL", "PAGER", "MANPAGER", "EDITOR", "VISUAL",
	// who made a commit; never credentials
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
	"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_PAGER_IN_USE",
	// build settings: they choose how code is built, not which code runs
	"CC", "CXX", "CPP", "AR", "LD", "NM", "RANLIB", "STRIP", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "JOBS", "PKG_CONFIG_PATH",
	"CMAKE_*", "NINJA_STATUS", "ARCH", "CROSS_COMPILE", "VERBOSE", "DEBUG", "LOG_LEVEL",
	// Go
	"GO111MODULE", "GOARCH", "GOAMD64", "GOARM", "GOARM64", "GO386", "GOOS", "GOFLAGS", "GODEBUG", "GOEXPERIMENT", "GOFIPS140", "GOGC", "GOMAXPROCS", "GOMEMLIMIT",
	"GOTRACEBACK", "GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOINSECURE", "GOVCS", "GOTOOLCHAIN", "GOWORK", "GOROOT", "GORACE", "GOCOVERDIR",
	"CGO_*",
	// Rust
	"RUSTFLAGS", "RUSTDOCFLAGS", "RUST_BACKTRACE", "RUST_LOG", "RUST_MIN_STACK", "RUST_TEST_THREADS", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTUP_HOME", "RUSTUP_AUTO_INSTALL",
	"CARGO_BUILD_*", "CARGO_PROFILE_*", "CARGO_INCREMENTAL", "CARGO_TERM_*", "CARGO_NET_OFFLINE",
	// Python. PYTHONPATH and PYTHONSTARTUP load code, but only code in the view.
	"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS", "PYTHONPATH", "PYTHONFAULTHANDLER",
	"PYTHONDEVMODE", "PYTHONOPTIMIZE", "PYTHONNOUSERSITE", "PYTHONSAFEPATH", "PYENV_ROOT", "PYENV_VERSION", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
	"PIP_DISABLE_PIP_VERSION_CHECK", "PIP_DEFAULT_TIMEOUT", "PIP_FIND_LINKS", "PIP_NO_INPUT", "PIP_NO_INDEX", "PYTEST_ADDOPTS", "TOX_*",
	// JavaScript. NODE_OPTIONS is withheld: --require and --import load code.
	"NODE_ENV", "NODE_PATH", "NODE_NO_WARNINGS", "NODE_VERSION", "NVM_DIR", "NVM_BIN", "NVM_INC", "VOLTA_HOME", "FNM_DIR", "FNM_MULTISHELL_PATH", "PNPM_HOME", "UV_THREADPOOL_SIZE",
	// JVM and others
	"JAVA_HOME", "JDK_HOME", "MAVEN_HOME", "M2_HOME", "GRADLE_HOME", "SDKMAN_DIR", "ANDROID_HOME", "ANDROID_SDK_ROOT", "DOTNET_ROOT", "DOTNET_CLI_TELEMETRY_OPTOUT", "DOTNET_NOLOGO",
	"RBENV_ROOT", "RBENV_VERSION", "NODENV_ROOT", "NODENV_VERSION", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "DENO_INSTALL", "BUN_INSTALL",
	"RAILS_ENV", "RACK_ENV", "MIX_ENV", "FLUTTER_ROOT", "SCALA_HOME", "KOTLIN_HOME", "MAMBA_ROOT_PREFIX", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
	// certificates: public, and needed wherever a proxy or a company has its own
	"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "PIP_CERT", "NIX_SSL_CERT_FILE", "AWS_CA_BUNDLE",
	// proxies: of use with a network only; withheld with user and password
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	// so that a nested run knows where it is
	"SANDBOXD_RUN",
}

// envRefused name the reason for variables that are withheld for another reason
// than not being listed. They are looked at before envPass.
var envRefused = []struct {
	Pattern string
	Kind    envKind
}{
	{"LD_*", envLoader}, {"DYLD_*", envLoader}, {"GCONV_PATH", envLoader}, {"NLSPATH", envLoader}, {"GLIBC_TUNABLES", envLoader}, {"MALLOC_*", envLoader},
	{"BASH_ENV", envLoader}, {"ENV", envLoader}, {"BASH_FUNC_*", envLoader}, {"BASHOPTS", envLoader}, {"SHELLOPTS", envLoader}, {"PROMPT_COMMAND", envLoader},
	{"PS4", envLoader}, {"IFS", envLoader}, {"CDPATH", envLoader}, {"ZDOTDIR", envLoader}, {"FPATH", envLoader}, {"INPUTRC", envLoader},
	{"NODE_OPTIONS", envLoader}, {"NODE_REPL_EXTERNAL_MODULE", envLoader}, {"PYTHONSTARTUP", envLoader}, {"PYTHONHOME", envLoader}, {"PYTHONINSPECT", envLoader},
	{"PYTHONBREAKPOINT", envLoader}, {"PERL5LIB", envLoader}, {"PERL5OPT", envLoader}, {"PERL5DB", envLoader}, {"RUBYOPT", envLoader}, {"RUBYLIB", envLoader},
	{"JAVA_TOOL_OPTIONS", envLoader}, {"_JAVA_OPTIONS", envLoader}, {"JDK_JAVA_OPTIONS", envLoader}, {"CLASSPATH", envLoader}, {"MAVEN_OPTS", envLoader}, {"GRADLE_OPTS", envLoader},
	{"RUSTC_WRAPPER", envLoader}, {"RUSTC_WORKSPACE_WRAPPER", envLoader}, {"CARGO_BUILD_RUSTC_WRAPPER", envLoader}, {"CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER", envLoader},
	{"GOCACHEPROG", envLoader}, {"GOAUTH", envSecret}, {"LESSOPEN", envLoader}, {"LESSCLOSE", envLoader},
	{"GIT_SSH", envLoader}, {"GIT_SSH_COMMAND", envLoader}, {"GIT_EXTERNAL_DIFF", envLoader}, {"GIT_EDITOR", envLoader}, {"GIT_SEQUENCE_EDITOR", envLoader}, {"GIT_PAGER", envLoader},
	{"GIT_PROXY_COMMAND", envLoader}, {"GIT_ASKPASS", envSecret}, {"GIT_CONFIG*", envLoader}, {"GIT_EXEC_PATH", envLoader}, {"GIT_TEMPLATE_DIR", envLoader},
	{"GIT_DIR", envLocation}, {"GIT_WORK_TREE", envLocation}, {"GIT_INDEX_FILE", envLocation}, {"GIT_OBJECT_DIRECTORY", envLocation}, {"GIT_ALTERNATE_OBJECT_DIRECTORIES", envLocation},
	{"GIT_TRACE*", envLocation},
	{"SSH_ASKPASS", envSecret}, {"SUDO_ASKPASS", envSecret}, {"SSH_AUTH_SOCK", envService}, {"SSH_AGENT_PID", envService}, {"SSH_*", envService}, {"GPG_*", envService},
	{"DBUS_*", envService}, {"DISPLAY", envService}, {"WAYLAND_DISPLAY", envService}, {"XAUTHORITY", envSecret}, {"TMUX*", envService}, {"STY", envService},
	{"DOCKER_*", envService}, {"CONTAINER_HOST", envService}, {"KUBECONFIG", envService}, {"KUBERNETES_*", envService}, {"VSCODE_*", envService}, {"NOTIFY_SOCKET", envService},
	// a make outside shares its job server by descriptors that are not passed
	{"MAKEFLAGS", envService}, {"MFLAGS", envService}, {"MAKELEVEL", envService}, {"LISTEN_*", envService}, {"JOURNAL_STREAM", envService}, {"INVOCATION_ID", envService}, {"CREDENTIALS_DIRECTORY", envSecret},
	{"HOME", envLocation}, {"PWD", envLocation}, {"OLDPWD", envLocation}, {"TMPDIR", envLocation}, {"TMP", envLocation}, {"TEMP", envLocation}, {"TEMPDIR", envLocation}, {"XDG_*", envLocation},
	{"GOPATH", envLocation}, {"GOBIN", envLocation}, {"GOCACHE", envLocation}, {"GOMODCACHE", envLocation}, {"GOENV", envLocation}, {"GOTMPDIR", envLocation}, {"GOTELEMETRYDIR", envLocation},
	{"CARGO_HOME", envLocation}, {"CARGO_TARGET_DIR", envLocation}, {"CARGO_BUILD_TARGET_DIR", envLocation}, {"CARGO_INSTALL_ROOT", envLocation}, {"NPM_CONFIG_*", envLocation}, {"npm_config_*", envLocation},
	{"PIP_CACHE_DIR", envLocation}, {"PIP_CONFIG_FILE", envLocation}, {"PYTHONUSERBASE", envLocation}, {"PYTHONPYCACHEPREFIX", envLocation}, {"UV_CACHE_DIR", envLocation}, {"GRADLE_USER_HOME", envLocation},
	{"YARN_CACHE_FOLDER", envLocation}, {"HISTFILE", envLocation}, {"CCACHE_DIR", envLocation}, {"SCCACHE_DIR", envLocation}, {"_", envLocation}, {"MAIL", envLocation}, {"SANDBOXD_*", envLocation},
}

// secretWords mark a variable as a secret wherever they stand in its name as a
// word or, for those without an honest use, as a part.
var (
	secretParts = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "PRIVATEKEY", "ACCESSKEY", "SESSIONID", "COOKIE"}
	secretWords = []string{"KEY", "KEYS", "PASS", "PWD", "AUTH", "AUTHORIZATION", "PAT", "JWT", "DSN", "CERT_KEY", "SAS", "SALT", "SEED", "OTP", "PIN", "CREDS", "CRED", "SIGNATURE", "WEBHOOK"}
)

// secretName reports whether a variable's name says that it holds a secret.
func secretName(name string) bool {
	upper := strings.ToUpper(name)
	for _, part := range secretParts {
		if strings.Contains(upper, part) {
			return true
		}
	}
	for word := range strings.SplitSeq(upper, "_") {
		for _, secret := range secretWords {
			if word == secret {
				return true
			}
		}
	}
	return false
}

// matchName compares a name with a pattern that may end in *.
func matchName(pattern, name string) bool {
	if name == "" || pattern[0] != name[0] {
		return false
	}
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// judgeEnv decides about one variable: pass it, or withhold it for a reason.
func judgeEnv(name, value string) (envKind, bool) {
	for _, r := range envRefused {
		if matchName(r.Pattern, name) {
			return r.Kind, false
		}
	}
	if secretName(name) {
		return envSecret, false
	}
	listed := false
	for _, pattern := range envPass {
		if listed = matchName(pattern, name); listed {
			break
		}
	}
	if !listed {
		if looksSecret(value) || assignsSecret(value) {
			return envSecret, false
		}
		return envUnlisted, false
	}
	if looksSecret(value) || bareCredentials(name, value) || assignsSecret(value) {
		return envCredential, false
	}
	return "", true
}
