package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/cmd/sandboxd/api"
	"sandboxd/policy"
)

// agentOptions are what a command line of sbx agent asks for.
type agentOptions struct {
	session api.SessionRequest
	prompt  string
	data    string // of a pipe beside the prompt
	// talk: prompts are read at the terminal, one after the other.
	talk, json, quiet, noAsk bool
}

// grantFlags are those of sbx run that an agent's session takes too.
var grantFlags = []string{"workspace", "ro", "rw", "deny", "protect", "unprotect", "net", "unix", "env", "policy", "profile",
	"memory", "pids", "cpu", "file-size", "syscalls", "no-exec-write"}

func agentCommand(p *program) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "mode", Usage: "decide in `MODE`: default, acceptEdits, bypassPermissions, dontAsk, plan or auto"},
		&cli.StringFlag{Name: "model", Usage: "ask the model `NAME`"},
		&cli.StringFlag{Name: "provider", Usage: "`WHO` answers: anthropic, openai, openai-responses or scripted"},
		&cli.StringFlag{Name: "base-url", Usage: "the provider is at `URL`"},
		&cli.StringFlag{Name: "script", Usage: "play the model from `FILE`: no network, no key", TakesFile: true},
		&cli.IntFlag{Name: "max-steps", Usage: "ask the model at most `N` times a turn", DefaultText: "8"},
		&cli.StringFlag{Name: "budget", Usage: "spend at most `USD` on the conversation"},
		&cli.StringFlag{Name: "time", Usage: "end the turn after `TIME`"},
		&cli.StringFlag{Name: "tools", Usage: "offer the model only these tools: `NAME,NAME...`"},
		&cli.StringFlag{Name: "system", Usage: "add `TEXT` to the system prompt"},
		&cli.StringFlag{Name: "continue", Aliases: []string{"c"}, Usage: "go on with the last conversation of this workspace, or with =`ID`"},
		&cli.StringFlag{Name: "resume", Usage: "go on with the conversation `ID`"},
		&cli.StringFlag{Name: "fork", Usage: "take up the conversation `ID` in one of its own"},
		&cli.Int64Flag{Name: "fork-at", Usage: "after entry `N` of it", DefaultText: "the end"},
		&cli.BoolFlag{Name: "json", Usage: "print the events, one JSON object a line"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print what the model says alone"},
		&cli.BoolFlag{Name: "no-ask", Usage: "answer no question at this terminal: without another answerer they are denied"},
	}
	for _, f := range runFlags() {
		if slices.Contains(grantFlags, f.Names()[0]) {
			flags = append(flags, f)
		}
	}
	return &cli.Command{
		UsageText: examples(
			`sbx agent "make the failing test pass"`,
			"sbx agent",
			"git diff | sbx agent --mode plan 'review this'",
			"sbx agent --continue 'now the other one'",
			"sbx agent --json --mode acceptEdits --max-steps 30 --budget 2 'update the docs' > events.jsonl"),
		Description: "A model works on the workspace with tools, each call decided by the policy and confined.\n" +
			"Without PROMPT on a terminal it is a conversation; with - it is standard input. What is\n" +
			"piped in beside a PROMPT goes with it as data. Ctrl-C cancels the turn, a second one ends. Exit status: 0 done, 1 no answer of\n" +
			"the model, 3 a limit, 4 denied, 124 out of time, 125 misuse or no daemon, 130 cancelled.",
		ArgsUsage: "[PROMPT|-]",
		Flags:     append(flags, socketFlag()),
		Action:    func(c *cli.Context) error { return p.agent(c) },
	}
}

// withContinue gives --continue, whose value is optional, one where it stands alone.
func withContinue(args []string) []string {
	if len(args) == 0 || args[0] != "agent" {
		return args
	}
	out := slices.Clone(args)
	for i, a := range out {
		switch a {
		case "--":
			return out
		case "--continue", "-continue", "-c", "--c":
			out[i] = "--continue=" + api.LastConversation
		}
	}
	return out
}

func (p *program) agent(c *cli.Context) error {
	o, err := p.agentOptions(c)
	if err != nil {
		return err
	}
	return p.runAgent(c.Context, c, o)
}

