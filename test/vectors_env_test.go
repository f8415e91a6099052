package test

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// environmentVectors find what the caller has, not the files.
func environmentVectors() []vector {
	carry := func(names ...string) func(*scene) {
		return func(s *scene) {
			for _, name := range names {
				s.Env = append(s.Env, name+"="+s.Token)
			}
		}
	}
	printAll := func(places) error { return show("/proc/self/environ") }
	honest := func(places) error {
		for _, name := range []string{"PATH", "HOME", "LANG"} {
			if os.Getenv(name) == "" {
				return errors.New(name + " is missing")
			}
		}
		return nil
	}
	vs := []vector{
		{name: "read secrets from the environment", setup: carry("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GH_TOKEN",
			"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "DATABASE_PASSWORD", "DATABASE_URL", "PGPASSWORD", "NPM_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS",
			"AZURE_CLIENT_SECRET", "KUBECONFIG", "DOCKER_AUTH_CONFIG", "HTTP_PROXY_AUTH", "MY_SECRET", "SOME_KEY", "UNHEARD_OF")},
		{name: "read a secret in an option of the environment", setup: func(s *scene) {
			s.Env = append(s.Env, "PYTEST_ADDOPTS=-q --password="+s.Token, "CMAKE_ARGS=-DAPI_TOKEN="+s.Token, "GOPROXY=https://u:"+s.Token+"@h.example.org",
				"MYSQL_OPTS=--password "+s.Token, "LOG_LEVEL=token:"+s.Token, "PIP_FIND_LINKS=https://"+s.Token+"@h.example.org")
		}},
		{name: "reach the key agent by the environment", setup: carry("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST",
			"WAYLAND_DISPLAY", "XAUTHORITY", "SSH_CONNECTION")},
		{name: "inherit loader variables", setup: carry("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "GLIBC_TUNABLES", "DYLD_INSERT_LIBRARIES")},
		{name: "inherit shell variables", setup: carry("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "IFS", "CDPATH", "BASH_FUNC_ls%%")},
		{name: "inherit interpreter variables", setup: carry("PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND",
			"GIT_EXTERNAL_DIFF", "GIT_CONFIG_COUNT")},
	}
	for i := range vs {
		vs[i].attack, vs[i].honest = printAll, honest
		// Only the command's own words: the loader of sbx itself complains of LD_PRELOAD.
		vs[i].reached = func(s *scene, r result) bool { return strings.Contains(r.Stdout, s.Token) }
	}
	return append(vs, vector{name: "list inherited descriptors", attack: listDescriptors, reached: leaks, honest: honest,
		inherit: func(s *scene) []*os.File {
			var files []*os.File
			for i := range 20 {
				f, err := os.Open(s.file(fmt.Sprintf("%s/%s-%d", s.Out, s.Token, i), ""))
				s.must(err)
				s.Cleanup(func() { f.Close() })
				files = append(files, f)
			}
			return files
		}})
}

// listDescriptors prints what each open descriptor is.
func listDescriptors(places) error {
	entries, err := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "/proc/") {
			fmt.Println(e.Name(), to)
		}
	}
	return err
}
