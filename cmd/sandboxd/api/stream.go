package api

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// stream is one side of an upgraded connection. Each data stream has a window of
// its own, so that a reader who is slow with one holds up neither the others nor
// signals. It is safe for concurrent use.
type stream struct {
	conn io.ReadWriteCloser
	in   io.Reader // what was read ahead before the upgrade, then conn

	// gone is how long the far side may take nothing while something waits for it,
	// before the connection is closed. Zero: for ever.
	gone time.Duration
	// alive is how often this side says that it lives while its reader is slow. Zero:
	// never.
	alive time.Duration
	heard atomic.Int64 // when the last frame came, in Unix nanoseconds

	writing sync.Mutex
	ended   bool // the exit was written: no frame may follow
	out     map[FrameType]*outlet
	inlets  map[FrameType]*inlet
}

// newStream serves conn; sends are the streams that this side writes, takes those
// that it reads.
func newStream(conn io.ReadWriteCloser, in io.Reader, sends, takes []FrameType) *stream {
	s := &stream{conn: conn, in: in, out: map[FrameType]*outlet{}, inlets: map[FrameType]*inlet{}}
	for _, t := range sends {
		s.out[t] = &outlet{s: s, kind: t, credit: window, changed: make(chan struct{}, 1), over: make(chan struct{})}
	}
	for _, t := range takes {
		in := &inlet{s: s, kind: t}
		in.cond.L = &in.mu
		s.inlets[t] = in
	}
	return s
}

// send writes one frame. It blocks while the socket is full.
func (s *stream) send(kind FrameType, payload []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.ended {
		return net.ErrClosed
	}
	s.ended = kind == FrameExit
	var head [frameHeader]byte
	head[0] = byte(kind)
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	return s.write(net.Buffers{head[:], payload})
}

// write sends all parts. Only a far side that takes nothing at all for the time of
// gone is left: one that reads slowly is waited for.
func (s *stream) write(parts net.Buffers) error {
	conn, bounded := s.conn.(net.Conn)
	bounded = bounded && s.gone > 0
	for {
		if bounded {
			_ = conn.SetWriteDeadline(time.Now().Add(s.gone))
		}
		n, err := parts.WriteTo(s.conn)
		if bounded && n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if bounded && errors.Is(err, os.ErrDeadlineExceeded) {
			_ = s.conn.Close() // who reads it ends the call
		}
		return err
	}
}

// left closes the connection when the far side has said nothing since some time, and
// for the time of gone.
func (s *stream) left(since time.Time) bool {
	if heard := time.Unix(0, s.heard.Load()); heard.After(since) {
		since = heard
	}
	if time.Since(since) < s.gone {
		return false
	}
	_ = s.conn.Close()
	return true
}

// sendJSON writes one frame with an object.
func (s *stream) sendJSON(kind FrameType, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if len(text) > maxObject {
		return fmt.Errorf("%d bytes do not fit into a frame of type %q", len(text), kind)
	}
	return s.send(kind, text)
}

// receive reads frames until the connection ends, and hands what is no data to
// other. It returns io.EOF when the far side left between two frames.
func (s *stream) receive(other func(kind FrameType, payload []byte) error) error {
	defer s.abandon()
	buf := make([]byte, 0, maxData)
	for {
		f, next, err := readFrame(s.in, buf)
		buf = next
		if err != nil {
			return err
		}
		s.heard.Store(time.Now().UnixNano())
		if err := s.take(f, other); err != nil {
			return err
		}
		if cap(buf) > 4*maxData {
			buf = make([]byte, 0, maxData) // one long answer is not kept
		}
	}
}

func (s *stream) take(f frame, other func(FrameType, []byte) error) error {
	switch f.kind {
	case FrameWindow, FrameClosed:
		o, ok := s.out[FrameType(f.payload[0])]
		switch {
		case !ok:
			return fmt.Errorf("%w: no stream %q", errFrame, f.payload[0])
		case f.kind == FrameClosed:
			o.stop()
			return nil
		}
		return o.grant(binary.BigEndian.Uint32(f.payload[1:]))
	case FrameStdin, FrameStdout, FrameStderr:
		in, ok := s.inlets[f.kind]
		if !ok {
			return fmt.Errorf("%w: type %q goes the other way", errFrame, f.kind)
		}
		return in.put(f.payload)
	case FrameStdinEnd:
		in, ok := s.inlets[FrameStdin]
		if !ok {
			return fmt.Errorf("%w: type %q goes the other way", errFrame, f.kind)
		}
		in.end(io.EOF)
		return nil
	}
	return other(f.kind, f.payload)
}

// abandon wakes whoever waits for the far side.
func (s *stream) abandon() {
	for _, o := range s.out {
		o.stop()
	}
	for _, in := range s.inlets {
		in.end(io.ErrUnexpectedEOF)
	}
}

// outlet is a data stream that this side writes.
type outlet struct {
	s       *stream
	kind    FrameType
	mu      sync.Mutex
	credit  int
	closed  bool
	changed chan struct{} // holds one value when credit was added
	over    chan struct{} // closed by stop
}

