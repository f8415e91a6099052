package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/exec"
	"sandboxd/policy"
)

// runOptions is what the command line of sbx run asks for.
type runOptions struct {
	argv  []string
	grant policy.Grant // of the flags alone
	// policyFiles and profile are read besides the files that always hold.
	policyFiles []string
	profile     string
	tier        exec.Tier
	// passFDs are descriptors of ours that the command gets under the same number.
	passFDs []int
	// statusFD receives the result without the output. -1 means none.
	statusFD int
	// outputBytes caps each stream, captured or passed through. 0 means the
	// default for captured streams and no cap for the others.
	outputBytes int64

	tty, json, dryRun, quiet, verbose, bestEffort bool
}

// runFlags are the flags of sbx run, the daily ones first.
func runFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "workspace", Usage: "the writable tree (default: the git checkout that holds the current directory)", TakesFile: true},
		&cli.StringSliceFlag{Name: "ro", Usage: "let the command read and execute `PATH`", TakesFile: true},
		&cli.StringSliceFlag{Name: "rw", Usage: "let the command write below `PATH`", TakesFile: true},
		&cli.StringSliceFlag{Name: "deny", Usage: "hide `PATH`, also inside a granted one", TakesFile: true},
		&cli.StringSliceFlag{Name: "protect", Usage: "make `PATH` inside a writable one read-only", TakesFile: true},
		&cli.StringSliceFlag{Name: "unprotect", Usage: "make a protected `PATH` such as .git/config writable; it is checked after the run", TakesFile: true},
		&cli.StringSliceFlag{Name: "net", Usage: "`WHAT` the command may reach: none or full (default: none)"},
		&cli.StringSliceFlag{Name: "unix", Usage: "let the command connect to the UNIX socket `PATH`, or @NAME"},
		&cli.StringSliceFlag{Name: "env", Usage: "pass the variable `NAME`, or set NAME=VALUE"},
		&cli.StringSliceFlag{Name: "policy", Usage: "also read the policy `FILE`, as strong as a flag", TakesFile: true},
		&cli.StringFlag{Name: "profile", Usage: "use the profile `NAME|FILE`", TakesFile: true},
		&cli.StringFlag{Name: "timeout", Usage: "end the command after `TIME` (default: no limit)"},
		&cli.StringFlag{Name: "memory", Usage: "end the command above `SIZE` of memory"},
		&cli.StringFlag{Name: "pids", Usage: "allow at most `N` tasks (default: 256)"},
		&cli.StringFlag{Name: "cpu", Usage: "end the command after `SECONDS` of processor time"},
		&cli.StringFlag{Name: "file-size", Usage: "allow no file above `SIZE`"},
		&cli.StringFlag{Name: "output-limit", Usage: "keep at most `SIZE` of each output stream (default with --json: 4000)"},
		&cli.StringFlag{Name: "syscalls", Usage: "the `NAME` of the system call profile: default or debug"},
		&cli.BoolFlag{Name: "no-exec-write", Usage: "refuse execution of anything the command can write"},
		&cli.StringFlag{Name: "user", Usage: "run as `WHO`: caller, or UID[:GID] (default: the workspace's owner if root runs sbx)"},
		&cli.StringFlag{Name: "tier", Usage: "`TIER` of confinement: auto, base (no namespaces) or full (refuse without a mount view)"},
		&cli.BoolFlag{Name: "best-effort", Usage: "run even if something you asked for cannot be enforced here"},
		&cli.BoolFlag{Name: "tty", Usage: "give the command a terminal of its own"},
		&cli.StringSliceFlag{Name: "pass-fd", Usage: "let the command inherit descriptor `N`"},
		&cli.BoolFlag{Name: "json", Usage: "capture the output into one JSON object"},
		&cli.StringFlag{Name: "status-fd", Usage: "write the same object without the output to descriptor `N`"},
		&cli.BoolFlag{Name: "dry-run", Usage: "print the whole plan and run nothing"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no lines of sbx about a failed command or weaker confinement"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "name the withheld variables and each weaker part"},
	}
	for _, l := range laterFlags() {
		if l.boolean {
			flags = append(flags, &cli.BoolFlag{Name: l.name, Hidden: true})
		} else {
			flags = append(flags, &cli.StringFlag{Name: l.name, Hidden: true})
		}
	}
	return flags
}