func (p *program) agentOptions(c *cli.Context) (agentOptions, error) {
	o := agentOptions{json: c.Bool("json"), quiet: c.Bool("quiet"), noAsk: c.Bool("no-ask")}
	cwd, err := workingDir()
	if err != nil {
		return o, err
	}
	run, err := p.readRun(c, func(f flagValues) flagValues { return onlyFlags{f, grantFlags} }, []string{"agent"}, cwd)
	if err != nil {
		return o, err
	}
	o.session = api.SessionRequest{
		Cwd: api.Text(cwd), Env: api.Texts(p.environ), Grant: api.NewGrant(run.grant), Policy: api.Texts(fromHere(cwd, run.policyFiles)),
		Profile: api.Text(run.profile), Mode: c.String("mode"), Fork: c.String("fork"), ForkAt: c.Int64("fork-at"), Attached: true,
	}
	if o.session.Agent, err = agentRequest(c, cwd); err != nil {
		return o, err
	}
	if o.session.Resume, err = resumed(c); err != nil {
		return o, err
	}
	if m := o.session.Mode; m != "" {
		if _, err := policy.ParseMode(m); err != nil {
			return o, misuse("sbx agent --help lists them", "unknown mode %q", m)
		}
	}
	o.prompt, o.talk, err = p.agentPrompt(c)
	if err == nil && c.Args().Len() == 1 && c.Args().First() != "-" {
		o.data, err = p.pipedData()
	}
	if err == nil && o.talk && o.json {
		err = misuse("give the prompt, or - for standard input", "--json takes no prompts from the terminal")
	}
	return o, err
}

// onlyFlags hides all flags but the named ones.
type onlyFlags struct {
	flagValues
	names []string
}

func (f onlyFlags) IsSet(name string) bool {
	return slices.Contains(f.names, name) && f.flagValues.IsSet(name)
}

func (f onlyFlags) Bool(name string) bool {
	return slices.Contains(f.names, name) && f.flagValues.Bool(name)
}

func (f onlyFlags) String(name string) string {
	if !slices.Contains(f.names, name) {
		return ""
	}
	return f.flagValues.String(name)
}

func (f onlyFlags) StringSlice(name string) []string {
	if !slices.Contains(f.names, name) {
		return nil
	}
	return f.flagValues.StringSlice(name)
}

// agentRequest is what the flags say about the model and its limits.
func agentRequest(c *cli.Context, cwd string) (*api.AgentRequest, error) {
	q := &api.AgentRequest{Provider: c.String("provider"), Model: c.String("model"), BaseURL: c.String("base-url"),
		MaxSteps: c.Int("max-steps"), System: c.String("system")}
	if c.IsSet("max-steps") && q.MaxSteps < 1 {
		return nil, misuse("", "--max-steps is a number above zero")
	}
	if c.IsSet("script") {
		if q.Provider != "" && q.Provider != "scripted" {
			return nil, misuse("leave one of them out", "--script plays the provider scripted, not %s", q.Provider)
		}
		q.Provider = "scripted"
		if err := readScript(q, fromCwd(cwd, c.String("script"))); err != nil {
			return nil, misuse("docs/agent-scripts.md describes such files", "--script: %v", err)
		}
	}
	if text := c.String("budget"); c.IsSet("budget") {
		usd, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
		if err != nil || !(usd > 0) || usd > 1e6 {
			return nil, misuse("in US dollars, as in --budget 0.50", "--budget %q is no amount above zero", text)
		}
		q.BudgetUSD = usd
	}
	if text := c.String("time"); c.IsSet("time") {
		d, err := parseDuration(text)
		if err != nil || d < time.Millisecond {
			return nil, misuse("as in --time 10m", "--time %q is no time above zero", text)
		}
		q.TimeMS = d.Milliseconds()
	}
	if c.IsSet("tools") {
		for name := range strings.SplitSeq(c.String("tools"), ",") {
			if name = strings.TrimSpace(name); name == "" {
				return nil, misuse("as in --tools read_file,run_bash", "--tools holds an empty name")
			}
			q.Tools = append(q.Tools, policy.CanonicalTool(name))
		}
	}
	return q, nil
}

