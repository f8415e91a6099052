package api

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// streamPair connects a client's and a daemon's side by a real socket pair.
func streamPair(t *testing.T) (client, daemon *stream) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]net.Conn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { ends[i].Close() })
	}
	outputs := []FrameType{FrameStdout, FrameStderr}
	client = newStream(ends[0], ends[0], []FrameType{FrameStdin}, outputs)
	daemon = newStream(ends[1], ends[1], outputs, []FrameType{FrameStdin})
	return client, daemon
}

func ignoreFrame(FrameType, []byte) error { return nil }

func TestStreamsArriveWholeAndInOrder(t *testing.T) {
	client, daemon := streamPair(t)
	var wait sync.WaitGroup
	wait.Go(func() { client.receive(ignoreFrame) })
	wait.Go(func() { daemon.receive(ignoreFrame) })
	want := map[FrameType][]byte{}
	got := map[FrameType]*bytes.Buffer{}
	var readers, writers sync.WaitGroup
	for _, kind := range []FrameType{FrameStdout, FrameStderr} {
		data := make([]byte, 5*window+17) // several windows, so credit must flow
		rand.Read(data)
		into := &bytes.Buffer{}
		want[kind], got[kind] = data, into
		readers.Go(func() { client.inlets[kind].copyTo(into) })
		writers.Go(func() {
			for at := 0; at < len(data); {
				n := min(70001, len(data)-at)
				if _, err := daemon.out[kind].Write(data[at : at+n]); err != nil {
					t.Error(err)
				}
				at += n
			}
		})
	}
	writers.Wait()
	daemon.send(FrameExit, nil)
	daemon.conn.Close()
	readers.Wait()
	wait.Wait()
	for kind, data := range want {
		if !bytes.Equal(got[kind].Bytes(), data) {
			t.Errorf("stream %q: %d bytes arrived of %d, or other ones", kind, got[kind].Len(), len(data))
		}
	}
}

// A reader who does not take one stream holds up neither the other nor signals.
func TestSlowStreamHoldsUpNoOther(t *testing.T) {
	client, daemon := streamPair(t)
	signals := make(chan byte, 1)
	go client.receive(ignoreFrame)
	go daemon.receive(func(kind FrameType, payload []byte) error {
		if kind == FrameSignal {
			signals <- payload[0]
		}
		return nil
	})
	go daemon.out[FrameStdout].Write(make([]byte, 10*window)) // nobody reads it
	r, w := io.Pipe()
	go client.inlets[FrameStderr].copyTo(w)
	data := make([]byte, 4*window)
	go daemon.out[FrameStderr].Write(data)
	if n, err := io.ReadFull(r, data); err != nil {
		t.Fatalf("stderr stopped after %d bytes behind stdout: %v", n, err)
	}
	client.send(FrameSignal, []byte{15})
	select {
	case <-signals:
	case <-time.After(10 * time.Second):
		t.Error("a signal does not get past a stream that nobody reads")
	}
	client.conn.Close()
	r.Close()
}

func TestStreamThatNobodyReadsIsABrokenPipe(t *testing.T) {
	client, daemon := streamPair(t)
	go client.receive(ignoreFrame)
	go daemon.receive(ignoreFrame)
	r, w := io.Pipe()
	r.Close()
	go client.inlets[FrameStdout].copyTo(w)
	for {
		if _, err := daemon.out[FrameStdout].Write(make([]byte, 1000)); err != nil {
			if !errors.Is(err, unix.EPIPE) {
				t.Errorf("Write = %v, want EPIPE", err)
			}
			return
		}
	}
}

func TestMoreThanTheWindowIsRefused(t *testing.T) {
	client, daemon := streamPair(t)
	done := make(chan error, 1)
	go func() { done <- daemon.receive(ignoreFrame) }()
	go func() {
		for client.send(FrameStdin, make([]byte, maxData)) == nil {
		}
	}()
	if err := <-done; !errors.Is(err, errWindow) {
		t.Errorf("receive = %v, want %v", err, errWindow)
	}
	daemon.conn.Close()
}

