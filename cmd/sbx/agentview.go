package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/policy"
)

// Bounds of what a person is shown of one call; the whole is in the conversation.
const (
	shownOutputLines = 12
	shownDiffLines   = 80
	shownWidth       = 160
)

// turnView shows the events of a session to a person. What the model says goes to
// out, all else to err. It is safe for concurrent use.
type turnView struct {
	out, err io.Writer
	paint    paint
	// live: pieces of the model's text are written as they come. Else the last
	// answer alone, at the end.
	live  bool
	quiet bool

	mu      sync.Mutex
	held    []func() // while a question is on the terminal
	holding bool
	column  bool // the text of the model has not ended its line
	said    string
	thought bool
	calls   map[string]*shownCall
	byAudit map[string]*shownCall
	// unanswered: the last call was refused since nobody could be asked.
	unanswered bool
	failed     error // of out
}

// shownCall is one call on its way.
type shownCall struct {
	tool, args string
	decided    bool
	printed    int  // lines of output
	cut        bool // more came
	rest       string
}

func newTurnView(out, err io.Writer, live bool, colours paint) *turnView {
	return &turnView{out: out, err: err, live: live, paint: colours, calls: map[string]*shownCall{}, byAudit: map[string]*shownCall{}}
}

func number(n int) string { return strconv.Itoa(n) }

// hold keeps back what comes until release: a question is being answered.
func (v *turnView) hold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.endLine()
	v.holding = true
}

func (v *turnView) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.holding = false
	for _, f := range v.held {
		f()
	}
	v.held = nil
}

// maxHeld bounds what is kept back, in events.
const maxHeld = 10_000

// show takes one event.
func (v *turnView) show(e agentloop.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holding && len(v.held) < maxHeld {
		v.held = append(v.held, func() { v.event(e) })
		return
	}
	v.event(e)
}

// event shows one; v.mu is held. Data that cannot be read is another version's.
func (v *turnView) event(e agentloop.Event) {
	switch e.Type {
	case agentloop.EventTurnStep:
		v.said, v.thought = "", false
	case agentloop.EventTurnText:
		if d, err := api.TurnData[agentloop.TurnText](e); err == nil {
			v.text(d.Text)
		}
	case agentloop.EventTurnThinking:
		if d, err := api.TurnData[agentloop.TurnText](e); err == nil && !v.thought && strings.TrimSpace(d.Text) != "" {
			v.thought = true
			v.line("%s", v.paint.in(dim, "thinking ..."))
		}
	case agentloop.EventTurnMessage:
		if d, err := api.TurnData[agentloop.Message](e); err == nil && d.Role == agentloop.RoleAssistant {
			v.whole(d.Text())
		}
	case agentloop.EventTurnTool:
		if d, err := api.TurnData[agentloop.TurnTool](e); err == nil {
			c := &shownCall{tool: d.Tool, args: argsLine(d.Tool, d.Args)}
			v.calls[d.CallID], v.byAudit[d.Audit] = c, c
		}
	case agentloop.EventCallDecided:
		v.decided(e)
	case agentloop.EventTurnOutput:
		if d, err := api.TurnData[agentloop.TurnOutput](e); err == nil {
			v.output(d)
		}
	case agentloop.EventTurnResult:
		if d, err := api.ResultData(e); err == nil {
			v.result(d)
		}
	case agentloop.EventTurnRetry:
		if d, err := api.TurnData[agentloop.TurnRetry](e); err == nil {
			v.line("asking the model again in %s: %s", roundTime(d.Wait), safe(d.Error, 2*shownWidth))
		}
	case agentloop.EventTurnNotice:
		if d, err := api.TurnData[agentloop.TurnNotice](e); err == nil {
			v.line("%s", safe(d.Text, 4*shownWidth))
		}
	case agentloop.EventTaskEnded:
		if d, err := api.TurnData[agentloop.TaskState](e); err == nil {
			v.line("background %s: %s: %s", safe(d.ID, shownWidth), safe(d.Outline(), shownWidth), safe(d.Command, shownWidth))
		}
	case agentloop.EventTurnCompact:
		if d, err := api.TurnData[agentloop.TurnCompaction](e); err == nil {
			v.compacted(d)
		}
	default:
		v.beside(e)
	}
}

