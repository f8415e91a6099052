package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/policy"
	"sandboxd/policy/settings"
)

func permissionsCommand(p *program) *cli.Command {
	scope := &cli.StringFlag{Name: "scope", Value: "user", Usage: "where the rule is kept: `SCOPE` user, project or local"}
	workspace := &cli.StringFlag{Name: "workspace", Usage: "the project `DIR`", TakesFile: true}
	return &cli.Command{
		UsageText: examples("sbx permissions list", "sbx permissions add allow 'run_bash(go test *)'", "sbx permissions rm allow 'run_bash(go test *)'", "sbx permissions usage --unused"),
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list the rules in force, strongest source first", Flags: append([]cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}}, policyFlags()...), Action: p.permissionsList},
			{Name: "add", Usage: "keep rules", ArgsUsage: "deny|ask|allow RULE...", Action: p.permissionsAdd,
				Flags: []cli.Flag{scope, workspace, &cli.StringFlag{Name: "reason", Usage: "`TEXT` told when the rule decides"},
					&cli.DurationFlag{Name: "for", Usage: "let the rule expire after `TIME`"}}},
			{Name: "rm", Usage: "remove rules", ArgsUsage: "deny|ask|allow RULE...", Action: p.permissionsRemove, Flags: []cli.Flag{scope, workspace}},
			{Name: "recent", Usage: "list what the daemon decided lately", Action: p.permissionsRecent, Flags: []cli.Flag{
				&cli.IntFlag{Name: "limit", Value: 20, Usage: "at most `N` decisions"}, &cli.BoolFlag{Name: "json", Usage: "print one JSON object for each"}, socketFlag()}},
			{Name: "usage", Usage: "count how often each rule in force decided, by the daemon's audit log", Action: p.permissionsUsage,
				Flags: append([]cli.Flag{&cli.BoolFlag{Name: "unused", Usage: "only the rules that decided nothing"},
					&cli.StringFlag{Name: "since", Value: "720h", Usage: "count from `TIME` on: 24h, or a date"},
					&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}, socketFlag()}, policyFlags()...)},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Len() == 0 {
				return cli.ShowSubcommandHelp(c)
			}
			return misuse("sbx permissions --help lists them", "unknown command: permissions %s", c.Args().First())
		},
	}
}

func (p *program) permissionsList(c *cli.Context) error {
	if err := noOperands(c, "add and rm take rules; --policy FILE names a file"); err != nil {
		return err
	}
	e, err := p.loadSettings(c)
	if err != nil {
		return err
	}
	type rule struct {
		Kind    policy.Kind `json:"kind"`
		Rule    string      `json:"rule"`
		Reason  string      `json:"reason,omitempty"`
		Source  string      `json:"source"`
		File    string      `json:"file,omitempty"`
		Line    int         `json:"line,omitempty"`
		Expires *time.Time  `json:"expires,omitempty"`
	}
	rules := []rule{}
	for _, kind := range []policy.Kind{policy.DenyRule, policy.AskRule, policy.AllowRule} {
		for _, r := range e.Rules {
			if r.Kind != kind {
				continue
			}
			out := rule{r.Kind, r.Pattern, r.Reason + r.Message, r.Source.Kind.String(), r.Source.File, r.Source.Line, nil}
			if !r.Expires.IsZero() {
				out.Expires = &r.Expires
			}
			rules = append(rules, out)
		}
	}
	if c.Bool("json") {
		return p.writeJSON(map[string]any{"rules": rules})
	}
	for _, r := range rules {
		from := settings.Label(policy.Source{Kind: sourceKind(r.Source), File: r.File, Line: r.Line})
		if err := p.writeOut("%s\n", oneLine(fmt.Sprintf("%-5s %-50s %s", r.Kind, r.Rule, from))); err != nil {
			return err
		}
	}
	p.reportIgnored(e)
	return nil
}

