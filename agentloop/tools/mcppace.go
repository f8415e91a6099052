package tools

import (
	"io"
	"time"

	"golang.org/x/time/rate"
)

const (
	// mcpBurst is what a server may say at once: two of the largest messages.
	mcpBurst = 2 * maxMCPMessage
	// mcpRate is what it may say in a second beyond that. Reading short notifications
	// without a bound kept one processor busy as long as the session lived.
	mcpRate = 1 << 20
	// mcpChunk bounds one reading.
	mcpChunk = 64 << 10
)

// pacedReader is the output of a server, read no faster than it is paced: who says too
// much waits in its pipe.
type pacedReader struct {
	io.ReadCloser
	pace *rate.Limiter
	done <-chan struct{} // the server has ended: what it said is read without a wait
}

func paced(from io.ReadCloser, done <-chan struct{}) pacedReader {
	return pacedReader{from, rate.NewLimiter(mcpRate, mcpBurst), done}
}

func (r pacedReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b[:min(len(b), mcpChunk)])
	if wait := r.pace.ReserveN(time.Now(), n).Delay(); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.done:
		}
	}
	return n, err
}
