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
