package agentloop

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"sandboxd/policy"
	"sandboxd/test/require"
)

// resident is the memory of this process in bytes, after what nobody needs was given
// back.
func resident(t *testing.T) int64 {
	t.Helper()
	require.OwnMemory(t)
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestEventsOfAUserAreBounded: a thousand sessions full of the largest events take
// what is stated, and give it back; another user's are not shortened for it.
func TestEventsOfAUserAreBounded(t *testing.T) {
	before := resident(t)
	user, other := &userMemory{}, &userMemory{}
	quiet := newEvents(time.Now, other)
	for i := range 100 {
		quiet.Publish("x", i)
	}
	large := strings.Repeat("x", maxEventBytes-100)
	var all []*Events
	for range maxSessionsPerUID {
		e := newEvents(time.Now, user)
		all = append(all, e)
		for range 40 {
			e.Publish("x", large)
		}
	}
	const stated = maxUserEvents + maxSessionsPerUID*(maxEventBytes+smallRing)
	if n := user.events.Load(); n > stated {
		t.Errorf("%d MiB are counted", n>>20)
	}
	grown := resident(t) - before
	t.Logf("%d sessions with events of %d KiB: %d MiB counted, %d MiB resident", len(all), maxEventBytes>>10, user.events.Load()>>20, grown>>20)
	if grown > stated+stated/4 {
		t.Errorf("the process grew by %d MiB, %d are stated", grown>>20, stated>>20)
	}
	if len(quiet.ring) != 100 || len(all[0].ring) < 10 || len(all[len(all)-1].ring) != 1 {
		t.Errorf("kept: %d of another user, %d of the first session, %d of the last", len(quiet.ring), len(all[0].ring), len(all[len(all)-1].ring))
	}
	for _, e := range all {
		e.close()
		e.close()
	}
	if n := user.events.Load(); n != 0 {
		t.Errorf("%d bytes stay counted", n)
	}
}

// TestReaderThatFallsBehindIsBounded in bytes, however few events that is; one that
// keeps reading gets all.
func TestReaderThatFallsBehindIsBounded(t *testing.T) {
	e := newEvents(time.Now, nil)
	slow, quick := e.Subscribe(0), e.Subscribe(0)
	large := strings.Repeat("x", 60<<10)
	for range 200 {
		e.Publish("x", large)
		e.PublishTransient("y", large)
		for len(quick.C) > 0 {
			<-quick.C
		}
	}
	bytes, n := 0, 0
	for ev := range slow.C {
		bytes, n = bytes+len(ev.Data), n+1
	}
	if bytes > maxReader || n < 5 {
		t.Errorf("%d events of %d bytes wait for a reader that does not read", n, bytes)
	}
	if _, live := e.readers[quick]; !live {
		t.Error("a reader that reads was let go")
	}
	quick.Close()
}

// TestWhatSessionsHoldIsBoundedForEachUser: environments, own rules and policies.
func TestWhatSessionsHoldIsBoundedForEachUser(t *testing.T) {
	w := newWorld(t, denying())
	large := "LARGE=" + strings.Repeat("x", 4<<20)
	before := resident(t)
	var made []*Session
	for {
		s, err := w.m.Create(t.Context(), w.peer(), SessionRequest{Environ: []string{"PATH=/usr/bin", strings.Clone(large)}})
		if errors.Is(err, ErrTooManySessions) {
			break
		}
		if err != nil || len(made) > 100 {
			t.Fatalf("%d sessions, %v", len(made), err)
		}
		made = append(made, s)
	}
	t.Logf("%d sessions with 4 MiB of environment: %d MiB resident", len(made), (resident(t)-before)>>20)
	if len(made) < 60 || len(made) > 64 {
		t.Errorf("%d sessions of 4 MiB", len(made))
	}
	other := w.peer()
	other.Caller.UID = 4242
	if err := w.m.reserve(4242); err != nil || w.m.memoryOf(4242).hold(1<<20) != nil {
		t.Errorf("another user: %v", err)
	}
	// Rules: of one session, and given back with the rule and the session.
	s := w.s
	held := w.m.memoryOf(w.peer().UID()).held.Load()
	pattern := func(i int) string { return fmt.Sprintf("run_bash(%03d%s)", i, strings.Repeat("y", 4000)) }
	n := 0
	for ; n < 200; n++ {
		if err := s.AddRule(policy.DenyRule, pattern(n), "t"); err != nil {
			if !strings.Contains(err.Error(), "which is the most") {
				t.Error(err)
			}
			break
		}
	}
	if n < 50 || n > 65 {
		t.Errorf("%d rules of 4 KB", n)
	}
	for i := range n {
		if ok, err := s.RemoveRule(policy.DenyRule, pattern(i)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if now := w.m.memoryOf(w.peer().UID()).held.Load(); now != held {
		t.Errorf("%d bytes stay counted for rules that are gone", now-held)
	}
	for _, s := range made {
		if err := w.m.Close(t.Context(), s.ID(), w.peer(), "t"); err != nil {
			t.Fatal(err)
		}
	}
	if now := w.m.memoryOf(w.peer().UID()).held.Load(); now > 1<<20 {
		t.Errorf("%d bytes stay counted for sessions that are gone", now)
	}
	// Policies.
	w.edit = func(p *PolicyInForce) { denying()(p); p.FileBytes = 1 << 20 }
	for n = 0; n < 10; n++ {
		if _, err := w.m.Create(t.Context(), w.peer(), SessionRequest{}); err != nil {
			break
		}
	}
	if n != maxUserHeld/(policyFactor<<20)-1 && n != maxUserHeld/(policyFactor<<20) {
		t.Errorf("%d sessions with a policy of 1 MiB", n)
	}
	w.edit = denying()
	if err := w.m.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := w.m.Create(t.Context(), w.peer(), SessionRequest{}); err != nil {
		t.Errorf("after the policies became small: %v", err)
	}
}

// TestRulesTakeWhatIsCounted: policyFactor is what rules in memory take.
func TestRulesTakeWhatIsCounted(t *testing.T) {
	var rules []policy.Rule
	bytes := 0
	for i := range 20000 {
		text := fmt.Sprintf("run_bash(program-%d --flag value *)", i)
		rules = append(rules, rule(policy.DenyRule, text))
		bytes += len(text) + 5
	}
	before := resident(t)
	e, err := policy.NewEngine(policy.Config{Workspace: "/w", Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	grown := resident(t) - before
	t.Logf("%d bytes of rules take %d, %.1f for each", bytes, grown, float64(grown)/float64(bytes))
	if grown > int64(policyFactor*bytes) {
		t.Errorf("rules of %d bytes take %d: more than %d for each", bytes, grown, policyFactor)
	}
	runtime.KeepAlive(e)
}

// TestSavesOfASessionAreJoined: of many changes at once each is in the Store when its
// call returns, with fewer writes than changes.
func TestSavesOfASessionAreJoined(t *testing.T) {
	w := newWorld(t, denying())
	var mu sync.Mutex
	writes, last := 0, 0
	w.s.parts.changed = func(s *Session) error {
		n := len(s.OwnRules())
		time.Sleep(5 * time.Millisecond) // a disk
		mu.Lock()
		defer mu.Unlock()
		writes, last = writes+1, n
		return nil
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if err := w.s.AddRule(policy.DenyRule, fmt.Sprintf("run_bash(r%d)", i), "t"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if last != 100 || writes > 50 {
		t.Errorf("%d writes, the last with %d rules of 100", writes, last)
	}
	failed := errors.New("disk")
	w.s.parts.changed = func(*Session) error { return failed }
	if err := w.s.AddRule(policy.DenyRule, "run_bash(last)", "t"); !errors.Is(err, failed) {
		t.Errorf("a failed write: %v", err)
	}
	w.s.parts.changed = func(s *Session) error { last = len(s.OwnRules()); return nil }
	if err := w.s.keep(); err != nil || last != 101 {
		t.Errorf("the next write: %v, %d rules", err, last)
	}
}