// Write sends b within the window. It fails with EPIPE when the far side does not
// read the stream any more, as a pipe does.
func (o *outlet) Write(b []byte) (int, error) { return o.write(context.Background(), b) }

func (o *outlet) write(ctx context.Context, b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		n, err := o.reserve(ctx, min(len(b)-sent, maxData))
		if err != nil {
			return sent, err
		}
		if err := o.s.send(o.kind, b[sent:sent+n]); err != nil {
			return sent, unix.EPIPE
		}
		sent += n
	}
	return sent, nil
}

// reserve takes up to want bytes of credit, and waits while there is none, as long as
// the far side says something from time to time.
func (o *outlet) reserve(ctx context.Context, want int) (int, error) {
	var began time.Time
	for {
		o.mu.Lock()
		closed, n := o.closed, min(want, o.credit)
		o.credit -= n
		o.mu.Unlock()
		switch {
		case closed:
			return 0, unix.EPIPE
		case n > 0:
			return n, nil
		}
		if began.IsZero() {
			began = time.Now()
		}
		look, stop := o.s.look()
		select {
		case <-o.changed:
		case <-o.over:
		case <-look:
			if o.s.left(began) {
				stop()
				return 0, unix.EPIPE
			}
		case <-ctx.Done():
			stop()
			return 0, ctx.Err()
		}
		stop()
	}
}

// looksPerGone is how often it is looked whether the far side is gone, within its time.
const looksPerGone = 8

// look ticks when it is time to see whether the far side is gone.
func (s *stream) look() (<-chan time.Time, func()) {
	if s.gone <= 0 {
		return nil, func() {}
	}
	t := time.NewTimer(s.gone / looksPerGone)
	return t.C, func() { t.Stop() }
}

// grant adds credit. More than a window is never open, or the far side lies.
func (o *outlet) grant(n uint32) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if uint64(n)+uint64(o.credit) > window {
		return fmt.Errorf("%w: the window of %q grows beyond %d bytes", errFrame, o.kind, window)
	}
	o.credit += int(n)
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return nil
}

func (o *outlet) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.over)
	}
}

// inlet is a data stream that this side reads: at most a window of it waits.
type inlet struct {
	s       *stream
	kind    FrameType
	mu      sync.Mutex
	cond    sync.Cond
	waiting []byte
	err     error // why no more comes
	ignored bool  // nobody reads; what comes is dropped
}

var errWindow = errors.New("more than the window permits")

func (i *inlet) put(b []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.ignored:
		return nil
	case i.err != nil:
		return fmt.Errorf("%w: type %q after its end", errFrame, i.kind)
	case len(i.waiting)+len(b) > window:
		return fmt.Errorf("%w: type %q: %w", errFrame, i.kind, errWindow)
	}
	i.waiting = append(i.waiting, b...)
	i.cond.Signal()
	return nil
}

// end says that no more comes. The first reason counts.
func (i *inlet) end(why error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		i.err = why
	}
	i.cond.Broadcast()
}

// ignore drops what waits and what comes, and tells the far side.
func (i *inlet) ignore() {
	i.mu.Lock()
	i.ignored, i.waiting = true, nil
	i.cond.Broadcast()
	i.mu.Unlock()
	_ = i.s.send(FrameClosed, []byte{byte(i.kind)})
}

// drop lets go of what waits, at the end of a call.
func (i *inlet) drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ignored, i.waiting = true, nil
	i.cond.Broadcast()
}

// copyTo writes the stream to w until it ends, which is no error, or until w
// fails, which is returned and told to the far side.
func (i *inlet) copyTo(w io.Writer) error {
	var spare []byte
	alive := i.pulse()
	for {
		i.mu.Lock()
		for len(i.waiting) == 0 && i.err == nil && !i.ignored {
			i.cond.Wait()
		}
		chunk, done := i.waiting, i.err != nil || i.ignored
		i.waiting = spare[:0]
		i.mu.Unlock()
		if len(chunk) == 0 && done {
			return nil
		}
		if err := alive.during(func() error { _, err := w.Write(chunk); return err }); err != nil {
			i.ignore()
			return err
		}
		// Credit comes back when the bytes are with their reader, not before.
		_ = i.s.send(FrameWindow, windowFrame(i.kind, len(chunk)))
		spare = chunk
	}
}

// pulse tells the far side that this one lives while a write takes long, by opening its
// window by nothing.
type pulse struct {
	every time.Duration
	mu    sync.Mutex
	on    bool
	timer *time.Timer
}

func (i *inlet) pulse() *pulse {
	p := &pulse{every: i.s.alive}
	if p.every > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(p.every, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.on {
				_ = i.s.send(FrameWindow, windowFrame(i.kind, 0))
				p.timer.Reset(p.every)
			}
		})
	}
	return p
}

// during calls f, and tells that this side lives until it returns.
func (p *pulse) during(f func() error) error {
	if p.timer == nil {
		return f()
	}
	p.set(true)
	defer p.set(false)
	return f()
}

func (p *pulse) set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
	if on {
		p.timer.Reset(p.every)
	} else {
		p.timer.Stop()
	}
}
