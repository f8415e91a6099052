package bash

import "strings"

// rulingNames are variables by which programs take options, code, places to look
// for programs, or hosts to go through; from their manuals. Those of envRules
// count too.
const rulingNames = " PATH HOME SHELL EDITOR VISUAL PAGER BROWSER CC CXX LD AR AS CPP FC RUSTC MAKE CARGO CFLAGS CXXFLAGS CPPFLAGS LDFLAGS " +
	"MAKEFLAGS MFLAGS MAKEFILES IGNOREEOF ENV INPUTRC CDPATH GLOBIGNORE EXECIGNORE FIGNORE TERMINFO TERMCAP LOCPATH NLSPATH HOSTALIASES RES_OPTIONS " +
	"LOCALDOMAIN MALLOC_CHECK_ CLASSPATH JDK_HOME M2_HOME KUBECONFIG HELM_DRIVER GOPROXY GOBIN GOROOT GOPATH GOFLAGS GOENV GOWORK " +
	"GOCACHE GOMODCACHE GOTOOLCHAIN GOSUMDB GONOSUMDB GOPRIVATE GOINSECURE GOEXPERIMENT VIRTUAL_ENV CONDA_PREFIX LESS LESSKEY MANPATH XDG_CONFIG_HOME XDG_CONFIG_DIRS " +
	"XDG_DATA_HOME XDG_DATA_DIRS ZDOTDIR NETRC SSH_AUTH_SOCK POSIXLY_CORRECT "

var rulingPrefixes = [...]string{"GIT_", "LD_", "DYLD_", "BASH_", "PYTHON", "PYTEST_", "PIP_", "UV_", "POETRY_", "TOX_", "NOX_", "NODE_", "NPM_CONFIG_", "npm_config_",
	"YARN_", "PNPM_", "BUN_", "CARGO_", "RUST", "GRADLE_", "MAVEN_", "JAVA_", "_JAVA", "JDK_", "PERL", "RUBY", "GEM_", "BUNDLE_", "LUA_", "PHP", "GCC_", "GCONV_", "GTK_", "QT_",
	"DOCKER_", "CONTAINER", "PODMAN_", "BUILDKIT_", "COMPOSE_", "KUBE", "AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "TF_", "VAULT_", "ANSIBLE_", "PG", "MYSQL_", "REDISCLI_",
	"CURL_", "SSL_", "OPENSSL_", "REQUESTS_", "SSH_", "RSYNC_", "TAR_", "GREP_", "RIPGREP_", "JEST_", "MOCHA_", "ESLINT_", "TSC_", "VITE_", "CMAKE_", "CTEST_", "MESON_"}

var rulingSuffixes = [...]string{"_OPTS", "_OPTIONS", "FLAGS", "_ARGS", "_PATH", "_PROXY", "_proxy", "_CONFIG", "_COMMAND", "_WRAPPER", "_LAUNCHER", "_PRELOAD", "_ADDOPTS", "_HOOK", "_PLUGINS", "_RC"}

// RulesPrograms reports variables by which a program that finds them in its
// environment does something else than its command line says.
func RulesPrograms(name string) bool {
	if strings.Contains(rulingNames, " "+name+" ") || envIndex()[name] != nil {
		return true
	}
	for _, p := range rulingPrefixes {
		if strings.HasPrefix(name, p) {
			return name != "BASH_REMATCH" && name != "BASH_SOURCE" && name != "BASH_LINENO" && name != "PGID" && name != "MANIFEST"
		}
	}
	for _, s := range rulingSuffixes {
		if strings.HasSuffix(name, s) && !strings.HasPrefix(name, s) {
			return true
		}
	}
	return false
}

// noteAssign lists a plain assignment of a name that rules programs.
func (a *analyzer) noteAssign(name string, alts []string) {
	if len(a.result.Assigns) >= 256 || !RulesPrograms(name) {
		return
	}
	for _, s := range alts {
		w := Word{Text: publicText(name + "=" + s)}
		for _, old := range a.result.Assigns {
			if old == w {
				return
			}
		}
		a.result.Assigns = append(a.result.Assigns, w)
	}
}
