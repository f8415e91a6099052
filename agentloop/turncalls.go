package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sandboxd/policy"
)

// maxUses is how many calls of one answer are looked at; the others get an error.
const maxUses = 128

// refusal is why the loop does not let a call be decided.
type refusal struct {
	check  string // as in [policy.SafetyReason]
	text   string
	status Status
}

// use is one call that the model asks for.
type use struct {
	block   Block
	args    policy.Args
	tool    Tool
	audit   string
	batch   int
	refused *refusal
	result  *Block   // once there is one
	told    []string // what hooks say to the model
}

// callAll runs the calls of one answer and tells the model what became of them:
// one result for each, in the order of the calls. With noTools none is run.
func (t *turn) callAll(ctx context.Context, blocks []Block, noTools bool) *TurnEnd {
	uses := make([]*use, len(blocks))
	safe := make([]bool, len(blocks))
	for i, b := range blocks {
		uses[i] = t.prepare(i, b, noTools)
		safe[i] = uses[i].refused != nil || uses[i].tool.Traits(uses[i].args).ConcurrencySafe
	}
	batches := partition(safe)
	for n, batch := range batches {
		for _, i := range batch {
			uses[i].batch = n + 1
		}
	}
	for _, u := range uses {
		t.events.send(EventTurnTool, t.toolEvent(u))
	}
	schedule{
		parallel: t.a.limits.Parallel,
		do:       func(ctx context.Context, i int) string { return t.callOne(ctx, uses[i]) },
		skip:     func(i int, why error) { t.skipOne(ctx, uses[i], why) },
		broken:   t.sayBroken,
	}.run(ctx, batches)
	return t.tellResults(ctx, uses)
}

// prepare validates a call before anything else is done with it.
func (t *turn) prepare(i int, b Block, noTools bool) *use {
	u := &use{block: b, audit: NewID("call")}
	refuse := func(check, format string, args ...any) *use {
		u.refused = &refusal{check: check, text: fmt.Sprintf(format, args...), status: StatusFail}
		return u
	}
	switch {
	case noTools:
		return refuse("last-step", "not run: this was the last step, and it has no tools")
	case i >= maxUses:
		return refuse("too-many", "not run: at most %d calls are made in one step", maxUses)
	}
	args, err := policy.DecodeArgs([]byte(b.Args))
	if err != nil {
		if why := t.limits.useText(b.Tool, b.Args); why != "" {
			return refuse("repeat", "%s", why)
		}
		return refuse("arguments", "not run: %v: the arguments must be one JSON object", err)
	}
	u.args = args
	if why := t.limits.use(b.Tool, args); why != "" {
		return refuse("repeat", "%s", why)
	}
	if u.tool = t.a.tool(b.Tool); u.tool == nil {
		return refuse("tool", "not run: there is no tool %q here; there are: %s", b.Tool, strings.Join(t.a.toolNames(), ", "))
	}
	if err := checkArgs(u.tool, args); err != nil {
		return refuse("arguments", "not run: %v", err)
	}
	return u
}

func (t *turn) toolEvent(u *use) TurnTool {
	e := TurnTool{Step: t.step, CallID: u.block.CallID, Audit: u.audit, Tool: u.block.Tool, Batch: u.batch}
	if u.args != nil {
		e.Args = maskedArgs(t.s.secrets, u.args)
	}
	return e
}

// callOne runs one call, unless it was refused. It names the tool when its failure
// ends the calls beside it.
func (t *turn) callOne(ctx context.Context, u *use) (abort string) {
	defer func() {
		if p := recover(); p != nil {
			t.endWith(t.bug(p))
			if u.result == nil {
				u.result = &Block{Kind: BlockToolResult, Origin: OriginTool, CallID: u.block.CallID, Tool: u.block.Tool, Text: fmt.Sprintf("[bug: %v]", p), Status: StatusFail}
			}
		}
	}()
	if end := t.wanted(); end != nil && u.refused == nil {
		u.refused = &refusal{check: "loop-ends", text: "not run: the turn ends: " + end.Error, status: StatusFail}
	}
	if u.refused == nil {
		u.refused = t.needsSandbox(ctx, u)
	}
	if u.refused != nil {
		t.refuseOne(ctx, u)
		return ""
	}
	started := u.block
	started.Audit = u.audit
	if err := t.a.keep(ctx, Entry{Kind: EntryStarted, Block: &started}); err != nil {
		t.endWith(*storeEnd(err))
		u.refused = &refusal{check: "store", text: "not run: the conversation cannot be kept", status: StatusFail}
		t.refuseOne(ctx, u)
		return ""
	}
	c := t.toolCall(u)
	output := outputText{send: func(stream, text string) {
		t.events.send(EventTurnOutput, TurnOutput{CallID: u.block.CallID, Stream: stream, Text: text})
	}}
	c.IO.Output = output.write
	res := t.a.o.Dispatcher.dispatch(context.WithoutCancel(ctx), ctx, t.s, c)
	output.end()
	t.settle(ctx, u, res)
	t.sandboxFailed(ctx, res)
	failed := res.Status == StatusFail || res.Status == StatusTimeout
	if failed && res.Decision.Verdict == policy.Allow && u.tool.Traits(u.args).SiblingAbort {
		return u.tool.Name()
	}
	return ""
}

func (t *turn) toolCall(u *use) ToolCall {
	return ToolCall{
		Call: policy.Call{ID: u.audit, Tool: u.block.Tool, Args: u.args, Agent: t.a.o.Path, Headless: t.a.o.Headless},
		Loop: t.a, Use: u.block.CallID, refusal: u.refused,
		checked: fmt.Sprintf("step %d, batch %d: the arguments are JSON, the call repeats none", t.step, u.batch),
	}
}

