package agentloop

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"sandboxd/policy"
)

func TestEnvironmentIsAnAllowList(t *testing.T) {
	for _, tt := range []struct {
		entry string
		kind  envKind // empty: passed
	}{
		{"PATH=/usr/bin", ""}, {"LC_ALL=C", ""}, {"TERM=xterm", ""}, {"GOFLAGS=-mod=vendor", ""}, {"CARGO_TERM_COLOR=always", ""},
		{"GOPROXY=https://proxy.example.org,direct", ""}, {"HTTPS_PROXY=http://proxy.example.org:3128", ""}, {"GIT_AUTHOR_NAME=A", ""}, {"CC=clang", ""},
		{"GOPROXY=https://u:p@proxy.example.org", envCredential}, {"https_proxy=http://u:p@proxy.example.org:3128", envCredential},
		{"HTTP_PROXY=u:p@proxy.example.org:3128", envCredential}, {"all_proxy=u@h:1", envCredential}, {"HTTP_PROXY=proxy.example.org:3128", ""},
		{"PIP_FIND_LINKS=https://tok@files.example.org/x", envCredential}, {"CFLAGS=-DKEY=ghp_0123456789abcdef0123", envCredential},
		{"PYTEST_ADDOPTS=--password=x -q", envCredential}, {"PYTEST_ADDOPTS=-q --db-password x", envCredential}, {"GOFLAGS=-ldflags=-X=main.apiToken=abcd", envCredential},
		{"CMAKE_ARGS=-DAPI_TOKEN=abcd1234", envCredential}, {"RUSTFLAGS=--cfg token=\"abcd\"", envCredential}, {"GODEBUG=http=1,passwd=x", envCredential},
		{"TOX_OPTS=host=h;user=u;pwd=hunter2", envCredential}, {"PAGER=curl -H 'Authorization: Bearer abcdefgh12'", envCredential}, {"EDITOR=x --secret-key=y", envCredential},
		{`TOX_JSON={"user":"u","password":"x"}`, envCredential}, {`DEBUG=token\\=x`, envCredential},
		{"MYSQL_OPTS=--password=x", envSecret}, {"REPO_URL=https://u:p@h.example.org/x", envSecret}, {"DB=host=h password=hunter2", envSecret},
		{"RUST_LOG=auth=debug,lexer::token=trace", ""}, {"CFLAGS=-DUSE_TOKEN=1 -DTOKEN_TYPE=int -DKEY=value -DSEED=42", ""}, {"PYTEST_ADDOPTS=--token-file=/x --no-password -x", ""},
		{"PYTEST_ADDOPTS=--password-file x --pass-through", ""}, {"CMAKE_ARGS=-DPASSWORD_STORE=gnome -DWITH_SECRET=ON -DCREDENTIAL_HELPER=cache", ""}, {"LS_COLORS=*.token=01;31:di=01", ""},
		{"EDITOR=vim --cmd 'set key=abc'", ""}, {"GOFLAGS=-tags=token -mod=mod", ""}, {"LDFLAGS=-Wl,-rpath=/opt/secret -lpasswd", ""},
		{"AWS_SECRET_ACCESS_KEY=x", envSecret}, {"GITHUB_TOKEN=x", envSecret}, {"DB_PASSWORD=x", envSecret}, {"OPENAI_API_KEY=x", envSecret},
		{"MyApiKey=x", envSecret}, {"NPM_AUTH=x", envSecret}, {"SENTRY_DSN=x", envSecret}, {"CARGO_REGISTRY_TOKEN=x", envSecret}, {"CMAKE_SECRET=x", envSecret},
		{"CARGO_REGISTRIES_MINE_TOKEN=x", envSecret}, {"TOX_PASSWORD=x", envSecret}, {"FOO=sk-0123456789abcdef", envSecret}, {"GOAUTH=netrc", envSecret},
		{"LD_PRELOAD=/x.so", envLoader}, {"BASH_ENV=/x", envLoader}, {"ENV=/x", envLoader}, {"PROMPT_COMMAND=x", envLoader}, {"BASH_FUNC_ls%%=() { :; }", envLoader},
		{"NODE_OPTIONS=--require=/x.js", envLoader}, {"GIT_SSH_COMMAND=x", envLoader}, {"GIT_CONFIG_COUNT=1", envLoader}, {"GIT_CONFIG_KEY_0=core.pager", envLoader},
		{"CARGO_BUILD_RUSTC_WRAPPER=/x", envLoader}, {"PERL5OPT=-Mx", envLoader}, {"JAVA_TOOL_OPTIONS=-javaagent:x", envLoader}, {"GLIBC_TUNABLES=x", envLoader},
		{"SSH_AUTH_SOCK=/run/x", envService}, {"DBUS_SESSION_BUS_ADDRESS=x", envService}, {"DISPLAY=:0", envService}, {"DOCKER_HOST=x", envService},
		{"HOME=/root", envLocation}, {"XDG_RUNTIME_DIR=/run/user/0", envLocation}, {"GOCACHE=/x", envLocation}, {"CARGO_HOME=/x", envLocation}, {"GIT_DIR=/x", envLocation},
		{"WHATEVER=1", envUnlisted},
	} {
		name, value, _ := strings.Cut(tt.entry, "=")
		kind, pass := judgeEnv(name, value)
		if pass != (tt.kind == "") || kind != tt.kind {
			t.Errorf("%s: passed %v, kind %q; want kind %q", tt.entry, pass, kind, tt.kind)
		}
	}
}