// scopeFile returns the policy file of --scope.
func (p *program) scopeFile(c *cli.Context) (path string, inProject bool, err error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", false, &failure{code: exitSandbox, stage: "workspace", err: err}
	}
	workspace, err := p.checkWorkspace(c, cwd)
	if err != nil {
		return "", false, err
	}
	switch c.String("scope") {
	case "user":
		if path = settings.UserFile(p.environ); path == "" {
			return "", false, &failure{code: exitSandbox, stage: "policy", hint: "set HOME or XDG_CONFIG_HOME", err: errors.New("no place for the user's policy")}
		}
		return path, false, nil
	case "project":
		return filepath.Join(workspace, settings.ProjectFile), true, nil
	case "local":
		return filepath.Join(workspace, settings.LocalFile), true, nil
	case "session":
		return "", false, misuse("use --scope user, project or local", "rules of a session are kept by the daemon")
	}
	return "", false, misuse("use --scope user, project or local", "unknown scope %q", c.String("scope"))
}

// ruleWords reads KIND RULE... .
func ruleWords(c *cli.Context) (policy.Kind, []string, error) {
	words := c.Args().Slice()
	if len(words) < 2 {
		return 0, nil, misuse("as in: allow 'run_bash(go test *)'", "name the kind (deny, ask or allow) and the rule")
	}
	kind, err := policy.ParseKind(words[0])
	if err != nil {
		return 0, nil, misuse("deny, ask or allow comes first", "%v", err)
	}
	return kind, words[1:], nil
}

func (p *program) permissionsAdd(c *cli.Context) error {
	kind, rules, err := ruleWords(c)
	if err != nil {
		return err
	}
	return p.changeRules(c, func(path string) error {
		for _, text := range rules {
			r := policy.Rule{Kind: kind, Pattern: text, Source: policy.Source{Kind: policy.SourceUser, File: path}}
			if kind == policy.AskRule {
				r.Message = c.String("reason")
			} else {
				r.Reason = c.String("reason")
			}
			if c.Duration("for") > 0 {
				r.Expires = time.Now().Add(c.Duration("for")).Truncate(time.Second)
			}
			if err := settings.AddRule(path, r, []int{os.Geteuid(), 0}); err != nil {
				return settingsFailure(err)
			}
			if err := p.writeOut("%s\n", oneLine(fmt.Sprintf("added %s %s to %s", kind, text, path))); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *program) permissionsRemove(c *cli.Context) error {
	kind, rules, err := ruleWords(c)
	if err != nil {
		return err
	}
	return p.changeRules(c, func(path string) error {
		for _, text := range rules {
			there, err := settings.RemoveRule(path, kind, text, []int{os.Geteuid(), 0})
			if err != nil {
				return settingsFailure(err)
			}
			if !there {
				return &failure{code: exitSandbox, stage: "policy", hint: "sbx permissions list shows every rule with its file",
					err: fmt.Errorf("no rule %s %s in %s", kind, text, path)}
			}
			if err := p.writeOut("%s\n", oneLine(fmt.Sprintf("removed %s %s from %s", kind, text, path))); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeRules changes the file of --scope. A project file that was trusted, or
// that this made, stays trusted: a person made the change. One that was not
// stays so, and its allow rules have no effect until it is.
func (p *program) changeRules(c *cli.Context, change func(path string) error) error {
	path, inProject, err := p.scopeFile(c)
	if err != nil {
		return err
	}
	if !inProject {
		return change(path)
	}
	store, err := p.trustStore()
	if err != nil {
		return err
	}
	before, err := os.ReadFile(path)
	trusted := errors.Is(err, os.ErrNotExist) || store.Trusts(path, before)
	if err := change(path); err != nil {
		return err
	}
	if !trusted {
		p.note("note", path+" is not trusted: what it allows has no effect; see sbx trust")
		return nil
	}
	after, err := os.ReadFile(path)
	if err != nil {
		return &failure{code: exitSandbox, stage: "policy", err: err}
	}
	return settingsFailure(store.Add(path, after, time.Now()))
}