// text writes a piece of what the model says.
func (v *turnView) text(piece string) {
	v.said += piece
	if !v.live || piece == "" {
		return
	}
	shown := manyLines(piece)
	v.write(shown)
	v.column = !strings.HasSuffix(shown, "\n")
}

// whole completes what the pieces told: some may have been lost on the way.
func (v *turnView) whole(text string) {
	switch rest, ok := strings.CutPrefix(text, v.said); {
	case ok:
		v.text(rest)
	case v.live: // masked afterwards, or pieces are missing in the middle
		v.endLine()
		v.said = ""
		v.text(text)
	}
	v.said = ""
	v.endLine()
}

func (v *turnView) write(text string) {
	if _, err := io.WriteString(v.out, text); err != nil && v.failed == nil {
		v.failed = err
	}
}

// endLine ends the line of the model's text.
func (v *turnView) endLine() {
	if v.column {
		v.write("\n")
		v.column = false
	}
}

// line writes one line about what happens.
func (v *turnView) line(format string, args ...any) {
	if v.quiet {
		return
	}
	v.endLine()
	// Colours are ours; what others wrote was made safe by who calls.
	fmt.Fprintf(v.err, "sbx: "+format+"\n", args...)
}

// safe is for what others wrote in a line that has our colours.
func safe(text string, most int) string { return oneLine(cutLine(text, most)) }

// decidedData is what is read of a decision.
type decidedData struct {
	Call    string          `json:"call_id"`
	Tool    string          `json:"tool"`
	Agent   string          `json:"agent_name"`
	Verdict string          `json:"verdict"`
	Reason  reasonData      `json:"reason"`
	Args    json.RawMessage `json:"args"`
	Changed bool            `json:"changed"`
}

// reasonData is a reason as policy.ReasonJSON writes it.
type reasonData struct {
	Type, Kind, Pattern, Text, Mode, Name, Check, By string
	Score                                            *float64
}

func (r reasonData) String() string {
	out := r.Type
	for _, part := range []string{r.Mode, r.Name, r.Check, r.Kind, r.Pattern, r.By} {
		if part != "" {
			out += " " + part
		}
	}
	if r.Score != nil {
		out += fmt.Sprintf(" %.2f", *r.Score)
	}
	if r.Text != "" {
		out += ": " + r.Text
	}
	return out
}

// decided shows a call with its verdict, in one line.
func (v *turnView) decided(e agentloop.Event) {
	d, err := api.TurnData[decidedData](e)
	if err != nil {
		return
	}
	c := v.byAudit[d.Call]
	if c == nil { // of a sub-agent
		c = &shownCall{tool: d.Tool, args: argsLine(d.Tool, d.Args)}
		v.byAudit[d.Call] = c
	}
	c.decided = true
	if d.Changed {
		c.args = argsLine(d.Tool, d.Args)
	}
	v.unanswered = d.Verdict == policy.Deny.String() && (d.Reason.Type == "headless" || d.Reason.Type == "timeout")
	if d.Reason.Check == "cancelled" { // the result tells
		c.decided = false
		return
	}
	verdict, colour := d.Verdict, green
	if d.Changed {
		verdict += ", changed by a hook"
	}
	if d.Verdict != policy.Allow.String() {
		colour = red
	}
	who := ""
	if d.Agent != "" && d.Agent != "lead" {
		who = safe(d.Agent, 40) + ": "
	}
	v.line("%s%s %s %s", who, v.paint.in(bold, safe(c.tool, 60)), safe(c.args, shownWidth),
		v.paint.in(colour, "["+verdict+": "+safe(d.Reason.String(), shownWidth)+"]"))
}

// output shows pieces of a command's output, the first lines of them.
func (v *turnView) output(d agentloop.TurnOutput) {
	c := v.calls[d.CallID]
	if c == nil || v.quiet {
		return
	}
	text := c.rest + d.Text
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			c.rest = cutLine(text, 4*shownWidth)
			return
		}
		text = rest
		v.outputLine(c, line)
	}
}