func TestEnvironmentOfABuild(t *testing.T) {
	h := newHost(t)
	h.Environ = append(h.Environ, "AWS_SECRET_ACCESS_KEY=s3", "DOCKER_HOST=tcp://x", "LANG=C.UTF-8", "MINE=1", "LD_PRELOAD=/x.so", "SHELL="+h.path("home/u/sh"))
	s, r := h.build(policy.Grant{EnvPass: []string{"MINE", "LD_PRELOAD"}, EnvSet: []string{"A=b=c", "LANG=de"}}, HostView{})
	for _, want := range []string{"LANG=de", "MINE=1", "A=b=c", "LD_PRELOAD=/x.so", "SHELL=/bin/sh", "PWD=" + h.Cwd} {
		if !slices.Contains(s.Env, want) {
			t.Errorf("%s is missing in %q", want, s.Env)
		}
	}
	for _, e := range s.Env {
		if strings.Contains(e, "s3") || strings.HasPrefix(e, "DOCKER_HOST") {
			t.Errorf("%s was passed", e)
		}
	}
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "DOCKER_HOST", "HOME"} {
		if !slices.Contains(r.WithheldEnv, name) {
			t.Errorf("%s is not reported as withheld: %q", name, r.WithheldEnv)
		}
	}
	if slices.Contains(r.WithheldEnv, "MINE") || slices.Contains(r.WithheldEnv, "LANG") {
		t.Errorf("passed variables are reported as withheld: %q", r.WithheldEnv)
	}
	if got, want := r.WithheldKinds(), []string{string(envSecret), string(envService)}; !slices.Contains(got, want[0]) || !slices.Contains(got, want[1]) {
		t.Errorf("kinds %q, want %q", got, want)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "LD_PRELOAD") }) {
		t.Errorf("no warning about LD_PRELOAD: %q", r.Warnings)
	}
	for _, bad := range []policy.Grant{{EnvSet: []string{"NOVALUE"}}, {EnvSet: []string{"=x"}}, {EnvPass: []string{"A=B"}}} {
		_, _, err := Build(bad, h.Caller, HostView{}, []string{"true"})
		if _, ok := errors.AsType[*GrantError](err); !ok {
			t.Errorf("%v: error %v, want a GrantError", bad, err)
		}
	}
}

func TestGoSettingsTravelWithoutTheirFile(t *testing.T) {
	h := newHost(t)
	h.file("home/u/.config/go/env", "GOFLAGS=-mod=vendor\nGOPROXY=https://u:p@h.example.org\nGOTOOLCHAIN=local\nGOCACHE=/x\nGOAUTH=netrc\nPATH=/evil\n", 0o644)
	h.Environ = append(h.Environ, "GOTOOLCHAIN=auto")
	s, _ := h.build(policy.Grant{}, HostView{MountView: true})
	if envOf(s, "GOFLAGS") != "-mod=vendor" || envOf(s, "GOTOOLCHAIN") != "auto" {
		t.Errorf("GOFLAGS=%q GOTOOLCHAIN=%q, want the file's flags and the variable's toolchain", envOf(s, "GOFLAGS"), envOf(s, "GOTOOLCHAIN"))
	}
	if envOf(s, "GOPROXY") != "" || envOf(s, "GOCACHE") != "" || envOf(s, "GOAUTH") != "" || envOf(s, "PATH") != "/usr/bin:/bin" {
		t.Errorf("credentials or places of the go settings were passed: %q", s.Env)
	}
	if got := access(s.View, h.path("home/u/.config/go/env")); got != 0 {
		t.Errorf("the file itself has access %v", got)
	}
}

// The quick look may only spare values that the whole look would pass.
func TestQuickLookKnowsEveryWord(t *testing.T) {
	for _, word := range slices.Concat(secretParts, settingWords) {
		if !mayNameSecret("--MY-" + word + "=X") {
			t.Errorf("%s is spared", word)
		}
	}
}
