package child

import "encoding/binary"

// Limit is one resource limit (setrlimit(2)).
type Limit struct {
	Resource   int
	Soft, Hard uint64
}

// Command is what [Plan.Run] starts.
type Command struct {
	Path, Dir string
	Argv, Env []string
	// Stdio are descriptors of the starter; -1 is the terminal of Plan.PTY.
	Stdio [3]int
	// Pass maps descriptor numbers of the command to descriptors here.
	Pass    map[int]int
	CGroups []int // cgroup.procs, open for writing
	// CGroupDir is the directory of a v2 group whose cgroup.procs is the first
	// of CGroups; 0 means none. The command is made in it where the kernel can.
	CGroupDir     int
	Limits        []Limit
	Umask         uint32
	BPF           []byte // struct sock_filter[]; empty only with NoFilter
	RestrictFlags uint32
	TTY           bool
	// NoRuleset and NoFilter leave a layer out. They exist for probes and for
	// a run that asked for it by name.
	NoRuleset, NoFilter bool
}

// Sizes and offsets of struct run, as in child.h.
const (
	maxLimits  = 16
	maxPass    = 64
	maxCGroups = 8

	runHeader   = 14 * 4
	runStdio    = runHeader
	runCGroup   = runStdio + 4*4
	runPass     = runCGroup + maxCGroups*4
	runLimit    = runPass + maxPass*8
	runSize     = runLimit + maxLimits*24
	flagTTY     = 1
	flagNoRules = 2
	flagNoBPF   = 4
	flagV2      = 8
)

// Run starts the command. It is the last operation of a plan.
func (p *Plan) Run(c Command) {
	if len(c.Limits) > maxLimits || len(c.Pass) > maxPass || len(c.CGroups) > maxCGroups {
		p.fail("too many limits, descriptors or control groups")
		return
	}
	path, dir := p.str(c.Path), p.str(c.Dir)
	argv, env := p.array(c.Argv), p.array(c.Env)
	p.align(8)
	bpf := uint32(len(p.blob))
	p.blob = append(p.blob, c.BPF...)
	p.align(8)
	off := len(p.blob)
	p.blob = append(p.blob, make([]byte, runSize)...)

	flags := uint32(0)
	for _, f := range []struct {
		on  bool
		bit uint32
	}{{c.TTY, flagTTY}, {c.NoRuleset, flagNoRules}, {c.NoFilter, flagNoBPF}, {c.CGroupDir > 0, flagV2}} {
		if f.on {
			flags |= f.bit
		}
	}
	n := binary.NativeEndian
	header := [14]uint32{path, dir, uint32(len(c.Argv)), argv, uint32(len(c.Env)), env,
		bpf, uint32(len(c.BPF) / 8), c.RestrictFlags, c.Umask,
		uint32(len(c.Limits)), uint32(len(c.Pass)), uint32(len(c.CGroups)), flags}
	put := func(at int, v uint32) { n.PutUint32(p.blob[off+at:], v) }
	for i, v := range header {
		put(4*i, v)
	}
	for i, fd := range c.Stdio {
		index := -1
		if fd >= 0 {
			index = p.FD(fd)
		}
		put(runStdio+4*i, uint32(int32(index)))
	}
	if c.CGroupDir > 0 {
		put(runStdio+12, uint32(p.FD(c.CGroupDir)))
	}
	for i, fd := range c.CGroups {
		put(runCGroup+4*i, uint32(p.FD(fd)))
	}
	i := 0
	for number, fd := range c.Pass {
		put(runPass+8*i, uint32(p.FD(fd)))
		put(runPass+8*i+4, uint32(number))
		i++
	}
	for i, l := range c.Limits {
		at := runLimit + 24*i
		put(at, uint32(l.Resource))
		n.PutUint64(p.blob[off+at+8:], l.Soft)
		n.PutUint64(p.blob[off+at+16:], l.Hard)
	}
	p.add(op{code: opRun, s1: uint32(off), text: "start the command"})
}

// array stores strings and the list of their offsets.
func (p *Plan) array(list []string) uint32 {
	offs := make([]uint32, len(list))
	for i, s := range list {
		offs[i] = p.str(s)
	}
	p.align(4)
	at := uint32(len(p.blob))
	for _, o := range offs {
		p.blob = binary.NativeEndian.AppendUint32(p.blob, o)
	}
	return at
}

// relocate turns the offsets inside struct run from blob into plan offsets.
func (p *Plan) relocate(out []byte, base int) {
	n := binary.NativeEndian
	shift := func(at int) { n.PutUint32(out[at:], n.Uint32(out[at:])+uint32(base)) }
	for _, o := range p.ops {
		if o.code != opRun {
			continue
		}
		r := base + int(o.s1)
		argc, envc := n.Uint32(out[r+8:]), n.Uint32(out[r+16:])
		for _, field := range []int{0, 4, 12, 20, 24} {
			shift(r + field)
		}
		for i := range int(argc) {
			shift(int(n.Uint32(out[r+12:])) + 4*i)
		}
		for i := range int(envc) {
			shift(int(n.Uint32(out[r+20:])) + 4*i)
		}
	}
}