func TestFramesOfTheWrongSideAreRefused(t *testing.T) {
	for name, raw := range map[string][]byte{
		"output from the client":     appendFrame(nil, FrameStdout, []byte("x")),
		"credit for a foreign one":   appendFrame(nil, FrameWindow, windowFrame(FrameStdin, 1)),
		"credit beyond the window":   appendFrame(nil, FrameWindow, windowFrame(FrameStdout, 1)),
		"input after its end":        appendFrame(appendFrame(nil, FrameStdinEnd, nil), FrameStdin, []byte("x")),
		"close of no stream":         appendFrame(nil, FrameClosed, []byte{'?'}),
		"a second half of something": []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		client, daemon := streamPair(t)
		client.conn.Write(raw)
		done := make(chan error, 1)
		go func() { done <- daemon.receive(ignoreFrame) }()
		select {
		case err := <-done:
			if !errors.Is(err, errFrame) {
				t.Errorf("%s: receive = %v, want %v", name, err, errFrame)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: is accepted", name)
		}
		client.conn.Close()
		daemon.conn.Close()
	}
}

// A far side that takes nothing is left, whether it does not read the socket or opens
// no window and says nothing; one that is slow, or says that it lives, is waited for.
func TestWhoTakesNothingIsLeft(t *testing.T) {
	const gone = 400 * time.Millisecond
	for _, tt := range []struct {
		name   string
		far    func(client *stream, stop <-chan struct{})
		leaves bool
	}{
		{"reads nothing", func(_ *stream, stop <-chan struct{}) { <-stop }, true},
		{"reads and opens no window", func(client *stream, stop <-chan struct{}) { io.Copy(io.Discard, client.conn) }, true},
		{"reads slowly", func(client *stream, stop <-chan struct{}) {
			client.in = &slowReader{client.in, gone / 8}
			go client.inlets[FrameStdout].copyTo(io.Discard)
			client.receive(ignoreFrame)
		}, false},
		{"has a reader that waits, and lives", func(client *stream, stop <-chan struct{}) {
			client.alive = gone / 8
			go client.inlets[FrameStdout].copyTo(&lateWriter{4 * gone})
			client.receive(ignoreFrame)
		}, false},
		{"has a reader that waits, and says nothing", func(client *stream, stop <-chan struct{}) {
			go client.inlets[FrameStdout].copyTo(&lateWriter{4 * gone})
			client.receive(ignoreFrame)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, daemon := streamPair(t)
			daemon.gone = gone
			stop := make(chan struct{})
			var both sync.WaitGroup
			both.Go(func() { tt.far(client, stop) })
			left := make(chan struct{})
			both.Go(func() { daemon.receive(ignoreFrame); close(left) })
			began := time.Now()
			held := time.AfterFunc(20*gone, func() { daemon.conn.Close() })
			defer held.Stop()
			_, err := daemon.out[FrameStdout].Write(make([]byte, 3*window))
			if took := time.Since(began); (err != nil) != tt.leaves || took > 20*gone || tt.leaves && took < gone/2 {
				t.Errorf("the write ended after %v: %v", took, err)
			}
			if tt.leaves { // so that the call ends, whatever its command does
				select {
				case <-left:
				case <-time.After(5 * gone):
					t.Error("the connection is still there")
				}
			}
			close(stop)
			daemon.conn.Close()
			client.conn.Close()
			both.Wait()
		})
	}
}

// slowReader takes a little, with a pause before each read.
type slowReader struct {
	io.Reader
	pause time.Duration
}

func (r *slowReader) Read(b []byte) (int, error) {
	time.Sleep(r.pause)
	return r.Reader.Read(b[:min(len(b), 32<<10)])
}

// lateWriter takes its first bytes late, as a pager does.
type lateWriter struct{ pause time.Duration }

func (w *lateWriter) Write(b []byte) (int, error) {
	time.Sleep(w.pause)
	w.pause = 0
	return len(b), nil
}

// A write whose part was taken goes on, however long the whole takes.
func TestSlowReaderGetsLongFrames(t *testing.T) {
	client, daemon := streamPair(t)
	daemon.gone = 200 * time.Millisecond
	var got int64
	var reader sync.WaitGroup
	reader.Go(func() { got, _ = io.Copy(io.Discard, &slowReader{client.conn, 30 * time.Millisecond}) })
	long := make([]byte, 2<<20)
	began := time.Now()
	if err := daemon.send(FrameExit, long); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 2*daemon.gone {
		t.Errorf("the write took %v, which tries nothing", took)
	}
	daemon.conn.Close()
	reader.Wait()
	if got != int64(len(long)+frameHeader) {
		t.Errorf("%d bytes of %d arrived", got, len(long))
	}
}
