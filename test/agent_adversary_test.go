package test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// adversary is a model that misbehaves, with what must become of it. Each is played
// over a real wire protocol to sbx agent and sandboxd, in a workspace of its own
// that holds secret.txt, which is denied, beside out/outside.txt.
type adversary struct {
	name string
	// enter comes before all that listens or runs, setup before the run.
	enter, setup func(s *scene)
	// policy is added to the user's.
	policy string
	// flags are more flags of sbx agent.
	flags []string
	// replies are the answers of the model, one a request; then it says "done".
	replies func(s *scene) []modelReply
	// play stands in place of replies; n counts the requests from 0.
	play func(s *scene, n int, r modelRequest) modelReply
	// end is the reason; empty: completed. code is the exit status.
	end  string
	code int
	// told must be in what the model was told, in any of its results.
	told []string
	// unkept: its answer is so large that the turn ends without it.
	unkept bool
	// maybe: how it ends, and what it leaves in the workspace, is not judged.
	maybe bool
	// others: some calls are those of sub-agents, in conversations of their own.
	others bool
	// renamed: calls have other ids, or are left out, in the conversation.
	renamed bool
	// people: the output is the one for people, not events.
	people bool
	// left are the files that the run leaves in the workspace, with their content.
	left map[string]string
	// after looks at the rest.
	after func(s *scene, o adversaryEnd)
}

// adversaryEnd is what came of an adversary.
type adversaryEnd struct {
	result
	reason   string
	calls    []modelCall            // all that the model asked for
	results  map[string]modelResult // by the id of the call
	requests []modelRequest
	rows     []auditRow
	audited  map[string]string // calls in the audit log, by the id of the call
	took     time.Duration
	// again lets an honest model begin another conversation there.
	again func(s *scene) []modelRequest
}

type auditRow struct {
	Tool    string          `json:"tool_name"`
	Call    string          `json:"call_id"`
	Session string          `json:"session_id"`
	Status  string          `json:"status"`
	Agent   string          `json:"agent_name"`
	Reason  json.RawMessage `json:"reason"`
}

// texts are all results, as the model was told.
func (o adversaryEnd) texts() string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(o.results)) {
		all = append(all, o.results[id].Text)
	}
	return strings.Join(all, "\n")
}

// statuses are those of the audit rows of the n-th call (of all that the model asked
// for), joined by spaces: "deny", "allow ok".
func (o adversaryEnd) statuses(n int) string {
	var list []string
	for _, r := range o.rows {
		if id := o.audited[o.calls[n].ID]; id != "" && r.Call == id {
			list = append(list, r.Status)
		}
	}
	return strings.Join(list, " ")
}

// want compares the audit rows of calls.
func (o adversaryEnd) want(s *scene, statuses string, calls ...int) {
	s.Helper()
	for _, n := range calls {
		if n >= len(o.calls) {
			s.Errorf("there is no call %d: %d were asked for", n, len(o.calls))
		} else if got := o.statuses(n); got != statuses {
			s.Errorf("call %d, %.60q %.100q: its rows are %q, want %q: %.300s", n, o.calls[n].Tool, o.calls[n].Raw, got, statuses, o.results[o.calls[n].ID].Text)
		}
	}
}

// ran lists the tools whose calls came to run, by the audit log.
func (o adversaryEnd) ran() []string {
	var list []string
	for _, r := range o.rows {
		if (r.Status == "ok" || r.Status == "fail") && r.Tool != "turn" && r.Tool != "session" {
			list = append(list, r.Tool)
		}
	}
	return list
}

func use(tool string, args object) modelCall { return modelCall{Tool: tool, Args: args} }

func raw(tool, args string) modelCall { return modelCall{Tool: tool, Raw: args} }

func bash(script string) modelCall { return use("run_bash", object{"command": script}) }

// oneByOne are answers with one call each.
func oneByOne(calls ...modelCall) []modelReply {
	var list []modelReply
	for _, c := range calls {
		list = append(list, modelReply{Calls: []modelCall{c}})
	}
	return list
}

// atOnce is one answer with all calls.
func atOnce(calls ...modelCall) []modelReply { return []modelReply{{Calls: calls}} }

// playAll plays adversaries against a daemon of their own, in turns over one protocol
// and the other.
func playAll(t *testing.T, list []adversary) {
	t.Helper()
	playOver(t, list, func(i int) []int { return []int{i % len(wires)} })
}

// playOver is playAll over the protocols that over names.
func playOver(t *testing.T, list []adversary, over func(i int) []int) {
	t.Helper()
	t.Parallel()
	playOn(t, startDaemon(t, users()[len(users())-1]), list, over)
}

func playOn(t *testing.T, d *daemonRun, list []adversary, over func(i int) []int) {
	t.Helper()
	var tokens []string
	for i, a := range list {
		for _, wire := range over(i) {
			t.Run(a.name+"/"+wires[wire].provider, func(t *testing.T) { tokens = append(tokens, d.playOne(t, a, wire)) })
		}
	}
	if r := d.sbxTo(d, "audit", "verify"); r.Code != 0 {
		t.Errorf("audit verify: %s%s", r.Stdout, r.Stderr)
	}
	d.everywhereBut("", append(tokens, modelKey)...)
}