// laterFlag is a flag whose mechanism does not exist. It is refused, since a run
// that ignores it would be wider than asked for.
type laterFlag struct {
	name    string
	boolean bool
	hint    string
}

func laterFlags() []laterFlag {
	return []laterFlag{
		{"publish", false, "a server can be reached inside its own run, or from outside with --net full"},
		{"ephemeral", true, "run in a copy: git worktree add, then sbx run --workspace"},
		{"cache", false, "caches are private to each workspace"},
		{"detach", true, "let the shell do it: sbx run -- COMMAND &"},
		{"mode", false, "modes belong to checked calls, see sbx check"},
	}
}

// parseRun reads the flags of sbx run. cwd is where relative paths start.
func parseRun(c flagValues, argv []string, cwd string) (runOptions, error) {
	o := runOptions{
		argv: argv, statusFD: -1,
		tty: c.Bool("tty"), json: c.Bool("json"), dryRun: c.Bool("dry-run"),
		quiet: c.Bool("quiet"), verbose: c.Bool("verbose"), bestEffort: c.Bool("best-effort"),
	}
	for _, l := range laterFlags() {
		if c.IsSet(l.name) {
			return o, misuse(l.hint, "--%s is not available in this version", l.name)
		}
	}
	if len(o.argv) == 0 {
		return o, misuse("write it after --, as in: sbx run -- npm test", "no command to run")
	}
	if o.argv[0] == "" {
		return o, misuse("write the command after --, as in: sbx run -- npm test", "the command is an empty word")
	}
	if o.tty && o.json {
		return o, misuse("leave one of them out", "--tty and --json exclude each other")
	}
	for _, read := range []func(flagValues, *runOptions) error{readPaths(cwd), readNetwork, readEnv, readLimits, readDescriptors, readTier} {
		if err := read(c, &o); err != nil {
			return o, err
		}
	}
	o.grant.User = c.String("user")
	o.policyFiles, o.profile = c.StringSlice("policy"), c.String("profile")
	o.grant.Syscalls = c.String("syscalls")
	o.grant.NoExecWrite = c.Bool("no-exec-write")
	return o, nil
}

// readPaths takes the path flags. As in a shell, relative paths start at the
// current directory.
func readPaths(cwd string) func(flagValues, *runOptions) error {
	return func(c flagValues, o *runOptions) error {
		if c.IsSet("workspace") {
			if c.String("workspace") == "" {
				return misuse("name a directory", "--workspace is empty")
			}
			o.grant.Workspace = filepath.Clean(fromCwd(cwd, c.String("workspace")))
		}
		for _, f := range []struct {
			flag   string
			access policy.PathAccess
		}{
			{"ro", policy.GrantRead}, {"rw", policy.GrantWrite}, {"deny", policy.GrantDeny},
			{"protect", policy.GrantProtect}, {"unprotect", policy.GrantUnprotect},
		} {
			for _, path := range c.StringSlice(f.flag) {
				if path == "" {
					return misuse("name a path; an unset variable in a script often does this", "--%s is empty", f.flag)
				}
				o.grant.Paths = append(o.grant.Paths, policy.PathGrant{
					Path: fromCwd(cwd, path), Access: f.access, Source: policy.Source{Kind: policy.SourceCLI},
				})
			}
		}
		return nil
	}
}

// fromCwd makes a path of the command line absolute. "~/" is left to the policy.
func fromCwd(cwd, path string) string {
	if filepath.IsAbs(path) || path == "~" || strings.HasPrefix(path, "~/") {
		return path
	}
	return strings.TrimSuffix(cwd, "/") + "/" + path
}

