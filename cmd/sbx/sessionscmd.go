package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

func sessionsCommand(p *program) *cli.Command {
	object := &cli.BoolFlag{Name: "json", Usage: "print one JSON object"}
	flags := func(own ...cli.Flag) []cli.Flag { return append(own, socketFlag()) }
	reason := &cli.StringFlag{Name: "reason", Usage: "`TEXT` told when the rule decides"}
	return &cli.Command{
		UsageText: examples("sbx sessions list", "ID=$(sbx sessions new --mode plan)", "sbx exec --session \"$ID\" -- ls",
			"sbx sessions mode ID acceptEdits", "sbx sessions rules ID", "sbx sessions close ID",
			"sbx sessions list --conversations", "sbx sessions export --format markdown CONVERSATION"),
		Description: "A session has a policy, a mode and rules of its own; calls of sbx exec --session share\n" +
			"them. Calls without one get a session for their directory, environment and flags. What was\n" +
			"said to an agent is a conversation: it outlives its session, and sbx agent --resume goes on\n" +
			"with it.",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list sessions, oldest first, or conversations, the youngest first", Action: p.sessionsList, Flags: flags(object,
				&cli.BoolFlag{Name: "conversations", Aliases: []string{"c"}, Usage: "list conversations with agents"},
				&cli.StringFlag{Name: "workspace", Usage: "only those about `DIR`", TakesFile: true},
				&cli.IntFlag{Name: "limit", Value: 30, Usage: "at most `N` conversations"})},
			{Name: "new", Usage: "make a session and print its id", Action: p.sessionsNew, Flags: flags(
				&cli.StringFlag{Name: "workspace", Usage: "the writable tree (default: the git checkout that holds the current directory)", TakesFile: true},
				&cli.StringSliceFlag{Name: "policy", Usage: "also read the policy `FILE`, as strong as a flag", TakesFile: true},
				&cli.StringFlag{Name: "profile", Usage: "use the profile `NAME|FILE`", TakesFile: true},
				&cli.StringFlag{Name: "mode", Usage: "start in `MODE`"})},
			{Name: "show", Usage: "show one session, or what was said in a conversation", ArgsUsage: "ID", Flags: flags(
				&cli.BoolFlag{Name: "json", Usage: "print one JSON object (of a session: always)"}), Action: p.sessionsShow},
			{Name: "fork", Usage: "copy a conversation and print the id of the copy", ArgsUsage: "CONVERSATION", Action: p.conversationFork, Flags: flags(
				&cli.Int64Flag{Name: "at", Usage: "up to entry `N` (default: all)"})},
			{Name: "export", Usage: "write a conversation: JSON lines, or Markdown", ArgsUsage: "CONVERSATION", Action: p.conversationExport, Flags: flags(
				&cli.StringFlag{Name: "format", Value: "jsonl", Usage: "`FORMAT`: jsonl or markdown"},
				&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "into the new `FILE`, mode 0600", TakesFile: true})},
			{Name: "rm", Usage: "remove conversations for good", ArgsUsage: "CONVERSATION...", Flags: flags(), Action: p.conversationRemove},
			{Name: "rules", Usage: "list the rules in force", ArgsUsage: "ID", Flags: flags(object), Action: p.sessionsRules},
			{Name: "allow", Usage: "add an allow rule to this session", ArgsUsage: "ID RULE", Flags: flags(), Action: p.sessionsRule("add", "allow")},
			{Name: "ask", Usage: "add an ask rule to this session", ArgsUsage: "ID RULE", Flags: flags(reason), Action: p.sessionsRule("add", "ask")},
			{Name: "deny", Usage: "add a deny rule to this session", ArgsUsage: "ID RULE", Flags: flags(reason), Action: p.sessionsRule("add", "deny")},
			{Name: "mode", Usage: "switch the mode", ArgsUsage: "ID MODE", Flags: flags(), Action: p.sessionsMode},
			{Name: "cancel", Usage: "cancel what a session does", ArgsUsage: "ID", Flags: flags(), Action: p.sessionsCancel},
			{Name: "close", Usage: "end a session", ArgsUsage: "ID", Flags: flags(), Action: p.sessionsClose},
			{Name: "events", Usage: "follow the events of a session, one JSON object a line", ArgsUsage: "ID",
				Flags: flags(&cli.Int64Flag{Name: "after", Usage: "go on after the event `ID`"}), Action: p.sessionsEvents},
		},
		Action: needSubcommand,
	}
}

