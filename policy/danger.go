package policy

import (
	"fmt"
	"sync"

	"sandboxd/policy/bash"
)

// DangerTableVersion changes with every change of the table of dangerous
// commands, so that an audit record tells which table a decision was made by.
const DangerTableVersion = 2

// DangerKind is why a command is in the table.
type DangerKind uint8

const (
	// Destructive commands destroy what no undo brings back, or stop the host.
	Destructive DangerKind = iota
	// Interactive commands wait for somebody at a terminal.
	Interactive
	// HostChange commands change accounts, services, the kernel or the network.
	HostChange
)

func (k DangerKind) String() string {
	switch k {
	case Destructive:
		return "destructive"
	case Interactive:
		return "interactive"
	case HostChange:
		return "host change"
	}
	return "destructive"
}

// DangerEntry is one command that is at least asked about in every mode.
type DangerEntry struct {
	// Pattern is in the grammar of rules about commands, read as deny rules
	// are: launchers removed, options in any order.
	Pattern string
	Kind    DangerKind
	Reason  string
}

// DangerException switches an entry off. It must come from a source that a
// person trusts; the trace of a decision says when one made a difference.
type DangerException struct {
	Pattern string
	Source  Source
}

// Dangers returns the table of dangerous commands.
func Dangers() []DangerEntry { return append([]DangerEntry(nil), dangers...) }

// dangers is published in docs/dangerous-commands.md. It is no boundary: other
// programs have the same effects. It makes the usual accident ask.
var dangers = []DangerEntry{
	{"mkfs", Destructive, "makes a new file system over the old one"},
	{"mkfs*", Destructive, "makes a new file system over the old one"},
	{"mke2fs *", Destructive, "makes a new file system over the old one"},
	{"mkswap *", Destructive, "overwrites a device"},
	{"fdisk *", Destructive, "changes the partitions of a disk"},
	{"sfdisk *", Destructive, "changes the partitions of a disk"},
	{"cfdisk*", Destructive, "changes the partitions of a disk"},
	{"gdisk *", Destructive, "changes the partitions of a disk"},
	{"sgdisk *", Destructive, "changes the partitions of a disk"},
	{"parted *", Destructive, "changes the partitions of a disk"},
	{"wipefs *", Destructive, "removes the signatures of file systems"},
	{"blkdiscard *", Destructive, "discards the content of a device"},
	{"cryptsetup *", Destructive, "changes encrypted devices"},
	{"lvremove *", Destructive, "removes a volume"},
	{"vgremove *", Destructive, "removes a volume group"},
	{"pvremove *", Destructive, "removes a physical volume"},
	{"zpool destroy *", Destructive, "removes a pool with all its data"},
	{"zfs destroy *", Destructive, "removes a data set"},
	{"dd of=/dev/*", Destructive, "writes to a device"},
	{"dd * of=/dev/*", Destructive, "writes to a device"},
	{"shred *", Destructive, "overwrites files so that they cannot be restored"},
	{"rm -rf --no-preserve-root *", Destructive, "removes everything"},
	{"rm -r /", Destructive, "removes everything"},
	{"rm -rf /", Destructive, "removes everything"},
	{`rm -rf /\*`, Destructive, "removes below the root directory"},
	{"rm -rf ~", Destructive, "removes the home"},
	{"chmod -R * /", Destructive, "changes the modes of the whole system"},
	{"chown -R * /", Destructive, "changes the owner of the whole system"},
	{"git reflog expire *", Destructive, "removes what lost commits could be found by"},
	{"git filter-branch *", Destructive, "rewrites the whole history"},
	{"git filter-repo *", Destructive, "rewrites the whole history"},
	{"terraform destroy*", Destructive, "removes the infrastructure"},
	{"tofu destroy*", Destructive, "removes the infrastructure"},
	{"kubectl delete *", Destructive, "removes objects of a cluster"},
	{"helm uninstall *", Destructive, "removes a release from a cluster"},
	{"docker system prune*", Destructive, "removes images, containers and volumes"},
	{"docker volume rm *", Destructive, "removes a volume with its data"},
	{"dropdb *", Destructive, "removes a database"},
	{"redis-cli flushall*", Destructive, "removes all data"},
	{"crontab -r", Destructive, "removes all jobs of the user"},
	{"shutdown*", HostChange, "stops the host"},
	{"reboot*", HostChange, "stops the host"},
	{"halt*", HostChange, "stops the host"},
	{"poweroff*", HostChange, "stops the host"},
	{"telinit *", HostChange, "changes the run level"},
	{"init 0", HostChange, "stops the host"},
	{"init 6", HostChange, "stops the host"},
	{"systemctl *", HostChange, "controls services"},
	{"service *", HostChange, "controls services"},
	{"kill -9 -1", HostChange, "ends every process of the user"},
	{"kill -- -1", HostChange, "ends every process of the user"},
	{"killall *", HostChange, "ends processes by name, whoever started them"},
	{"pkill *", HostChange, "ends processes by name, whoever started them"},
	{"mount *", HostChange, "changes mounts"},
	{"umount *", HostChange, "changes mounts"},
	{"swapoff *", HostChange, "switches swap off"},
	{"insmod *", HostChange, "loads code into the kernel"},
	{"modprobe *", HostChange, "loads code into the kernel"},
	{"rmmod *", HostChange, "removes code from the kernel"},
	{"sysctl -w *", HostChange, "changes the kernel's settings"},
	{"sysctl -p*", HostChange, "changes the kernel's settings"},
	{"iptables *", HostChange, "changes the packet filter"},
	{"ip6tables *", HostChange, "changes the packet filter"},
	{"nft *", HostChange, "changes the packet filter"},
	{"ufw *", HostChange, "changes the packet filter"},
	{"ip link set *", HostChange, "changes network interfaces"},
	{"useradd *", HostChange, "changes accounts"},
	{"userdel *", HostChange, "changes accounts"},
	{"usermod *", HostChange, "changes accounts"},
	{"groupadd *", HostChange, "changes accounts"},
	{"groupdel *", HostChange, "changes accounts"},
	{"passwd*", HostChange, "changes a password"},
	{"chpasswd*", HostChange, "changes passwords"},
	{"visudo*", HostChange, "changes who may become root"},
	{"chattr *", HostChange, "changes attributes that survive"},
	{"setcap *", HostChange, "gives a program capabilities"},
	{"docker run --privileged *", HostChange, "starts a container that owns the host"},
	{"vi", Interactive, "an editor waits for a person"},
	{"vi *", Interactive, "an editor waits for a person"},
	{"vim", Interactive, "an editor waits for a person"},
	{"vim *", Interactive, "an editor waits for a person"},
	{"nvim", Interactive, "an editor waits for a person"},
	{"nvim *", Interactive, "an editor waits for a person"},
	{"nano", Interactive, "an editor waits for a person"},
	{"nano *", Interactive, "an editor waits for a person"},
	{"pico *", Interactive, "an editor waits for a person"},
	{"emacs", Interactive, "an editor waits for a person"},
	{"emacs *", Interactive, "an editor waits for a person"},
	{"top", Interactive, "a full-screen program waits for a person"},
	{"htop*", Interactive, "a full-screen program waits for a person"},
	{"telnet *", Interactive, "waits for a person"},
	{"ftp *", Interactive, "waits for a person"},
	{"crontab -e", Interactive, "an editor waits for a person"},
	{"git rebase -i *", Interactive, "an editor waits for a person"},
	{"git rebase --interactive *", Interactive, "an editor waits for a person"},
	{"git add -i", Interactive, "waits for a person"},
	{"git add -p*", Interactive, "waits for a person"},
	{"tmux", Interactive, "a terminal inside the terminal"},
	{"screen", Interactive, "a terminal inside the terminal"},
}

