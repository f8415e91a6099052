package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of connections. The total is what the documented memory stands for.
const (
	maxConns       = 2048
	maxConnsPerUID = 512
)

// Times of a connection. A client that needs longer for a header or a body is not
// served.
const (
	headerTime = 10 * time.Second
	readTime   = 30 * time.Second
	writeTime  = 30 * time.Second
	idleTime   = 2 * time.Minute
)

// A client of a stream that takes nothing for the time of DefaultGone, though output
// waits for it, is gone. While its own reader is slow a client that lives says so every
// aliveTime.
const (
	DefaultGone = 5 * time.Minute
	aliveTime   = 30 * time.Second
)

// conn is a client's connection with what is known about the client.
type conn struct {
	net.Conn
	cred credentials
	// tcp: the client is known by the token alone.
	tcp bool

	once    sync.Once
	refused string // why the peer counts as confined
	release func()
	closing sync.Once
}

// Close lets go of the place that the connection takes.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() {
		c.release()
		// The process is looked at once, before the first answer; not while closing.
		c.once.Do(func() { c.refused = "the connection is closed" })
		c.cred.close()
	})
	return err
}

// confined looks at the peer once: before the first request is served, when the
// process that connected is still named by its pidfd.
func (c *conn) confined(j *judge) string {
	c.once.Do(func() {
		if !c.tcp {
			c.refused = j.confined(c.cred)
		}
	})
	return c.refused
}

// gate accepts connections within their bounds. A connection beyond them gets one
// answer that says so, and is closed; it never waits, and nobody waits for it.
type gate struct {
	net.Listener
	total, perUID int

	mu    sync.Mutex
	all   int
	byUID map[int]int
}

func newGate(l net.Listener) *gate {
	return &gate{Listener: l, total: maxConns, perUID: maxConnsPerUID, byUID: map[int]int{}}
}

// Accept returns the next connection that may stay.
func (g *gate) Accept() (net.Conn, error) {
	for {
		raw, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, cred: credentials{pidfd: -1, UID: tcpUID}, tcp: true}
		if u, ok := raw.(*net.UnixConn); ok {
			c.tcp = false
			if c.cred, err = readCredentials(u); err != nil {
				c.cred.close()
				raw.Close() // without a peer there is nobody to answer to
				continue
			}
		}
		if why := g.enter(c.cred.UID); why != "" {
			c.cred.close()
			turnAway(raw, why)
			continue
		}
		c.release = func() { g.leave(c.cred.UID) }
		return c, nil
	}
}

// tcpUID counts the connections over TCP, whose user nobody knows.
const tcpUID = -1

func (g *gate) enter(uid int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.byUID[uid] >= g.perUID:
		return fmt.Sprintf("uid %d has %d connections open, which is the most", uid, g.perUID)
	case g.all >= g.total:
		return fmt.Sprintf("%d connections are open, which is the most", g.total)
	}
	g.all++
	g.byUID[uid]++
	return ""
}

func (g *gate) leave(uid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.byUID[uid]--; g.byUID[uid] == 0 {
		delete(g.byUID, uid)
	}
}

// open returns how many connections there are.
func (g *gate) open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all
}

// turnAway answers without reading. The answer fits into the empty buffer of a
// fresh socket, so that writing it does not wait.
func turnAway(c net.Conn, why string) {
	body := fmt.Sprintf(`{"error":{"text":%q,"hint":"close some, or try again later","code":%q}}`+"\n", why, CodeBusy)
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	c.Close()
}

// connKey finds the connection of a request.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if own, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}
