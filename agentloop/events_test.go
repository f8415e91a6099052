package agentloop

import (
	"strings"
	"testing"
	"time"
)

func TestEventsResumeWithoutGapOrRepetition(t *testing.T) {
	e := newEvents(time.Now, nil)
	for i := range 10 {
		e.Publish("x", i)
	}
	s := e.Subscribe(7)
	e.Publish("x", 10)
	e.close()
	next := int64(8)
	for ev := range s.C {
		if ev.ID != next {
			t.Errorf("event %d, want %d", ev.ID, next)
		}
		next++
	}
	if next != 12 || s.Missed {
		t.Errorf("ended at %d, missed %v", next, s.Missed)
	}
}

func TestEventsAreBoundedAndSayWhatIsMissed(t *testing.T) {
	e := newEvents(time.Now, nil)
	for range keptEvents + 5 {
		e.Publish("x", nil)
	}
	e.Publish("long", strings.Repeat("x", maxEventBytes))
	if len(e.ring) != keptEvents || len(e.ring[keptEvents-1].Data) > 100 {
		t.Errorf("%d kept, %d bytes", len(e.ring), len(e.ring[keptEvents-1].Data))
	}
	if s := e.Subscribe(2); !s.Missed {
		t.Error("a gap is not told")
	}
	if s := e.Subscribe(e.Last() + 100); !s.Missed || len(s.C) != keptEvents {
		t.Errorf("an id of an earlier process: %v", s.Missed)
	}
	slow := e.Subscribe(e.Last())
	for range readerEvents + 1 {
		e.Publish("x", nil)
	}
	n := 0
	for range slow.C {
		n++
	}
	if n != readerEvents || len(e.readers) != 0 {
		t.Errorf("the slow reader got %d, %d readers are left", n, len(e.readers))
	}
}

// Wherever a reader goes on, it gets what is kept after that, in order, and is told
// when something is missing.
func FuzzSubscribe(f *testing.F) {
	for _, after := range []int64{0, 1, 5, 6, 7, -1, 1 << 62, -1 << 62} {
		f.Add(after, uint16(6), uint16(10))
	}
	f.Fuzz(func(t *testing.T, after int64, n, size uint16) {
		e := newEvents(time.Now, &userMemory{})
		data := strings.Repeat("x", int(size))
		for range n % 2000 {
			e.Publish("x", data)
		}
		s := e.Subscribe(after)
		e.close()
		next, got := after+1, int64(0)
		for ev := range s.C {
			if (got > 0 || !s.Missed) && ev.ID != next {
				t.Fatalf("after %d of %d: event %d, want %d", after, n%2000, ev.ID, next)
			}
			next, got = ev.ID+1, got+1
		}
		if last := int64(n % 2000); !s.Missed && got != last-after || got > 0 && next != last+1 {
			t.Fatalf("after %d: %d events, the next is %d of %d, missed %v", after, got, next, last, s.Missed)
		}
	})
}
