package api

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
)

func TestFramesThatAreRefused(t *testing.T) {
	long := func(kind FrameType, n uint32) []byte {
		return binary.BigEndian.AppendUint32([]byte{byte(kind)}, n)
	}
	for _, tt := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"nothing", nil, io.EOF},
		{"end in the header", []byte{'i', 0, 0}, io.ErrUnexpectedEOF},
		{"end in the payload", append(long(FrameStdin, 5), 'a'), io.ErrUnexpectedEOF},
		{"unknown type", long('?', 0), errFrame},
		{"too long for its type", long(FrameStdin, maxData+1), errFrame},
		{"4 GiB of JSON", long(FrameAnswer, 1<<32-1), errFrame},
		{"an end with content", append(long(FrameStdinEnd, 1), 'x'), errFrame},
		{"a short size", append(long(FrameResize, 3), 1, 2, 3), errFrame},
		{"an empty signal", long(FrameSignal, 0), errFrame},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := readFrame(bytes.NewReader(tt.raw), nil); !errors.Is(err, tt.want) {
				t.Errorf("readFrame(%q) = %v, want %v", tt.raw, err, tt.want)
			}
		})
	}
}

// A length alone must not cost its size in memory.
func TestLengthAloneCostsNoMemory(t *testing.T) {
	raw := binary.BigEndian.AppendUint32([]byte{byte(FrameExit)}, maxObject)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		readFrame(bytes.NewReader(raw), nil)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / 100; got > 2*maxData {
		t.Errorf("%d bytes were allocated for a header, want at most %d", got, 2*maxData)
	}
}

// Whatever is read is written back as the same bytes, and nothing panics.
func FuzzFrame(f *testing.F) {
	for _, kind := range []FrameType{FrameStdin, FrameStdinEnd, FrameResize, FrameSignal, FrameAnswer, FrameExit, FrameWindow} {
		f.Add(appendFrame(nil, kind, []byte("abcde")))
		f.Add(appendFrame(appendFrame(nil, kind, []byte{9}), kind, nil))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bytes.NewReader(raw)
		var again, buf []byte
		for {
			var fr frame
			var err error
			before := r.Len()
			fr, buf, err = readFrame(r, buf)
			if err != nil {
				if !errors.Is(err, errFrame) && err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatalf("an error of no known kind: %v", err)
				}
				if !bytes.HasPrefix(raw, again) {
					t.Fatalf("read %q, wrote %q", raw, again)
				}
				return
			}
			if r.Len() >= before {
				t.Fatal("no progress")
			}
			again = appendFrame(again, fr.kind, fr.payload)
		}
	})
}