func (v *turnView) outputLine(c *shownCall, line string) {
	if c.printed == shownOutputLines {
		if !c.cut {
			c.cut = true
			v.line("  %s", v.paint.in(dim, "| ... more output"))
		}
		return
	}
	c.printed++
	v.line("  %s", v.paint.in(dim, "| "+safe(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "), shownWidth)))
}

// result shows what is not told by the decision and the output.
func (v *turnView) result(d agentloop.TurnResultBlock) {
	c := v.calls[d.CallID]
	if c == nil {
		c = &shownCall{tool: d.Tool}
	}
	if c.rest != "" {
		v.outputLine(c, c.rest)
		c.rest = ""
	}
	switch {
	case d.Diff != "" && !v.quiet:
		v.endLine()
		fmt.Fprint(v.err, v.paint.diff(d.Diff, shownDiffLines))
	case d.Status == agentloop.StatusOK || c.decided && (d.Status == agentloop.StatusDeny || d.Status == agentloop.StatusBlocked):
	default:
		why := d.Error
		if why == "" { // the last line says how it ended
			text := strings.TrimSpace(d.Text)
			why = text[strings.LastIndexByte(text, '\n')+1:]
		}
		v.line("  %s %s", v.paint.in(red, safe(c.tool+": "+string(d.Status), 60)), safe(why, 2*shownWidth))
	}
	delete(v.calls, d.CallID)
	delete(v.byAudit, d.Audit)
}

func (v *turnView) compacted(d agentloop.TurnCompaction) {
	if d.Error != "" {
		v.line("the conversation could not be summarised: %s", safe(d.Error, shownWidth))
		return
	}
	if d.After == 0 { // nobody has counted them: the next request does
		v.line("%s", v.paint.in(dim, fmt.Sprintf("summarised (%s); before %d tokens", safe(d.Kind, 20), d.Before)))
		return
	}
	v.line("%s", v.paint.in(dim, fmt.Sprintf("summarised (%s): %d tokens, before %d", safe(d.Kind, 20), d.After, d.Before)))
}

// begin forgets the turn before.
func (v *turnView) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said, v.thought, v.unanswered = "", false, false
	clear(v.calls)
	clear(v.byAudit)
}

// leftUnanswered reports whether the turn's last call was refused since nobody could
// be asked.
func (v *turnView) leftUnanswered() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.unanswered
}

// ended tells how a turn went.
func (v *turnView) ended(end agentloop.TurnEnd) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.live && end.Text != "" {
		v.write(manyLines(strings.TrimRight(end.Text, "\n")) + "\n")
	}
	v.endLine()
	what := safe(string(end.Reason), 40)
	if end.Error != "" {
		what += ": " + safe(end.Error, 4*shownWidth)
	}
	tokens := end.Usage.Context()
	line := fmt.Sprintf("%s; %s, %s, %d tokens", what, counted(end.Steps, "step"), counted(end.Calls, "call"), tokens)
	if end.Cost != nil && *end.Cost > 0 {
		line += fmt.Sprintf(", $%.4f", *end.Cost)
	}
	v.line("%s, %s", line, roundTime(end.Elapsed))
}

func roundTime(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// shownArgs names the argument of a tool that says most about a call.
var shownArgs = map[string]string{
	"run_bash": "command", "bg_task_run": "command", "read_file": "path", "file_write": "path", "file_edit": "path", "list_dir": "path",
	"glob_files": "pattern", "grep_files": "pattern", "web_fetch": "url", "subagent": "description", "ask_user": "question", "load_skill": "name",
}

// argsLine is a call's arguments in one line.
func argsLine(tool string, args json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(args, &fields) != nil {
		return string(args)
	}
	if main, ok := fields[shownArgs[tool]].(string); ok {
		first, rest, more := strings.Cut(strings.TrimSpace(main), "\n")
		if more && strings.TrimSpace(rest) != "" {
			first += " ..."
		}
		return first
	}
	return string(args)
}
