package agentloop

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"sandboxd/policy"
)

const (
	// pieceTime is how long pieces of text are gathered before they are told, so
	// that a fast model makes some 20 events a second.
	pieceTime = 50 * time.Millisecond
	// pieceBytes is how much is gathered at most.
	pieceBytes = 8 << 10
	// maxEventText bounds one text of a message that is told as an event.
	maxEventText = 16 << 10
)

// turnEvents tells the events of one turn, in order and one at a time, with
// secrets masked: to the caller of the turn, and to the readers of the session.
type turnEvents struct {
	agent   string
	emit    func(TurnEvent)
	session *Events // nil for a silent turn
	secrets *Redactor
	now     func() time.Time

	mu    sync.Mutex
	piece piece
	masks map[pieceKey]*pieceMask // of texts that go on
	timer *time.Timer
	ended bool
}

// piece is text that is being gathered. kind is empty for none.
type piece struct {
	pieceKey
	text  strings.Builder
	since time.Time
}

// pieceKey is what a piece belongs to; key is a call with its stream.
type pieceKey struct {
	kind, key string
	step      int
}

func newTurnEvents(a *Agent, emit func(TurnEvent)) *turnEvents {
	e := &turnEvents{agent: a.o.Path, emit: emit, secrets: a.o.Session.secrets, now: a.now}
	if !a.o.Silent {
		e.session = a.o.Session.events
	}
	return e
}

// send tells an event, after the pieces that are waiting. Pieces are gathered.
func (e *turnEvents) send(kind string, data any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	switch d := data.(type) {
	case TurnText:
		e.gather(kind, "", d.Step, d.Text)
	case TurnOutput:
		e.gather(kind, d.CallID+"\x00"+d.Stream, 0, d.Text)
	default:
		e.flush()
		e.endPieces(data)
		e.tell(kind, e.masked(data), false)
	}
}

// close tells what is gathered; what comes later is dropped.
func (e *turnEvents) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	e.endPieces(nil)
	e.ended = true
}

// publishEnd tells the readers of the session that the turn has ended.
func (e *turnEvents) publishEnd(end TurnEnd) {
	if e.session != nil {
		e.session.Publish(EventTurnEnded, e.masked(end))
	}
}

// emitEnd tells the caller of the turn; it is the last event.
func (e *turnEvents) emitEnd(end TurnEnd) {
	if e.emit != nil {
		e.emit(TurnEvent{Type: EventTurnEnded, Time: e.now().UTC(), Agent: e.agent, Data: e.masked(end)})
	}
}

// gather joins pieces of the same kind. The first one is told at once.
func (e *turnEvents) gather(kind, key string, step int, text string) {
	if text == "" {
		return
	}
	if k := (pieceKey{kind, key, step}); e.piece.pieceKey != k {
		e.flush()
		e.piece.pieceKey = k
	}
	e.piece.text.WriteString(text)
	wait := pieceTime - e.now().Sub(e.piece.since)
	if wait <= 0 || e.piece.text.Len() >= pieceBytes {
		e.flushText()
		return
	}
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, e.late)
	}
}

// late tells what no further piece has pushed out.
func (e *turnEvents) late() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = nil
	if !e.ended {
		e.flushText()
	}
}

// flush tells what is gathered, and begins anew.
func (e *turnEvents) flush() {
	e.flushText()
	e.piece = piece{}
}

func (e *turnEvents) flushText() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	text := e.piece.text.String()
	if text == "" {
		return
	}
	e.piece.text.Reset()
	e.piece.since = e.now()
	k := e.piece.pieceKey
	m := e.masks[k]
	if m == nil {
		m = &pieceMask{red: e.secrets}
		if e.masks == nil {
			e.masks = map[pieceKey]*pieceMask{}
		}
		e.masks[k] = m
	}
	e.tellPiece(k, m.add(text))
}

