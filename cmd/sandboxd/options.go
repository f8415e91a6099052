package main

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/cmd/sandboxd/api"
)

// options are what a command line asks for.
type options struct {
	environ []string
	socket  string
	gid     int // may connect, besides the owner
	admin   int // sees all users
	state   string
	listen  string // loopback TCP; empty: none
	token   string // file
	stop    time.Duration
	idle    time.Duration // 0: serves until it is told to end

	running, runningPerUID, queued int
	// gone is how long a client may take no output of its call.
	gone time.Duration
	// ask is how long a question waits.
	ask time.Duration
	// session is how long the session of calls that name none is kept after the last.
	session   time.Duration
	logLevel  slog.Level
	logJSON   bool
	retention time.Duration
	// appendOnly asks the kernel to let nobody rewrite the anchors of the audit log.
	appendOnly bool
	// unrecorded lets calls run although the audit log cannot be written.
	unrecorded bool

	stderr  io.Writer
	hangups <-chan os.Signal
}

// Bounds of calls, unless the command line says otherwise: what a machine for
// builds bears, since each call is a whole tree of processes.
const (
	defaultRunning       = 64
	defaultRunningPerUID = 32
	defaultQueued        = 1024
)

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "socket", Usage: "listen at `PATH` (default: /run/sandboxd/sandboxd.sock for root, $XDG_RUNTIME_DIR/sandboxd/sandboxd.sock)"},
		&cli.StringFlag{Name: "group", Usage: "members of the group `NAME|GID` may connect too"},
		&cli.StringFlag{Name: "admin-group", Usage: "members of the group `NAME|GID` see and answer for all users"},
		&cli.StringFlag{Name: "state", Usage: "keep audit log, sessions and logs of jobs in `DIR` (default: /var/lib/sandboxd for root, $XDG_STATE_HOME/sandboxd/daemon)"},
		&cli.StringFlag{Name: "listen", Usage: "also listen at the loopback `ADDRESS`, for holders of the token"},
		&cli.StringFlag{Name: "token-file", Usage: "the token is in `FILE`, mode 0600 (default: token in the state directory, made if missing)"},
		&cli.DurationFlag{Name: "stop-timeout", Value: defaultStopTime, Usage: "when stopped, let calls go on for `TIME`"},
		&cli.DurationFlag{Name: "idle-exit", Usage: "end when nobody was connected for `TIME`, and nothing ran", DefaultText: "never"},
		&cli.DurationFlag{Name: "client-timeout", Value: api.DefaultGone, Usage: "end the call of a client that takes none of its output for `TIME`"},
		&cli.DurationFlag{Name: "ask-timeout", Usage: "a question waits for `TIME`", DefaultText: "120s"},
		&cli.DurationFlag{Name: "session-timeout", Value: api.DefaultSessionIdle, Usage: "keep the session of calls that name none for `TIME` after the last of them"},
		&cli.IntFlag{Name: "max-running", Value: defaultRunning, Usage: "run at most `N` calls at once"},
		&cli.IntFlag{Name: "max-running-per-uid", Value: defaultRunningPerUID, Usage: "run at most `N` calls of one user at once"},
		&cli.IntFlag{Name: "max-queued", Value: defaultQueued, Usage: "let at most `N` calls wait"},
		&cli.DurationFlag{Name: "audit-age", Usage: "remove rows of the audit log older than `TIME`", DefaultText: "keep all"},
		&cli.BoolFlag{Name: "append-only", Usage: "make the anchors of the audit log append-only, as chattr +a does", DefaultText: "for root in /var/lib/sandboxd"},
		&cli.StringFlag{Name: "on-audit-failure", Value: "refuse", Usage: "`WHAT` becomes of calls while the audit log cannot be written: refuse or run; a policy's [audit] on_failure outranks it"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL`: debug, info, warn or error"},
		&cli.BoolFlag{Name: "log-json", Usage: "log in JSON"},
	}
}

func readOptions(c *cli.Context, environ []string) (options, error) {
	o := options{environ: environ, socket: c.String("socket"), state: c.String("state"), listen: c.String("listen"),
		token: c.String("token-file"), stop: c.Duration("stop-timeout"), idle: c.Duration("idle-exit"), gone: c.Duration("client-timeout"), ask: c.Duration("ask-timeout"), session: c.Duration("session-timeout"), logJSON: c.Bool("log-json"),
		running: c.Int("max-running"), runningPerUID: c.Int("max-running-per-uid"), queued: c.Int("max-queued"), retention: c.Duration("audit-age")}
	if c.Args().Present() {
		return o, misuse("sandboxd --help lists the flags; sbx is the program for people", "unknown argument %q", c.Args().First())
	}
	if o.running < 1 || o.runningPerUID < 1 || o.queued < 0 || o.stop < 0 || o.idle < 0 || o.gone <= 0 || o.ask < 0 || o.session <= 0 || o.retention < 0 {
		return o, misuse("", "bounds and times are above zero")
	}
	switch what := c.String("on-audit-failure"); what {
	case "refuse":
	case "run":
		o.unrecorded = true
	default:
		return o, misuse("refuse or run", "--on-audit-failure %q is not known", what)
	}
	if err := o.logLevel.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return o, misuse("one of debug, info, warn, error", "--log-level: %v", err)
	}
	for _, g := range []struct {
		flag string
		to   *int
	}{{"group", &o.gid}, {"admin-group", &o.admin}} {
		if name := c.String(g.flag); name != "" {
			gid, err := groupID(name)
			if err != nil {
				return o, misuse("name a group of /etc/group, or write its number", "--%s %q: %v", g.flag, name, err)
			}
			*g.to = gid
		}
	}
	if o.listen != "" {
		host, _, err := net.SplitHostPort(o.listen)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return o, misuse("as in --listen 127.0.0.1:7777", "--listen %q is no loopback address with a port", o.listen)
		}
	}
	if err := o.places(); err != nil {
		return o, err
	}
	o.appendOnly = os.Geteuid() == 0 && o.state == rootState
	if c.IsSet("append-only") {
		o.appendOnly = c.Bool("append-only")
	}
	return o, nil
}

// rootState is where root's daemon keeps what it remembers.
const rootState = "/var/lib/sandboxd"

// places fills in where things are.
func (o *options) places() error {
	root := os.Geteuid() == 0
	if o.socket == "" {
		if o.socket = api.SocketPath(os.Geteuid(), o.variable("XDG_RUNTIME_DIR")); o.socket == "" {
			return misuse("set XDG_RUNTIME_DIR, as a login does, or give --socket", "no place for the socket")
		}
	}
	if o.state == "" {
		base := o.variable("XDG_STATE_HOME")
		switch home := o.variable("HOME"); {
		case root:
			o.state = rootState
		case filepath.IsAbs(base):
			o.state = filepath.Join(base, "sandboxd", "daemon")
		case filepath.IsAbs(home):
			o.state = filepath.Join(home, ".local/state/sandboxd/daemon")
		default:
			return misuse("set HOME or give --state", "no place for the state")
		}
	}
	if o.token == "" {
		o.token = filepath.Join(o.state, "token")
	}
	for _, p := range []*string{&o.socket, &o.state, &o.token} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	return nil
}

func (o *options) variable(name string) string {
	value := ""
	for _, e := range o.environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// groupID reads /etc/group itself: other name services would need code of the host
// in this process.
func groupID(name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 {
		return n, nil
	}
	f, err := os.Open("/etc/group")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 || fields[0] != name {
			continue
		}
		if n, err := strconv.Atoi(fields[2]); err == nil && n > 0 {
			return n, nil
		}
	}
	return 0, os.ErrNotExist
}

// besideThis names a program in the directory of this one; empty if that is not known.
func besideThis(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(self), name)
}
