package policy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Confinement says how much of a run's confinement the host enforces.
type Confinement uint8

const (
	Unconfined Confinement = iota
	PartlyConfined
	FullyConfined
)

// Bypass says whether mode bypassPermissions may be used. The zero value
// forbids it.
type Bypass struct {
	// EnabledAtStart: a person asked for it when the session was started.
	EnabledAtStart bool
	// Forbidden: policy disables the mode.
	Forbidden bool
}

// Config is what an [Engine] is made of. The zero Config denies every call that
// no rule allows and that is not a read inside its roots, of which it has none.
type Config struct {
	Rules  []Rule
	Mode   Mode
	Bypass Bypass
	// Above, if not nil, returns the modes of the agents that a sub-agent belongs
	// to, at the time of the call. The sub-agent may do nothing that one of them
	// would not allow, and what is denied or asked about under one of them is so
	// under it.
	Above func() []Mode
	// AsRoot: commands would run as uid 0.
	AsRoot bool
	// Default is the verdict on what nothing matched. The zero value denies;
	// settings say Ask unless a file says otherwise.
	Default Verdict
	// AllowConfined is confined = "allow": a fully confined run_bash whose
	// effects are inside its grant needs no question.
	AllowConfined bool
	Confinement   Confinement
	// AppliesEnv: the caller starts what is allowed with [Decision.Env]. Otherwise
	// git commands are not taken for reading only in a repository where those
	// variables would matter.
	AppliesEnv bool
	// OnlyRules is for sbx run: only deny and ask rules apply.
	OnlyRules bool

	// Workspace and Home are absolute.
	Workspace, Home string
	// Roots are granted directories besides the workspace.
	Roots []Root
	// PrivateTmp: scripts see a /tmp, /var/tmp and /dev/shm of their own.
	PrivateTmp bool
	// Protect are path patterns that are asked about besides the built-in ones.
	Protect []string
	// Strict refuses names that mean something else on Windows.
	Strict bool
	// MaxFileSize bounds what a write tool writes, in bytes. Zero: no bound.
	MaxFileSize int64
	// Hosts are granted by [network] allow. Empty grants none.
	Hosts []string
	// DangerOff lists entries of the table of dangerous commands that are
	// switched off, by their pattern.
	DangerOff []DangerException

	// Tools are declared besides the built-in ones, or instead of them.
	Tools []Tool
	// ToolRules are the tools' own rules, by canonical name.
	ToolRules map[string]ToolRule
	// Summaries say in a short form what a call would do, for the classifier, by
	// canonical name. Scripts are shown whole, calls of other tools as JSON.
	Summaries map[string]func(Args) string
	// Hooks run in this order.
	Hooks []Hook
	// Askers race for an answer. Parent is the asker of the parent agent, for
	// mode bubble.
	Askers     []Asker
	Parent     Asker
	AskTimeout time.Duration // zero: 120 s
	Classifier Classifier
	Thresholds Thresholds
	// ClassifierTimeout bounds one try of two. Zero: 10 s.
	ClassifierTimeout time.Duration
	// ClassifierPatience is how long a person is not bothered while the
	// classifier works. Zero: 2 s.
	ClassifierPatience time.Duration
	// Follows is the engine in whose place the new one is put, as when files have
	// changed: the classifier's denials in a row go on. Nil: none.
	Follows *Engine
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// ToolRule is a tool's own rule. It can raise an allowed call to a question,
// and nothing else: Allow means that the tool has no objection.
type ToolRule func(Args) (v Verdict, text string)

// Engine decides calls. It is safe for concurrent use.
type Engine struct {
	cfg     Config
	now     func() time.Time
	roots   []realRoot
	protect []pathPattern
	hosts   []hostPattern
	danger  dangerTables
	state   atomic.Pointer[state]
	breaker *breaker
}

// ErrModeRefused reports that mode bypassPermissions may not be used here.
var ErrModeRefused = errors.New("mode bypassPermissions refused")

// NewEngine checks and compiles a configuration. Errors: [*RuleError],
// [*ExampleError], [ErrModeRefused], or a text about the field at fault.
func NewEngine(cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg, now: cfg.Now, breaker: &breaker{}}
	if cfg.Follows != nil {
		e.breaker = cfg.Follows.breaker // shared: calls of the old one may be on their way
	}
	e.cfg.Follows = nil
	if e.now == nil {
		e.now = time.Now
	}
	if err := cfg.Thresholds.check(); err != nil {
		return nil, err
	}
	e.roots = resolveRoots(&cfg)
	b := base{workspace: cfg.Workspace, home: cfg.Home}
	for _, p := range cfg.Protect {
		pp, err := newPathPattern(p, DenyRule, b)
		if err != nil {
			return nil, fmt.Errorf("protect %q: %w", p, err)
		}
		pp.alsoReal(realOrSame)
		e.protect = append(e.protect, pp)
	}
	for _, h := range cfg.Hosts {
		hp, err := newHostPattern(h)
		if err != nil {
			return nil, fmt.Errorf("network allow %q: %w", h, err)
		}
		e.hosts = append(e.hosts, hp)
	}
	var err error
	if e.danger, err = newDangerTables(cfg.DangerOff); err != nil {
		return nil, err
	}
	rules, err := NewRuleSet(cfg.Rules, Base{Workspace: cfg.Workspace, Home: cfg.Home, RealPath: realOrSame})
	if err != nil {
		return nil, err
	}
	if err := e.mayUse(cfg.Mode); err != nil {
		return nil, err
	}
	e.state.Store(&state{rules: rules, mode: cfg.Mode})
	return e, nil
}