func (e *turnEvents) tellPiece(k pieceKey, text string) {
	if text == "" {
		return
	}
	if k.kind == EventTurnOutput {
		id, stream, _ := strings.Cut(k.key, "\x00")
		e.tell(k.kind, TurnOutput{CallID: id, Stream: stream, Text: text}, true)
		return
	}
	e.tell(k.kind, TurnText{Step: k.step, Text: text}, true)
}

// endPieces tells what is held back of the texts that data is the end of: a result of
// the output of its call, what comes next of what the model said; nil of all.
func (e *turnEvents) endPieces(data any) {
	result, isResult := data.(TurnResultBlock)
	for _, k := range slices.SortedFunc(maps.Keys(e.masks), func(a, b pieceKey) int { return strings.Compare(a.kind+a.key, b.kind+b.key) }) {
		over := k.kind != EventTurnOutput
		if !over {
			id, _, _ := strings.Cut(k.key, "\x00")
			over = data == nil || isResult && id == result.CallID
		}
		if over {
			e.tellPiece(k, e.masks[k].end())
			delete(e.masks, k)
		}
	}
}

func (e *turnEvents) tell(kind string, data any, transient bool) {
	if e.session != nil {
		if transient {
			e.session.PublishTransient(kind, data)
		} else {
			e.session.Publish(kind, data)
		}
	}
	if e.emit != nil {
		e.emit(TurnEvent{Type: kind, Time: e.now().UTC(), Agent: e.agent, Data: data})
	}
}

// masked is the data of an event without secrets, and short enough to be kept.
func (e *turnEvents) masked(data any) any {
	mask := e.secrets.Mask
	switch d := data.(type) {
	case TurnStart:
		d.Prompt = mask(d.Prompt)
		return d
	case Message:
		return shortMessage(maskMessage(e.secrets, d))
	case TurnResultBlock:
		d.Text, d.Diff, d.Error = clip(mask(d.Text), maxEventText), clip(mask(d.Diff), maxEventText), clip(mask(d.Error), maxEventText)
		return d
	case TurnRetry:
		d.Error = mask(d.Error)
		return d
	case TurnNotice:
		d.Text = mask(d.Text)
		return d
	case TurnEnd:
		d.Text, d.Error = clip(mask(d.Text), maxEventText), mask(d.Error)
		return d
	}
	return data
}

// shortMessage cuts the texts of a message.
func shortMessage(m Message) Message {
	budget := maxEventText
	blocks := make([]Block, len(m.Blocks))
	for i, b := range m.Blocks {
		b.Opaque = nil
		b.Text = clip(b.Text, budget)
		budget = max(budget-len(b.Text), 0)
		if len(b.Args) > 1024 {
			b.Args = "" // the call has an event of its own
		}
		blocks[i] = b
	}
	m.Blocks = blocks
	return m
}

// clip cuts s to about n bytes, at a character, and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "[...]"
}

// maskMessage is a message without the secrets that are known.
func maskMessage(red *Redactor, m Message) Message {
	blocks := make([]Block, len(m.Blocks))
	for i, b := range m.Blocks {
		blocks[i] = maskBlock(red, b)
	}
	m.Blocks = blocks
	return m
}

// maskBlock is a block without secrets. A signed block that holds one is left out:
// changed it would be refused.
func maskBlock(red *Redactor, b Block) Block {
	b.Text = red.Mask(b.Text)
	if b.Args != "" {
		b.Args = maskArgsText(red, b.Args)
	}
	if len(b.Opaque) > 0 && red.Mask(string(b.Opaque)) != string(b.Opaque) {
		b.Opaque = nil
	}
	return b
}

// maskArgsText masks the arguments of a call as the model wrote them. What is JSON
// stays JSON.
func maskArgsText(red *Redactor, text string) string {
	if red.Mask(text) == text && !strings.Contains(text, "{") {
		return text
	}
	args, err := policy.DecodeArgs([]byte(text))
	if err != nil {
		return red.Mask(text)
	}
	masked, err := encodeArgs(red.MaskArgs(args))
	if err != nil {
		return red.Mask(text)
	}
	return masked
}