// dangerTables are the entries in force and those that are switched off.
type dangerTables struct{ on, off *ruleTable }

// fullDangers is compiled once, for configurations that switch nothing off.
var fullDangers = sync.OnceValues(func() (dangerTables, error) { return compileDangers(nil) })

// newDangerTables compiles the table. An exception that names no entry is an
// error, so that a spelling mistake is seen.
func newDangerTables(off []DangerException) (dangerTables, error) {
	if len(off) == 0 {
		return fullDangers()
	}
	return compileDangers(off)
}

func compileDangers(off []DangerException) (dangerTables, error) {
	source := map[string]Source{}
	for _, x := range off {
		source[x.Pattern] = x.Source
	}
	t := dangerTables{on: &ruleTable{}, off: &ruleTable{}}
	for i, d := range dangers {
		rule := &Rule{Kind: DenyRule, Pattern: "run_bash(" + d.Pattern + ")", Reason: d.Reason, Source: Source{Kind: SourceDefault}}
		into := t.on
		if s, ok := source[d.Pattern]; ok {
			rule.Source, into = s, t.off
		}
		c, err := compile(rule, Base{}, i)
		if err != nil {
			return t, fmt.Errorf("bug: table of dangerous commands: %w", err)
		}
		into.add(c)
	}
	if t.off.count < len(source) {
		for p := range source {
			if !knownDanger(p) {
				return t, fmt.Errorf("dangerous command %q is not in the table", p)
			}
		}
	}
	return t, nil
}

func knownDanger(pattern string) bool {
	for _, d := range dangers {
		if d.Pattern == pattern {
			return true
		}
	}
	return false
}

// dangerRule returns the entry that matches a command, nil without. A command
// that only reads changes nothing of the host (systemctl status).
func (t *ruleTable) dangerRule(v *commandView) *Rule {
	if v.cmd.Kind == bash.Function || len(v.argv) == 0 {
		return nil
	}
	find := finder{}
	find.commandRules(&t.commands, v)
	if find.best == nil || v.cmd.ReadOnly && dangers[find.best.order].Kind == HostChange {
		return nil
	}
	return find.best.rule
}

// content is the part of a pattern between the parentheses.
func (r *Rule) content() string {
	_, content, _, _ := cutPattern(r.Pattern)
	return content
}
