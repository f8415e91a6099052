package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/exec"
	"sandboxd/seccomp"
)

// exitUnfit is the status of sbx doctor on a host where sbx run would refuse
// every command.
const exitUnfit exitStatus = 1

// essential are the mechanisms without which nothing is run.
var essential = []string{"landlock", "seccomp", "keeper"}

// doctorObject is the answer of sbx doctor --json.
type doctorObject struct {
	Version int           `json:"version"` // of this object: 1
	Kernel  string        `json:"kernel"`
	Arch    string        `json:"arch"`
	UID     int           `json:"uid"`
	Runs    bool          `json:"runs"` // commands can be run confined here
	Host    exec.Host     `json:"host"`
	Seccomp doctorSeccomp `json:"seccomp"`
	State   doctorState   `json:"state"`
}

// doctorSeccomp is about the library that compiles the filters.
type doctorSeccomp struct {
	Library string `json:"library"`
	// Unknown are the system calls of the default profile that the library does
	// not know. They stay refused.
	Unknown []string `json:"unknown_names"`
	Error   string   `json:"error,omitempty"`
}

// doctorState is what sbx keeps on disk, see sbx clean.
type doctorState struct {
	StateDir string   `json:"state_dir"`
	CacheDir string   `json:"cache_dir"`
	Entries  int      `json:"entries"`
	Bytes    int64    `json:"bytes"`
	Warnings []string `json:"warnings"`
}

func doctorCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx doctor", "sbx doctor --json"),
		Description: "Tries each mechanism in a child that ends at once. Exits 0 when commands can be run\n" +
			"confined on this host by this user, 1 when they cannot.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return misuse("sbx doctor --help lists the flags", "unexpected argument %q", c.Args().First())
			}
			if err := exec.CheckOwnLimits(); err != nil {
				return describe(err)
			}
			d := p.examine()
			if err := p.printDoctor(d, c.Bool("json")); err != nil {
				return err
			}
			if !d.Runs {
				return exitUnfit
			}
			return nil
		},
	}
}

func (p *program) printDoctor(d doctorObject, asJSON bool) error {
	if asJSON {
		return p.writeJSON(d)
	}
	return p.writeOut("%s", d.text())
}

func (p *program) examine() doctorObject {
	d := doctorObject{Version: 1, Arch: runtime.GOARCH, UID: os.Geteuid(), Kernel: kernelRelease(), Host: exec.ProbeHost()}
	d.Runs = true
	for _, name := range essential {
		d.Runs = d.Runs && works(d.Host, name)
	}
	d.Seccomp = examineSeccomp()
	caller, warnings := agentloop.CurrentCaller(p.environ)
	d.State = doctorState{StateDir: caller.StateDir, CacheDir: caller.CacheDir, Warnings: list(warnings)}
	entries, err := listKept(caller.StateDir, caller.CacheDir)
	if err != nil {
		d.State.Warnings = append(d.State.Warnings, err.Error())
	}
	for _, e := range entries {
		d.State.Entries++
		d.State.Bytes += e.bytes
	}
	return d
}

func works(h exec.Host, name string) bool {
	for _, m := range h.Mechanisms {
		if m.Name == name {
			return m.Works
		}
	}
	return false
}

func examineSeccomp() doctorSeccomp {
	s := doctorSeccomp{Library: "libseccomp " + seccomp.Probe().LibVersion, Unknown: []string{}}
	profile, err := seccomp.ByName("default")
	if err == nil {
		var filter seccomp.Filter
		filter, err = profile.Compile(runtime.GOARCH, seccomp.Options{})
		s.Unknown = list(filter.Unknown)
	}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// text is the answer for people: one line for each mechanism, and below those
// that do not work what is lost and what can be done.
func (d doctorObject) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "host: %s %s, uid %d\n", d.Kernel, d.Arch, d.UID)
	for _, m := range d.Host.Mechanisms {
		state := "works"
		if !m.Works {
			state = "refused"
		}
		fmt.Fprintf(&b, "%-22s %-8s %s\n", m.Name, state, oneLine(m.Evidence))
		for _, more := range []struct{ label, text string }{{"by", m.RefusedBy}, {"lost", m.Lost}, {"to do", m.Fix}} {
			if !m.Works && more.text != "" {
				fmt.Fprintf(&b, "%22s %s: %s\n", "", more.label, oneLine(more.text))
			}
		}
	}
	fmt.Fprintf(&b, "filters: %s", d.Seccomp.Library)
	if n := len(d.Seccomp.Unknown); n > 0 {
		fmt.Fprintf(&b, "; %d system calls it does not know stay refused: %s", n, strings.Join(d.Seccomp.Unknown, " "))
	}
	if d.Seccomp.Error != "" {
		fmt.Fprintf(&b, "; error: %s", oneLine(d.Seccomp.Error))
	}
	fmt.Fprintf(&b, "\nstate: %d entries, %s in %s and %s; see sbx clean\n", d.State.Entries, sizeText(d.State.Bytes), d.State.StateDir, d.State.CacheDir)
	for _, w := range d.State.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", oneLine(w))
	}
	if d.Runs {
		b.WriteString("sbx run: ready\n")
	} else {
		b.WriteString("sbx run: refuses every command, since nothing would hold it\n")
	}
	return b.String()
}