// playOne returns the secret of the run.
func (d *daemonRun) playOne(t *testing.T, a adversary, wire int) string {
	s := newScene(t, d.uid, "full")
	if a.enter != nil {
		a.enter(s)
	}
	s.file(s.Work+"/secret.txt", s.Token+"\n")
	s.file(s.Work+"/notes.txt", "one\ntwo\nthree\n")
	s.file(s.Out+"/outside.txt", s.Token+"\n")
	if a.setup != nil {
		a.setup(s)
	}
	s.must(os.Chmod(s.file(s.Home+"/.config/sandboxd/policy.toml", agentPolicy+a.policy), 0o600))
	n, replies := -1, []modelReply(nil)
	if a.replies != nil {
		replies = a.replies(s)
	}
	var asked []modelCall
	m := startModel(t, func(r modelRequest) modelReply {
		n++
		reply := modelReply{Text: "done"}
		if a.play != nil {
			reply = a.play(s, n, r)
		} else if n < len(replies) {
			reply = replies[n]
		}
		for i := range reply.Calls { // ids, here, so that the test knows them too
			reply.Calls[i].ID = cmp.Or(reply.Calls[i].ID, fmt.Sprintf("call_%03d_%03d", n, i))
		}
		asked = append(asked, reply.Calls...)
		return reply
	})
	before := []map[string]string{s.tree(s.Work), s.tree(s.Out), s.tree(s.Home)}
	children := d.descendants()
	w := wires[wire]
	flags := append([]string{"--no-ask", "--deny", s.Work + "/secret.txt"}, a.flags...)
	if !a.people {
		flags = append(flags, "--json")
	}
	c := s.toDaemon(d, append([]string{"agent", "--provider", w.provider, "--base-url", m.URL + w.path, "--model", "local-model"}, append(flags, "do it")...)...)
	c.Env = append(c.Env, w.keyVariable+"="+modelKey)
	start := time.Now()
	r := s.finish(c)
	o := adversaryEnd{result: r, calls: asked, requests: m.requests(), results: map[string]modelResult{}, audited: map[string]string{}, took: time.Since(start)}
	o.again = func(s *scene) []modelRequest {
		s.Helper()
		m := startModel(t, func(modelRequest) modelReply { return modelReply{Text: "done"} })
		c := s.toDaemon(d, "agent", "--provider", w.provider, "--base-url", m.URL+w.path, "--model", "local-model", "--no-ask", "do it")
		c.Env = append(c.Env, w.keyVariable+"="+modelKey)
		if r := s.finish(c); r.Code != 0 {
			s.Errorf("the next conversation: %d %s", r.Code, r.Stderr)
		}
		return m.requests()
	}
	session, conversation := "", ""
	if a.people {
		session, conversation, o.reason = d.lastTurn(s)
	} else {
		session, conversation = o.readEvents(t)
	}
	for _, q := range o.requests {
		_, results := q.calls()
		maps.Copy(o.results, results)
	}
	if want := cmp.Or(a.end, "completed"); !a.maybe && (o.reason != want || r.Code != a.code) || o.reason == "" {
		t.Errorf("it ended with %q, exit %d, want %q, %d\n%s\n%s", o.reason, r.Code, want, a.code, clip(o.texts()), clip(r.Stderr))
	}
	o.rows = d.auditRows(t, session)
	for _, part := range a.told {
		if !strings.Contains(o.texts(), part) {
			t.Errorf("the model was not told %q: %.2000s", part, o.texts())
		}
	}
	if a.maybe {
		before[0] = nil
	}
	d.nothingLeaked(s, o, children, before, a.left)
	if !a.unkept && !a.others && !a.renamed {
		d.nothingLost(s, o, conversation)
	}
	if a.after != nil {
		a.after(s, o)
	}
	return s.Token
}

// readEvents takes from the events what came of the calls, and how the turn ended.
func (o *adversaryEnd) readEvents(t *testing.T) (session, conversation string) {
	t.Helper()
	for line := range strings.Lines(o.Stdout) {
		var e struct {
			Type string `json:"type"`
			Data struct {
				Session      string `json:"session_id"`
				Conversation string `json:"conversation_id"`
				Call         string `json:"call_id"`
				Audit        string `json:"audit_call_id"`
				Reason       any    `json:"reason"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("no event: %v: %.300q", err, line)
		}
		session, conversation = cmp.Or(session, e.Data.Session), cmp.Or(conversation, e.Data.Conversation)
		switch e.Type {
		case "turn.result":
			o.audited[e.Data.Call] = e.Data.Audit
		case "turn.ended":
			o.reason, _ = e.Data.Reason.(string)
		}
	}
	return session, conversation
}

// lastTurn looks up what the output for people does not tell.
func (d *daemonRun) lastTurn(s *scene) (session, conversation, reason string) {
	s.Helper()
	var list struct {
		Conversations []struct {
			ID      string
			Session string `json:"session_id"`
			Ended   string
		}
	}
	s.must(json.Unmarshal([]byte(s.sbxTo(d, "sessions", "list", "--conversations", "--json").Stdout), &list))
	if len(list.Conversations) == 0 {
		s.Fatal("there is no conversation")
	}
	last := list.Conversations[0]
	return last.Session, last.ID, last.Ended
}

func (d *daemonRun) auditRows(t *testing.T, session string) (rows []auditRow) {
	t.Helper()
	if session == "" {
		t.Fatal("no event names the session")
	}
	r := d.sbxTo(d, "audit", "--json", "--session", session, "--limit", "5000")
	for line := range strings.Lines(r.Stdout) {
		var row auditRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("audit: %v: %s", err, line)
		}
		rows = append(rows, row)
	}
	return rows
}