func readNetwork(c flagValues, o *runOptions) error {
	if values := c.StringSlice("net"); len(values) > 0 {
		for _, v := range values {
			if v != "none" && v != "full" {
				return misuse("use --net none or --net full; a list of hosts is never widened to the whole network",
					"--net %s: access by host is not available in this version", v)
			}
			if v != values[0] {
				return misuse("name one", "--net none and --net full exclude each other")
			}
		}
		o.grant.Network = values[:1]
	}
	o.grant.Unix = c.StringSlice("unix")
	return nil
}

func readEnv(c flagValues, o *runOptions) error {
	for _, entry := range c.StringSlice("env") {
		name, _, set := strings.Cut(entry, "=")
		if name == "" || strings.ContainsRune(entry, 0) {
			return misuse("write --env NAME or --env NAME=VALUE", "--env %q names no variable", entry)
		}
		if set {
			o.grant.EnvSet = append(o.grant.EnvSet, entry)
		} else {
			o.grant.EnvPass = append(o.grant.EnvPass, name)
		}
	}
	return nil
}

func readLimits(c flagValues, o *runOptions) error {
	l := &o.grant.Limits
	for _, f := range []struct {
		flag  string
		store func(string) error
	}{
		{"timeout", func(s string) (err error) { l.Timeout, err = parseDuration(s); return }},
		{"cpu", func(s string) (err error) { l.CPU, err = parseDuration(s); return }},
		{"memory", func(s string) (err error) { l.MemoryBytes, err = parseBytes(s); return }},
		{"file-size", func(s string) (err error) { l.FileBytes, err = parseBytes(s); return }},
		{"pids", func(s string) (err error) { l.Tasks, err = parseCount(s); return }},
		{"output-limit", func(s string) (err error) { o.outputBytes, err = parseBytes(s); return }},
	} {
		if !c.IsSet(f.flag) {
			continue
		}
		if err := f.store(c.String(f.flag)); err != nil {
			return misuse("sbx run --help shows the form", "--%s %q: %v", f.flag, c.String(f.flag), err)
		}
	}
	return nil
}

func readDescriptors(c flagValues, o *runOptions) error {
	if c.IsSet("status-fd") {
		n, err := strconv.Atoi(c.String("status-fd"))
		if err != nil || n < 1 || !isOpen(n) {
			return misuse("open it in the shell, as in: sbx run --status-fd 3 -- make 3>status.json",
				"--status-fd %q is not an open descriptor", c.String("status-fd"))
		}
		o.statusFD = n
	}
	for _, text := range c.StringSlice("pass-fd") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 3 || !isOpen(n) {
			return misuse("open it in the shell, as in: sbx run --pass-fd 3 -- cmd 3<file",
				"--pass-fd %q is not an open descriptor above 2", text)
		}
		if n == o.statusFD {
			return misuse("use two descriptors", "descriptor %d is given to --pass-fd and to --status-fd", n)
		}
		o.passFDs = append(o.passFDs, n)
	}
	return nil
}

// isOpen reports whether descriptor n was inherited. The Go runtime opens its
// own (epoll) close-on-exec; inherited ones are not.
func isOpen(n int) bool {
	flags, err := fcntlGetFD(n)
	return err == nil && flags&closeOnExec == 0
}

func readTier(c flagValues, o *runOptions) error {
	switch tier := c.String("tier"); tier {
	case "", "auto":
		o.tier = exec.TierAuto
	case "base":
		o.tier = exec.TierBase
	case "full":
		o.tier = exec.TierFull
	default:
		return misuse("name one of auto, base, full", "--tier %q is not known", tier)
	}
	return nil
}

// workingDir returns the current directory, by the name the shell uses for it
// when that is true.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", &failure{code: exitSandbox, stage: "workspace", err: err,
			hint: "the current directory is gone or unreadable; cd to one that exists"}
	}
	return dir, nil
}