func realOrSame(p string) string {
	if real, err := resolve(p); err == nil {
		return real
	}
	return p
}

// mayUse refuses bypassPermissions unless it was enabled at start, policy
// permits it, and root uses it in full confinement only.
func (e *Engine) mayUse(m Mode) error {
	switch {
	case int(m) >= len(modeTable):
		return fmt.Errorf("unknown mode %d", m)
	case m != ModeBypass:
		return nil
	case e.cfg.Bypass.Forbidden:
		return fmt.Errorf("%w: policy forbids it", ErrModeRefused)
	case !e.cfg.Bypass.EnabledAtStart:
		return fmt.Errorf("%w: it was not enabled when the session was started", ErrModeRefused)
	case e.cfg.AsRoot && e.cfg.Confinement != FullyConfined:
		return fmt.Errorf("%w: root without full confinement", ErrModeRefused)
	}
	return nil
}

// when is the time and the modes of a decision that begins now.
func (e *Engine) when(st *state) when {
	w := when{mode: st.mode, now: e.now()}
	if e.cfg.Above != nil {
		w.above = e.cfg.Above()
	}
	return w
}

// Snapshot is the rules and the mode of one moment: what a decision was made by,
// for whoever turns it into a confinement. The zero value has no rules, in
// [ModeDefault].
type Snapshot struct {
	st   *state
	when when
}

// Snapshot returns the rules and the mode in force.
func (e *Engine) Snapshot() Snapshot {
	st := e.state.Load()
	return Snapshot{st, e.when(st)}
}

// In reports whether m was the mode, or that of an agent above.
func (s Snapshot) In(m Mode) bool { return s.when.in(m) }

// KernelDenials is that of the rules in force.
func (e *Engine) KernelDenials(dirs []string) []KernelDenial { return e.Snapshot().KernelDenials(dirs) }

// KernelGrants is that of the rules in force.
func (e *Engine) KernelGrants() []KernelGrant { return e.Snapshot().KernelGrants() }

// Mode returns the mode in force.
func (e *Engine) Mode() Mode { return e.state.Load().mode }

// SetMode changes the mode from the next call on. The error is
// [ErrModeRefused].
func (e *Engine) SetMode(m Mode) error {
	if err := e.mayUse(m); err != nil {
		return err
	}
	for {
		old := e.state.Load()
		if e.state.CompareAndSwap(old, &state{rules: old.rules, mode: m}) {
			return nil
		}
	}
}

// Rules returns the rules in force.
func (e *Engine) Rules() *RuleSet { return e.state.Load().rules }

// AddRule adds a rule for the calls that follow. The error is a [*RuleError] or
// [*ExampleError]; nothing was added then.
func (e *Engine) AddRule(r Rule) error {
	for {
		old := e.state.Load()
		next, err := old.rules.With(r)
		if err != nil {
			return err
		}
		if e.state.CompareAndSwap(old, &state{rules: next, mode: old.mode}) {
			return nil
		}
	}
}

// RemoveRule removes the rules of this kind, pattern and level, and says how
// many there were.
func (e *Engine) RemoveRule(kind Kind, pattern string, source SourceKind) (int, error) {
	for {
		old := e.state.Load()
		next, n, err := old.rules.Without(kind, pattern, source)
		if err != nil {
			return 0, err
		}
		if e.state.CompareAndSwap(old, &state{rules: next, mode: old.mode}) {
			return n, nil
		}
	}
}

// Hook is consulted before a call is decided.
type Hook interface {
	Name() string
	// PreToolUse looks at a call. An error blocks it, unless the hook was
	// configured to continue on failure.
	PreToolUse(ctx context.Context, c Call) (HookResult, error)
	// ContinueOnFailure is on_failure = "continue".
	ContinueOnFailure() bool
}

// HookAction is what a hook wants.
type HookAction uint8

const (
	// HookBlock is the zero value: a forgotten answer blocks.
	HookBlock HookAction = iota
	HookContinue
	// HookAsk asks for a question to the person.
	HookAsk
)

// HookResult is a hook's answer.
type HookResult struct {
	Action HookAction
	Reason string
	// Args replace the arguments when they are not nil.
	Args Args
	// Context is text for the model.
	Context string
	// Skipped: the call does not concern the hook, which was not started. The
	// trace leaves it out, and nothing else counts.
	Skipped bool
}
