package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sandboxd/agentloop"
)

func openConversations(t testing.TB, path string, o ConversationOptions) *Conversations {
	t.Helper()
	s, err := OpenConversations(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func conversationsPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state", "conversations.db")
}

func talk(id string, uid int) agentloop.Conversation {
	when := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return agentloop.Conversation{ID: id, UID: uid, Session: "session-1", Workspace: "/w", Title: "make it pass", Provider: "scripted",
		Model: "m", Created: when, Changed: when}
}

func said(seq int64, text string) agentloop.Entry {
	m := agentloop.TextMessage(agentloop.RoleUser, agentloop.OriginUser, text)
	return agentloop.Entry{Seq: seq, Kind: agentloop.EntryMessage, Time: time.Date(2026, 11, 30, 12, 0, 0, int(seq), time.UTC), Message: &m}
}

func mustSave(t testing.TB, s *Conversations, c agentloop.Conversation, entries int) {
	t.Helper()
	if err := s.SaveConversation(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for n := range entries {
		if err := s.AppendEntry(t.Context(), c.ID, said(int64(n+1), fmt.Sprintf("%s says %d", c.ID, n+1))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConversationComesBackAsItWas(t *testing.T) {
	path := conversationsPath(t)
	s := openConversations(t, path, ConversationOptions{})
	c := talk("a", 1000)
	mustSave(t, s, c, 1)
	use := agentloop.Block{Kind: agentloop.BlockToolUse, Origin: agentloop.OriginModel, CallID: "c1", Tool: "run_bash", Args: `{"command":"x`}
	cost := 0.25
	more := []agentloop.Entry{
		{Seq: 2, Kind: agentloop.EntryStarted, Time: c.Created, Block: &use},
		{Seq: 3, Kind: agentloop.EntryResult, Time: c.Created, Block: &agentloop.Block{Kind: agentloop.BlockToolResult, Text: "\x00\x1b é𝄞\u2028", CallID: "c1", Status: agentloop.StatusDeny}},
		{Seq: 4, Kind: agentloop.EntryEnd, Time: c.Created, End: &agentloop.TurnEnd{Reason: agentloop.EndCompleted, Text: "done", Cost: &cost}},
	}
	for _, e := range more {
		if err := s.AppendEntry(t.Context(), "a", e); err != nil {
			t.Fatal(err)
		}
	}
	c.Ended, c.Turns, c.Cost = agentloop.EndCompleted, 1, &cost
	if err := s.SaveConversation(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openConversations(t, path, ConversationOptions{})
	head, entries, err := s.Conversation(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if want := append([]agentloop.Entry{said(1, "a says 1")}, more...); !reflect.DeepEqual(entries, want) {
		t.Errorf("entries = %+v\nwant %+v", entries, want)
	}
	if !reflect.DeepEqual(head, c) {
		t.Errorf("head = %+v\nwant %+v", head, c)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v, want mode 0600", st.Mode(), err)
	}
}

// Of two that continue one conversation one is told, whatever they do at once.
func TestTwoNeverWriteOneConversation(t *testing.T) {
	s := openConversations(t, conversationsPath(t), ConversationOptions{})
	mustSave(t, s, talk("a", 1000), 0)
	for seq := int64(1); seq <= 20; seq++ {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = s.AppendEntry(t.Context(), "a", said(seq, fmt.Sprint(i))) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, agentloop.ErrConversationMoved):
				t.Errorf("entry %d: %v, want ErrConversationMoved", seq, err)
			}
		}
		if won != 1 {
			t.Fatalf("entry %d was added %d times", seq, won)
		}
	}
	for _, seq := range []int64{0, 5, 22, -1} {
		if err := s.AppendEntry(t.Context(), "a", said(seq, "x")); !errors.Is(err, agentloop.ErrConversationMoved) {
			t.Errorf("AppendEntry(%d) after 20 = %v, want ErrConversationMoved", seq, err)
		}
	}
	if err := s.AppendEntry(t.Context(), "b", said(1, "x")); !errors.Is(err, agentloop.ErrNoConversation) {
		t.Errorf("AppendEntry of an unknown conversation = %v", err)
	}
	if _, entries, err := s.Conversation(t.Context(), "a"); err != nil || len(entries) != 20 {
		t.Errorf("Conversation = %d entries, %v, want 20", len(entries), err)
	}
}

// grepFiles lists the files of a store that hold text.
func grepFiles(t *testing.T, path, text string) []string {
	t.Helper()
	names, err := filepath.Glob(path + "*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var found []string
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(text)) {
			found = append(found, filepath.Base(name))
		}
	}
	return found
}

func TestDeletedIsNotInTheFiles(t *testing.T) {
	path := conversationsPath(t)
	s := openConversations(t, path, ConversationOptions{})
	mustSave(t, s, talk("stays", 1000), 3)
	c := talk("goes", 1000)
	c.Title = "word-of-the-title"
	mustSave(t, s, c, 0)
	long := strings.Repeat("marker-of-an-entry ", 5000) // over many pages
	if err := s.AppendEntry(t.Context(), "goes", said(1, long)); err != nil {
		t.Fatal(err)
	}
	child := talk("child", 1000)
	child.Parent, child.Agent = "goes", "lead/worker"
	mustSave(t, s, child, 2)
	if len(grepFiles(t, path, "marker-of-an-entry")) == 0 {
		t.Fatal("the entry is in no file: the test sees nothing")
	}
	if err := s.DeleteConversation(t.Context(), "goes"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"marker-of-an-entry", "word-of-the-title", "child says"} {
		if found := grepFiles(t, path, text); len(found) > 0 {
			t.Errorf("%q is still in %q", text, found)
		}
	}
	for _, id := range []string{"goes", "child"} {
		if _, _, err := s.Conversation(t.Context(), id); !errors.Is(err, agentloop.ErrNoConversation) {
			t.Errorf("Conversation(%s) = %v, want ErrNoConversation", id, err)
		}
	}
	if err := s.DeleteConversation(t.Context(), "goes"); !errors.Is(err, agentloop.ErrNoConversation) {
		t.Errorf("deleting it again: %v", err)
	}
	if _, entries, err := s.Conversation(t.Context(), "stays"); err != nil || len(entries) != 3 {
		t.Errorf("the neighbour has %d entries, %v, want 3", len(entries), err)
	}
}

func TestForkIsACopy(t *testing.T) {
	s := openConversations(t, conversationsPath(t), ConversationOptions{})
	mustSave(t, s, talk("a", 1000), 5)
	if err := s.ForkConversation(t.Context(), "a", 3, talk("b", 1000)); err != nil {
		t.Fatal(err)
	}
	if err := s.ForkConversation(t.Context(), "a", 0, talk("all", 1000)); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendEntry(t.Context(), "b", said(4, "b goes on")); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{-1, 6} {
		if err := s.ForkConversation(t.Context(), "a", at, talk("c", 1000)); !errors.Is(err, agentloop.ErrNoEntry) {
			t.Errorf("fork at %d of 5 = %v, want agentloop.ErrNoEntry", at, err)
		}
	}
	if err := s.ForkConversation(t.Context(), "none", 1, talk("c", 1000)); !errors.Is(err, agentloop.ErrNoConversation) {
		t.Errorf("fork of nothing = %v", err)
	}
	if err := s.ForkConversation(t.Context(), "a", 1, talk("b", 1000)); err == nil {
		t.Error("a fork replaced a conversation")
	}
	if err := s.DeleteConversation(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"b": "a says 3|b goes on", "all": "a says 4|a says 5"} {
		head, entries, err := s.Conversation(t.Context(), id)
		if err != nil {
			t.Fatal(id, err)
		}
		n := len(entries)
		if got := entries[n-2].Message.Text() + "|" + entries[n-1].Message.Text(); got != want || head.Parent != "a" {
			t.Errorf("%s ends with %q of parent %q, want %q of a", id, got, head.Parent, want)
		}
	}
}

func TestHeadsAreThoseOfTheUser(t *testing.T) {
	s := openConversations(t, conversationsPath(t), ConversationOptions{})
	for n, uid := range []int{1000, 1001, 1000} {
		c := talk(fmt.Sprint("c", n), uid)
		c.Changed = c.Changed.Add(time.Duration(n) * time.Minute)
		mustSave(t, s, c, 1)
	}
	child := talk("child", 1000)
	child.Parent, child.Agent = "c0", "lead/worker"
	mustSave(t, s, child, 0)
	for _, tt := range []struct {
		q    agentloop.ConversationQuery
		want string
	}{
		{agentloop.ConversationQuery{UID: 1000}, "c2 c0"},
		{agentloop.ConversationQuery{UID: 1000, Limit: 1}, "c2"},
		{agentloop.ConversationQuery{UID: 1000, Agents: true}, "c2 c0 child"},
		{agentloop.ConversationQuery{UID: 1001}, "c1"},
		{agentloop.ConversationQuery{UID: -1}, "c2 c1 c0"},
		{agentloop.ConversationQuery{UID: 1000, Workspace: "/w"}, "c2 c0"},
		{agentloop.ConversationQuery{UID: 1000, Workspace: "/other"}, ""},
		{agentloop.ConversationQuery{UID: -1, Session: "session-1"}, "c2 c1 c0"},
		{agentloop.ConversationQuery{UID: -1, Session: "session-2"}, ""},
		{agentloop.ConversationQuery{UID: 7}, ""},
	} {
		list, err := s.List(t.Context(), tt.q)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range list {
			ids = append(ids, c.ID)
		}
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("List(%+v) = %q, want %q", tt.q, got, tt.want)
		}
	}
}

func TestRetentionOfConversations(t *testing.T) {
	path := conversationsPath(t)
	s := openConversations(t, path, ConversationOptions{})
	now := time.Now().UTC()
	save := func(id string, uid int, age time.Duration, text string) {
		c := talk(id, uid)
		c.Changed = now.Add(-age)
		if err := s.SaveConversation(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		e := said(1, text)
		e.Time = c.Changed
		if err := s.AppendEntry(t.Context(), id, e); err != nil {
			t.Fatal(err)
		}
	}
	save("old", 1000, 48*time.Hour, "old words")
	for n := range 4 {
		save(fmt.Sprint("n", n), 1000, time.Duration(10-n)*time.Minute, "short")
	}
	big := strings.Repeat("x", 4000)
	save("big1", 1001, 3*time.Minute, big)
	save("big2", 1001, 2*time.Minute, big)
	save("huge", 1002, time.Minute, big+big+big)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openConversations(t, path, ConversationOptions{Retention: ConversationRetention{Age: 24 * time.Hour, PerUID: 3, BytesPerUID: 6000},
		OnProblem: func(err error) { t.Error(err) }})
	mustSave(t, s, talk("after", 7), 0) // written after the retention
	list, err := s.List(t.Context(), agentloop.ConversationQuery{UID: -1})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	// The only conversation of a user stays, whatever its size.
	if got, want := strings.Join(ids, " "), "huge big2 n3 n2 n1 after"; got != want {
		t.Errorf("left: %s, want %s", got, want)
	}
	if found := grepFiles(t, path, "old words"); len(found) > 0 {
		t.Errorf("what retention removed is in %q", found)
	}
}

func TestConversationIsBounded(t *testing.T) {
	s := openConversations(t, conversationsPath(t), ConversationOptions{Retention: ConversationRetention{ConversationBytes: 5000}})
	mustSave(t, s, talk("a", 1000), 1)
	if err := s.AppendEntry(t.Context(), "a", said(2, strings.Repeat("x", 6000))); !errors.Is(err, agentloop.ErrConversationFull) {
		t.Errorf("an entry beyond the bound: %v, want agentloop.ErrConversationFull", err)
	}
	if err := s.AppendEntry(t.Context(), "a", said(2, "short")); err != nil {
		t.Errorf("a short one after it: %v", err)
	}
	if err := s.AppendEntry(t.Context(), "a", said(3, strings.Repeat("x", maxEntryBytes))); err == nil {
		t.Error("an entry above the bound of one was kept")
	}
}

func TestConversationsRefuseOtherFiles(t *testing.T) {
	audit := newPath(t)
	if err := open(t, audit, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenConversations(audit, ConversationOptions{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("the audit log as conversations: %v, want ErrDamaged", err)
	}
	path := conversationsPath(t)
	s := openConversations(t, path, ConversationOptions{})
	if _, err := OpenConversations(path, ConversationOptions{}); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v, want ErrInUse", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendEntry(t.Context(), "a", said(1, "x")); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	if err := os.WriteFile(path, []byte("no database, but of some length"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenConversations(path, ConversationOptions{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a broken file: %v, want ErrDamaged", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenConversations(path, ConversationOptions{}); !errors.Is(err, ErrUnsafe) {
		t.Errorf("a file open to others: %v, want ErrUnsafe", err)
	}
}

// roleConverse appends to eight conversations until it is killed, and says each
// time what has returned.
func roleConverse(path string) error {
	s, err := OpenConversations(path, ConversationOptions{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	failed := make(chan error, 8)
	for g := range 8 {
		go func() {
			id := fmt.Sprintf("c%d-%d", os.Getpid(), g)
			if err := s.SaveConversation(ctx, talk(id, 1000)); err != nil {
				failed <- err
				return
			}
			for seq := int64(1); ; seq++ {
				if err := s.AppendEntry(ctx, id, said(seq, fmt.Sprint(id, " says ", seq))); err != nil {
					failed <- err
					return
				}
				_, _ = os.Stdout.WriteString(fmt.Sprintf("%s %d\n", id, seq))
			}
		}()
	}
	return <-failed
}

func TestNoEntryThatReturnedIsLostByAKill(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	path := conversationsPath(t)
	kept := map[string]int{}
	for round := range rounds {
		cmd := child(t, "converse", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			var id string
			var seq int
			if _, err := fmt.Sscan(lines.Text(), &id, &seq); err == nil {
				kept[id] = seq
			}
			if n == 20+round*7 {
				_ = cmd.Process.Kill() // what it wrote before is still read
			}
		}
		_ = cmd.Wait()
		s := openConversations(t, path, ConversationOptions{})
		for id, last := range kept {
			_, entries, err := s.Conversation(t.Context(), id)
			if err != nil || len(entries) < last {
				t.Fatalf("round %d: %s has %d entries, %v; %d had returned", round, id, len(entries), err, last)
			}
			if got, want := entries[last-1].Message.Text(), fmt.Sprint(id, " says ", last); got != want {
				t.Fatalf("round %d: entry %d is %q, want %q", round, last, got, want)
			}
			if err := s.AppendEntry(t.Context(), id, said(int64(len(entries)+1), fmt.Sprint(id, " says ", len(entries)+1))); err != nil {
				t.Fatalf("round %d: it cannot be continued: %v", round, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept) < rounds {
		t.Fatalf("%d conversations in %d rounds: the children wrote nothing", len(kept), rounds)
	}
}

// BenchmarkAppendEntry measures durable entries of a usual size (4 KiB).
func BenchmarkAppendEntry(b *testing.B) {
	s := openConversations(b, conversationsPath(b), ConversationOptions{Retention: ConversationRetention{ConversationBytes: 1 << 40}})
	mustSave(b, s, talk("a", 1000), 0)
	text := strings.Repeat("word ", 800)
	var seq int64
	for b.Loop() {
		seq++
		if err := s.AppendEntry(b.Context(), "a", said(seq, text)); err != nil {
			b.Fatal(err)
		}
	}
}

// Pages of entries are bounded, in number and bytes, and lose nothing.
func TestEntriesPageByPage(t *testing.T) {
	s := openConversations(t, conversationsPath(t), ConversationOptions{})
	mustSave(t, s, talk("a", 1000), 1)
	long := strings.Repeat("x", pageBytes*2/3)
	for seq := int64(2); seq <= 2*pageEntries; seq++ {
		text := "short"
		if seq <= 4 {
			text = long
		}
		if err := s.AppendEntry(t.Context(), "a", said(seq, text)); err != nil {
			t.Fatal(err)
		}
	}
	var pages []int
	var after int64
	for {
		page, err := s.EntriesAfter(t.Context(), "a", after)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		pages, after = append(pages, len(page)), page[len(page)-1].Seq
	}
	if want := []int{3, pageEntries, 2*pageEntries - 3 - pageEntries}; !slices.Equal(pages, want) || after != 2*pageEntries {
		t.Errorf("pages of %v entries up to %d, want %v", pages, after, want)
	}
	if c, err := s.Head(t.Context(), "a"); err != nil || c.ID != "a" {
		t.Errorf("the head: %v, %v", c.ID, err)
	}
	if _, err := s.Head(t.Context(), "b"); !errors.Is(err, agentloop.ErrNoConversation) {
		t.Errorf("no head: %v", err)
	}
	// Who reads while it is deleted does not take a part for the whole.
	if err := s.DeleteConversation(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EntriesAfter(t.Context(), "a", 3); !errors.Is(err, agentloop.ErrNoConversation) {
		t.Errorf("the rest of what was deleted: %v", err)
	}
}
