package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Protocol is what a client asks to upgrade to at POST /api/exec and
// GET /api/jobs/{id}/attach. After the 101 answer both sides send frames.
const Protocol = "sandboxd-stream/1"

// A frame is a byte of [FrameType], four bytes of length, big-endian, and that
// many bytes.
const frameHeader = 5

// FrameType says what a frame holds. The letters are chosen to be read in a trace.
type FrameType byte

const (
	// Client to daemon.
	FrameStdin    FrameType = 'i' // bytes of standard input
	FrameStdinEnd FrameType = 'e' // no more of it; empty
	FrameResize   FrameType = 'r' // rows and columns, two bytes each
	FrameSignal   FrameType = 's' // one byte, the number of a signal
	FrameAnswer   FrameType = 'a' // JSON: answer to a question, see StreamAnswer

	// Daemon to client.
	FrameStart    FrameType = 'b' // the call was let through and begins; empty
	FrameStdout   FrameType = 'o' // bytes of standard output, or of the terminal
	FrameStderr   FrameType = 'x' // bytes of standard error
	FrameQuestion FrameType = 'q' // JSON: a question of this call, see StreamQuestion
	FrameExit     FrameType = 'z' // JSON: the ExecResult; the last frame

	// Both ways.
	FrameWindow FrameType = 'w' // FrameType of a stream and four bytes: so many more may come
	FrameClosed FrameType = 'c' // FrameType of a stream that nobody reads any more
)

// Bounds of frames.
const (
	// maxData is the most that one frame of a stream holds.
	maxData = 64 << 10
	// maxObject is the most that a frame with JSON holds.
	maxObject = 4 << 20
	// window is how much of each stream may be under way: what the receiver has to
	// hold. More than a pipe, so that copying does not stop for each answer.
	window = 256 << 10
)

// frameBound is the longest payload that t may have, and false for a type that
// does not exist.
func frameBound(t FrameType) (int, bool) {
	switch t {
	case FrameStdin, FrameStdout, FrameStderr:
		return maxData, true
	case FrameStdinEnd, FrameStart:
		return 0, true
	case FrameResize:
		return 4, true
	case FrameSignal, FrameClosed:
		return 1, true
	case FrameWindow:
		return 5, true
	case FrameAnswer, FrameQuestion, FrameExit:
		return maxObject, true
	}
	return 0, false
}

// frame is one message of a stream.
type frame struct {
	kind    FrameType
	payload []byte
}

var errFrame = errors.New("malformed frame")

// readFrame reads one frame into buf, which grows as needed. Nothing is allocated
// for a length that the type does not permit. The payload is valid until buf is
// used again. io.EOF means that the stream ended between two frames.
func readFrame(r io.Reader, buf []byte) (frame, []byte, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return frame{}, buf, err
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return frame{}, buf, unexpected(err)
	}
	kind, n := FrameType(head[0]), binary.BigEndian.Uint32(head[1:])
	bound, known := frameBound(kind)
	switch {
	case !known:
		return frame{}, buf, fmt.Errorf("%w: unknown type %#02x", errFrame, head[0])
	case uint64(n) > uint64(bound):
		return frame{}, buf, fmt.Errorf("%w: %d bytes in a frame of type %q, which holds at most %d", errFrame, n, kind, bound)
	}
	payload, buf, err := readPayload(r, buf, int(n))
	if err != nil {
		return frame{}, buf, err
	}
	f := frame{kind, payload}
	return f, buf, f.check()
}

// readPayload takes n bytes. A long payload is read in steps, so that a length
// alone, with nothing behind it, costs little memory.
func readPayload(r io.Reader, buf []byte, n int) (payload, next []byte, err error) {
	got := 0
	for got < n {
		step := min(n, got+maxData)
		if cap(buf) < step {
			grown := make([]byte, step)
			copy(grown, buf[:got])
			buf = grown
		}
		buf = buf[:step]
		if _, err := io.ReadFull(r, buf[got:]); err != nil {
			return nil, buf, unexpected(err)
		}
		got = step
	}
	return buf[:n], buf, nil
}

// check compares the payload with the type: those of fixed size have it.
func (f frame) check() error {
	switch f.kind {
	case FrameResize, FrameSignal, FrameWindow, FrameClosed:
		if bound, _ := frameBound(f.kind); len(f.payload) != bound {
			return fmt.Errorf("%w: %d bytes in a frame of type %q, which holds %d", errFrame, len(f.payload), f.kind, bound)
		}
	}
	return nil
}

// unexpected is an end inside of a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends one frame to b.
func appendFrame(b []byte, kind FrameType, payload []byte) []byte {
	b = append(b, byte(kind), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(b[len(b)-4:], uint32(len(payload)))
	return append(b, payload...)
}

// windowFrame permits n more bytes of stream.
func windowFrame(stream FrameType, n int) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(stream)}, uint32(n))
}