// refuseOne takes a refused call through the door, which records it.
func (t *turn) refuseOne(ctx context.Context, u *use) {
	c := t.toolCall(u)
	if c.Args == nil {
		c.Args = policy.Args{"arguments": clip(u.block.Args, maxAuditArgs/2)}
	}
	t.settle(ctx, u, t.a.o.Dispatcher.Dispatch(context.WithoutCancel(ctx), t.s, c))
}

// skipOne is a call that is not started any more.
func (t *turn) skipOne(ctx context.Context, u *use, why error) {
	if u.refused == nil {
		u.refused = &refusal{check: "cancelled", text: "not run: " + endText(why), status: StatusCancelled}
	}
	t.refuseOne(ctx, u)
}

// settle makes the result of a call.
func (t *turn) settle(ctx context.Context, u *use, res ToolResult) {
	text, file := t.a.o.Dispatcher.resultText(t.s, t.a.limits.MaxOutput, res, t.resultLines(ctx, u, res), commandOf(u.args)...)
	b := &Block{Kind: BlockToolResult, Origin: OriginTool, CallID: u.block.CallID, Tool: u.block.Tool, Text: text, Status: res.Status, Audit: res.Call}
	u.result, u.told = b, res.Context
	if err := t.a.keep(ctx, Entry{Kind: EntryResult, Block: b}); err != nil {
		t.endWith(*storeEnd(err))
	}
	if u.refused == nil {
		t.limits.result(u.tool.Name(), u.tool.Traits(u.args), res)
	}
	if res.StopLoop != "" {
		t.endWith(TurnEnd{Reason: EndHook, Error: res.StopLoop})
	}
	t.events.send(EventTurnResult, TurnResultBlock{CallID: u.block.CallID, Audit: res.Call, Tool: u.block.Tool, Status: res.Status, Text: text, File: file, Diff: res.Diff, Error: endedHow(res),
		Elapsed: res.Elapsed, Verdict: &policy.Decision{CallID: res.Call, Verdict: res.Decision.Verdict, Reason: res.Decision.Reason, Mode: res.Decision.Mode}})
}

// resultLines is what the model is told about a call: its output, what went wrong,
// and what people are told too.
func (t *turn) resultLines(ctx context.Context, u *use, res ToolResult) string {
	var lines []string
	add := func(s string) {
		if s = strings.TrimRight(s, "\n"); s != "" && !slices.Contains(lines, s) {
			lines = append(lines, s)
		}
	}
	add(res.Output)
	switch {
	case u.refused != nil:
		add("[" + u.refused.text + "]")
	case res.Status == StatusCancelled:
		add("[cancelled: " + endText(cancelCause(ctx)) + "; this call was ended before it had finished]")
	case res.Error != "" && !res.Ran && res.Decision.Verdict != policy.Allow:
		add("[not run: " + res.Error + "]")
	case res.Error != "":
		add("[error: " + res.Error + "]")
	}
	for _, n := range slices.Concat(res.Notes, t.newWarnings(res.Warnings)) {
		add("[note: " + n + "]")
	}
	for _, f := range res.Detected {
		add("[protected: " + f.String() + "]")
	}
	if len(lines) == 0 {
		return "[done, without output]"
	}
	return strings.Join(lines, "\n")
}

// commandOf are texts of a call that may hold secrets which its output repeats.
func commandOf(args policy.Args) []string {
	var out []string
	for _, name := range []string{"command", "cmd", "script"} {
		if text, ok := args[name].(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// endText says why calls were ended.
func endText(why error) string {
	if why == ErrCancelled {
		return "execution was cancelled by the user"
	}
	return why.Error()
}

// tellResults makes the results one message. What hooks said about the calls comes
// after it, with the next request.
func (t *turn) tellResults(ctx context.Context, uses []*use) *TurnEnd {
	m := Message{Role: RoleUser, Step: t.step, Time: t.a.now().UTC()}
	for _, u := range uses {
		if u.refused == nil {
			t.calls++
		}
		m.Blocks = append(m.Blocks, *u.result)
		for _, text := range u.told {
			t.a.Inject(OriginHook, u.block.Tool, text)
		}
	}
	t.a.mu.Lock()
	t.a.conv.messages = append(t.a.conv.messages, m)
	t.a.mu.Unlock()
	return t.broken(ctx)
}

// tool is a tool that the agent may use.
func (a *Agent) tool(name string) Tool {
	name = policy.CanonicalTool(name)
	if a.o.Tools != nil && !slices.Contains(a.o.Tools, name) || !a.o.Session.child.offers(name) {
		return nil
	}
	if own := a.o.Session.ownTool(name); own != nil {
		return own
	}
	return a.o.Dispatcher.tools[name]
}

// described are the tools that the model is offered, in the order of their names,
// so that caches of the request hold.
func (a *Agent) described() []Described {
	var out []Described
	for _, t := range slices.Concat(sortedTools(a.o.Dispatcher.tools), a.o.Session.Tools()) {
		if d, ok := t.(Described); ok && a.tool(t.Name()) != nil && !a.useless(t.Name()) {
			out = append(out, d)
		}
	}
	return out
}

// useless tools are not offered: a sub-agent has nobody to ask, and those that may
// not go deeper start none.
func (a *Agent) useless(name string) bool {
	return name == "ask_user" && a.o.Path != "" || name == "subagent" && !a.maySpawn()
}

func (a *Agent) toolNames() []string {
	var out []string
	for _, d := range a.described() {
		out = append(out, d.Name())
	}
	return out
}

// schemas declares the tools to the model.
func (a *Agent) schemas() []ToolSchema {
	var out []ToolSchema
	for _, d := range a.described() {
		s := d.Schema()
		s.Name = d.Name()
		if len(s.Parameters) == 0 {
			s.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, s)
	}
	return out
}
