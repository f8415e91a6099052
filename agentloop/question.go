package agentloop

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"sandboxd/policy"
)

// describe says everything that a person needs to answer.
func (q *AskQueue) describe(s *Session, asked policy.Question, digest string) PendingQuestion {
	now := q.o.Now().UTC()
	c := asked.Call
	p := PendingQuestion{
		ID: NewID("question"), UID: s.peer.UID(), Session: s.id, Call: c.ID, Agent: agentName(c.Agent),
		Asked: now, Expires: now.Add(q.o.Timeout), Tool: policy.CanonicalTool(c.Tool), Cwd: c.Cwd, CallCwd: c.Cwd, Mode: asked.Mode.String(), Digest: digest,
	}
	if dir, err := callDir(ToolCall{Call: c}); err == nil && dir != "" {
		p.Cwd = s.expand(dir, c.Cwd) // where it starts, which an argument may say
	}
	if p.Cwd == "" {
		p.Cwd = s.workspace
	}
	p.Args, _ = json.Marshal(c.Args)
	if startsCommand(p.Tool) {
		p.Script, _ = oneText(c.Args, "command", "cmd", "script")
		p.Shown = ShowText(p.Script)
	} else {
		p.Shown = p.Tool + " " + shownArgs(p.Args)
	}
	if asked.Reason != nil {
		p.Reason, _ = policy.ReasonJSON(asked.Reason)
		p.Why = ShowText(asked.Reason.String())
	}
	p.Risk, _ = json.Marshal(asked.Explain)
	found := asked.Effects
	p.Argv, p.Redirects, p.Reads, p.Writes = found.Argv, found.Redirects, found.Reads, found.Writes
	if startsCommand(p.Tool) && !s.onlyRules() {
		_ = s.asUser(func() { p.Opens = s.openingTexts(found.Uses) })
	}
	if g := asked.Suggest; g != nil && len(g.Rules) > 0 {
		p.AlwaysRules, p.AlwaysRule = g.Rules, strings.Join(g.Rules, " ")
		if g.AlsoAllows != "" {
			p.AlwaysAllows = strings.Split(g.AlsoAllows, "; ")
		}
	}
	if q.o.Placement != nil {
		p.Placement = q.o.Placement(s)
	} else {
		p.Placement = s.placement()
	}
	return p
}

// placement says in one line how a call of s is confined.
func (s *Session) placement() string {
	g := s.inForce().Grant
	network := "no network"
	for _, n := range g.Network {
		if n != "none" {
			network = "network: " + strings.Join(g.Network, ", ")
		}
	}
	writes := "writes in " + s.workspace
	if s.Mode() == policy.ModePlan {
		writes = "writes nothing"
	}
	for _, p := range g.Paths {
		if p.Access == policy.GrantWrite {
			writes += ", " + p.Path
		}
	}
	return ShowText(fmt.Sprintf("sandbox: %s; %s; as uid %d", writes, network, s.peer.UID()))
}

// storedQuestion is a question as it is kept on disk: without the secrets that
// are found in it. A rule that holds one is not kept.
func storedQuestion(q PendingQuestion, red *Redactor) PendingQuestion {
	// A word that is a secret where it stands is one elsewhere too, in a path say.
	red = red.learning(q.Script, strings.Join(q.Argv, " "))
	q.Script, q.Shown = red.Mask(q.Script), red.Mask(q.Shown)
	q.Text, q.Options = red.Mask(q.Text), maskAll(red, q.Options)
	q.Argv = red.MaskWords(q.Argv)
	q.Redirects, q.Reads, q.Writes = maskAll(red, q.Redirects), maskAll(red, q.Reads), maskAll(red, q.Writes)
	if args, err := policy.DecodeArgs(q.Args); err == nil {
		q.Args, _ = json.Marshal(red.MaskArgs(args))
	}
	q.Reason, q.Risk = maskJSON(red, q.Reason), maskJSON(red, q.Risk)
	q.Why, q.Opens = red.Mask(q.Why), maskAll(red, q.Opens)
	q.Diff, q.NoDiff = "", "" // the content of a file is in that file
	for _, rule := range q.AlwaysRules {
		if red.Mask(rule) != rule {
			q.AlwaysRule, q.AlwaysRules, q.AlwaysAllows = "", nil, nil
			break
		}
	}
	q.AlwaysAllows = maskAll(red, q.AlwaysAllows)
	return q
}

func maskAll(red *Redactor, list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, red.Mask(s))
	}
	return out
}

// maskJSON masks the texts of a JSON object, so that it stays one.
func maskJSON(red *Redactor, text json.RawMessage) json.RawMessage {
	var v map[string]any
	if json.Unmarshal(text, &v) != nil {
		return nil
	}
	out, err := json.Marshal(red.MaskArgs(v))
	if err != nil {
		return nil
	}
	return out
}

// askRow is the row of a question that was put.
func askRow(q PendingQuestion, s *Session) AuditRecord {
	args, _ := policy.DecodeArgs(q.Args)
	red := s.keptWith(args)
	return AuditRecord{
		Time: q.Asked, UID: q.UID, Session: q.Session, Call: q.Call, Tool: q.Tool, Status: StatusAsk, Agent: q.Agent,
		Verdict: policy.Ask.String(), Reason: maskJSON(red, q.Reason), Args: maskedArgs(red, args), Generation: s.Generation(),
	}
}

// ShowText writes s in one line for a terminal: control characters, those that
// change the direction of text or are not seen, and broken bytes are escaped, so
// that what is shown is what is there.
func ShowText(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= 0x80 {
			if r, n = utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
				r = -1
			}
		}
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\\':
			b.WriteString(`\\`)
		case r < 0: // a byte that begins no character
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r >= 0x80 && (!unicode.IsPrint(r) || unicode.Is(unicode.Mn, r)):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