func (p *program) sessionsList(c *cli.Context) error {
	if c.Bool("conversations") {
		return p.conversationList(c)
	}
	cl := p.client(c)
	defer cl.Close()
	var list api.SessionList
	if err := cl.Get(c.Context, "/api/chat/sessions", &list); err != nil {
		return daemonFailure(err)
	}
	if c.Bool("json") {
		return p.writeJSON(list)
	}
	for _, s := range list.Sessions {
		line := fmt.Sprintf("%s  uid %d  %-12s %s  %s", s.ID, s.UID, s.Mode, s.Created.Local().Format(time.DateTime), s.Workspace)
		if err := p.writeOut("%s\n", oneLine(line)); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) sessionsNew(c *cli.Context) error {
	cwd, err := workingDir()
	if err != nil {
		return err
	}
	q := api.SessionRequest{Cwd: api.Text(cwd), Env: api.Texts(p.environ), Policy: api.Texts(fromHere(cwd, c.StringSlice("policy"))),
		Profile: api.Text(c.String("profile")), Mode: c.String("mode")}
	if c.IsSet("workspace") {
		q.Grant.Workspace = api.Text(fromCwd(cwd, c.String("workspace")))
	}
	cl := p.client(c)
	defer cl.Close()
	var made api.Session
	if err := cl.Post(c.Context, "/api/chat/sessions", q, &made); err != nil {
		return daemonFailure(err)
	}
	for _, w := range made.Warnings {
		p.note("warning", w)
	}
	return p.writeOut("%s\n", made.ID)
}

func sessionPath(id, rest string) string { return "/api/chat/sessions/" + id + rest }

func (p *program) sessionsShow(c *cli.Context) error {
	id, err := oneArg(c, "session")
	if err != nil {
		return err
	}
	if strings.HasPrefix(id, "conversation-") {
		return p.conversationShow(c, id)
	}
	cl := p.client(c)
	defer cl.Close()
	var s api.Session
	if err := cl.Get(c.Context, sessionPath(id, ""), &s); err != nil {
		return daemonFailure(err)
	}
	return p.writeJSON(s)
}

func (p *program) sessionsRules(c *cli.Context) error {
	id, err := oneArg(c, "session")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	var rules api.RuleList
	if err := cl.Get(c.Context, sessionPath(id, "/permissions/rules"), &rules); err != nil {
		return daemonFailure(err)
	}
	if c.Bool("json") {
		return p.writeJSON(rules)
	}
	for _, r := range rules.Rules {
		if err := p.writeOut("%s\n", ruleLine(r)); err != nil {
			return err
		}
	}
	return nil
}

// ruleLine is a rule with where it comes from.
func ruleLine(r api.Rule) string {
	from := r.Source
	if r.File != "" {
		from += fmt.Sprintf(" %s:%d", r.File, r.Line)
	}
	return oneLine(fmt.Sprintf("%-5s %-50s %s", r.Kind, r.Rule, from))
}

// twoArgs are a session and something for it.
func twoArgs(c *cli.Context, what string) (id, value string, err error) {
	if c.Args().Len() != 2 {
		return "", "", misuse("flags come before them", "name the session and the %s", what)
	}
	id, err = plainID(c.Args().Get(0), "session")
	return id, c.Args().Get(1), err
}

func (p *program) sessionsRule(op, kind string) cli.ActionFunc {
	return func(c *cli.Context) error {
		id, rule, err := twoArgs(c, "rule")
		if err != nil {
			return err
		}
		cl := p.client(c)
		defer cl.Close()
		return daemonFailure(cl.Post(c.Context, sessionPath(id, "/permissions/rules"), api.RuleChange{Op: op, Kind: kind, Rule: rule, Reason: c.String("reason")}, nil))
	}
}

func (p *program) sessionsMode(c *cli.Context) error {
	id, mode, err := twoArgs(c, "mode")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	return daemonFailure(cl.Put(c.Context, sessionPath(id, "/permissions/mode"), api.ModeRequest{Mode: mode}, nil))
}

func (p *program) sessionsCancel(c *cli.Context) error {
	id, err := oneArg(c, "session")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	return daemonFailure(cl.Post(c.Context, "/api/chat/cancel", api.CancelRequest{Session: id}, nil))
}

func (p *program) sessionsClose(c *cli.Context) error {
	id, err := oneArg(c, "session")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	return daemonFailure(cl.Delete(c.Context, sessionPath(id, ""), nil))
}

// sessionsEvents prints the objects of agentloop.Event.
func (p *program) sessionsEvents(c *cli.Context) error {
	id, err := oneArg(c, "session")
	if err != nil {
		return err
	}
	cl := p.client(c)
	defer cl.Close()
	var last agentloop.Event
	return daemonFailure(cl.Events(c.Context, sessionPath(id, "/events"), max(c.Int64("after"), last.ID), func(kind string, data []byte) error {
		if kind == api.EventOpen {
			return nil
		}
		return p.writeOut("%s\n", data)
	}))
}