// readScript names the script. One that only this process can open, as <(...) of a
// shell is, is read here.
func readScript(q *api.AgentRequest, name string) error {
	st, err := os.Stat(name)
	if err != nil {
		return err
	}
	if st.Mode().IsRegular() && !api.OwnName(name) {
		q.Script = api.Text(name)
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, api.MaxScriptBytes+1))
	switch {
	case err != nil:
		return err
	case len(text) == 0:
		return fmt.Errorf("%s is empty", name)
	case len(text) > api.MaxScriptBytes:
		return fmt.Errorf("%s is longer than %d bytes", name, api.MaxScriptBytes)
	}
	q.ScriptText = string(text)
	return nil
}

// resumed is the conversation to go on with.
func resumed(c *cli.Context) (string, error) {
	given := 0
	for _, name := range []string{"continue", "resume", "fork"} {
		if c.IsSet(name) {
			given++
		}
	}
	switch {
	case given > 1:
		return "", misuse("leave all but one out", "--continue, --resume and --fork exclude each other")
	case c.IsSet("fork-at") && !c.IsSet("fork"):
		return "", misuse("add --fork ID", "--fork-at without --fork")
	case c.IsSet("resume"):
		return c.String("resume"), nil
	}
	return c.String("continue"), nil
}

// maxPrompt bounds a prompt from standard input, as the daemon does.
const maxPrompt = 1 << 20

// agentPrompt is what to say first; talk says that a person will go on typing.
func (p *program) agentPrompt(c *cli.Context) (prompt string, talk bool, err error) {
	args := c.Args()
	terminal := p.stdin != nil && isTerminal(int(p.stdin.Fd()))
	switch {
	case args.Len() > 1:
		hint := `quote it, as in: sbx agent "make the test pass"`
		if slices.ContainsFunc(args.Slice(), func(a string) bool { return strings.HasPrefix(a, "-") }) {
			hint = "flags come before the prompt, which is one quoted word"
		}
		return "", false, misuse(hint, "the prompt is %d words", args.Len())
	case args.Len() == 1 && args.First() != "-":
		prompt = args.First()
	case args.Len() == 0 && terminal:
		return "", true, nil
	case p.stdin == nil:
		return "", false, misuse("", "standard input is closed, and there is no prompt")
	default:
		text, err := io.ReadAll(io.LimitReader(p.stdin, maxPrompt+1))
		if err != nil {
			return "", false, &failure{code: exitSandbox, stage: "prompt", err: err}
		}
		if len(text) > maxPrompt {
			return "", false, misuse("put it into a file of the workspace and name that", "the prompt is longer than %s", sizeText(maxPrompt))
		}
		prompt = string(text)
	}
	if strings.TrimSpace(prompt) == "" {
		return "", false, misuse(`as in: sbx agent "make the failing test pass"`, "the prompt is empty")
	}
	return prompt, false, nil
}

// runAgent makes the session and talks in it.
func (p *program) runAgent(ctx context.Context, flags flagValues, o agentOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := p.someDaemon(ctx, flags)
	if err != nil {
		return err
	}
	d.AnswersAs(api.AgentAnswerer)
	defer d.close()
	made, err := d.CreateSession(ctx, o.session)
	if err != nil {
		return daemonFailure(err)
	}
	for _, w := range made.Warnings {
		p.note("warning", w)
	}
	a := p.newAgentRun(d.Client, made, o, cancel)
	defer a.close()
	if err := a.follow(ctx); err != nil {
		return daemonFailure(err)
	}
	if o.talk {
		err = a.talk(ctx)
	} else {
		err = a.turn(ctx, api.MessageRequest{Text: o.prompt, Data: o.data, DataName: "standard input"})
	}
	if sig := a.ended(); sig != 0 {
		return exitStatus(128 + sig)
	}
	if err == nil || errors.As(err, new(exitStatus)) || errors.As(err, new(*failure)) {
		return err
	}
	if a.said != "" {
		p.note("note", conversationNote(a.said))
	}
	return daemonFailure(err)
}

// conversationNote says how to go on.
func conversationNote(id string) string {
	return fmt.Sprintf("conversation %s: sbx agent --continue goes on", id)
}
