package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
)

const (
	// maxAnswerBytes bounds the body of an answer, maxErrorBytes that of an error.
	maxAnswerBytes = 32 << 20
	maxErrorBytes  = 64 << 10
	// dialTimeout bounds the way to the server and the greeting of TLS.
	dialTimeout = 30 * time.Second
)

// wire is the HTTP below the SDKs. It follows no redirect, bounds what comes back
// in size and time, and turns every answer but a stream of events into an error
// of its own that holds neither headers nor the request.
type wire struct {
	next http.RoundTripper
	o    Options
}

// newClient is an HTTP client for one base address. A plain one that carries a
// key reaches this host alone, whatever its name resolves to.
func newClient(base *url.URL, key string, lookup func(string) string, o Options) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	dial := dialer.DialContext
	if base.Scheme == "http" && key != "" {
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			if a, ok := c.RemoteAddr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
				c.Close()
				return nil, errPlainKey
			}
			return c, nil
		}
	}
	// The proxy is the one of the user's environment, not of this process.
	proxies := httpproxy.Config{HTTPProxy: either(lookup, "HTTP_PROXY", "http_proxy"), HTTPSProxy: either(lookup, "HTTPS_PROXY", "https_proxy"), NoProxy: either(lookup, "NO_PROXY", "no_proxy")}
	choose := proxies.ProxyFunc()
	return &http.Client{
		Transport: &wire{o: o, next: &http.Transport{
			Proxy:               func(r *http.Request) (*url.URL, error) { return choose(r.URL) },
			DialContext:         dial,
			TLSClientConfig:     o.TLS,
			TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        4,
			IdleConnTimeout:     90 * time.Second,
			// A header is not a way round the bound of a body.
			MaxResponseHeaderBytes: 256 << 10,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func either(lookup func(string) string, names ...string) string {
	for _, n := range names {
		if v := lookup(n); v != "" {
			return v
		}
	}
	return ""
}

// Errors of the wire, told apart by [failure].
var (
	errPlainKey = errors.New("the key is not sent over plain HTTP to another host")
	errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswerBytes>>20)
	errSilent   = errors.New("the server was silent for too long")
	errBroken   = errors.New("the connection broke in the middle of the answer")
	errTooLong  = errors.New("the answer took too long")
)

// statusError is an answer that is no stream of events.
type statusError struct {
	status     int
	retryAfter string
	noRetry    bool // the server says so
	body       []byte
	what       string // in place of a body
}

func (e *statusError) Error() string {
	if e.what != "" {
		return e.what
	}
	_, text := decodeError(e.body)
	return text
}

// CloseIdleConnections makes that of the client work.
func (w *wire) CloseIdleConnections() {
	if t, ok := w.next.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	idle := time.AfterFunc(w.o.Silence, func() { cancel(errSilent) })
	res, err := w.next.RoundTrip(heard(r.WithContext(ctx), func() { idle.Reset(w.o.Silence) }))
	if err != nil {
		idle.Stop()
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		cancel(nil)
		return nil, err
	}
	if failed := w.judge(res); failed != nil {
		idle.Stop()
		res.Body.Close()
		cancel(nil)
		return nil, failed
	}
	idle.Reset(w.o.Silence)
	b := &body{rc: res.Body, left: maxAnswerBytes, ctx: ctx, cancel: cancel, silence: w.o.Silence, idle: idle}
	b.whole = time.AfterFunc(w.o.Longest, func() { cancel(errTooLong) })
	res.Body = b
	return res, nil
}

// heard calls f whenever the server has taken some of the body of a request.
func heard(r *http.Request, f func()) *http.Request {
	if r.Body == nil {
		return r
	}
	r.Body = taken{r.Body, f}
	if again := r.GetBody; again != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			b, err := again()
			if err != nil {
				return nil, err
			}
			return taken{b, f}, nil
		}
	}
	return r
}

type taken struct {
	io.ReadCloser
	f func()
}

func (t taken) Read(p []byte) (int, error) {
	t.f()
	return t.ReadCloser.Read(p)
}

// judge says why an answer is none.
func (w *wire) judge(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		to := "elsewhere"
		if u, err := res.Location(); err == nil {
			to = u.Scheme + "://" + u.Host
		}
		return &statusError{status: res.StatusCode, what: "the server redirects to " + clipLine(to) + ", which is not followed", noRetry: true}
	case res.StatusCode == http.StatusOK && kind == "text/event-stream":
		return nil
	}
	e := &statusError{status: res.StatusCode, retryAfter: res.Header.Get("Retry-After"), noRetry: res.Header.Get("X-Should-Retry") == "false"}
	if ms := res.Header.Get("Retry-After-Ms"); ms != "" {
		e.retryAfter = ms + "ms"
	}
	quick := time.AfterFunc(dialTimeout, func() { res.Body.Close() })
	e.body, _ = io.ReadAll(io.LimitReader(res.Body, maxErrorBytes))
	quick.Stop()
	if res.StatusCode == http.StatusOK {
		if kind == "" {
			kind = "nothing"
		}
		e.what, e.noRetry = "the answer is "+clipLine(kind)+" where a stream of events was asked for", true
		if code, text := decodeError(e.body); code != "" {
			e.what += ": " + text
		}
	}
	return e
}

// body is the body of a stream, bounded in size and time.
type body struct {
	rc      io.ReadCloser
	left    int64
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence time.Duration
	idle    *time.Timer
	whole   *time.Timer
	once    sync.Once
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.rc.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if n > 0 {
		b.idle.Reset(b.silence)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		switch why := context.Cause(b.ctx); {
		case errors.Is(why, errSilent), errors.Is(why, errTooLong):
			err = why
		case b.ctx.Err() == nil:
			err = errBroken
		}
	}
	return n, err
}

func (b *body) Close() error {
	var err error
	b.once.Do(func() {
		b.idle.Stop()
		b.whole.Stop()
		b.cancel(nil)
		err = b.rc.Close()
	})
	return err
}

// clipLine bounds a text of the server and keeps it on one line, without
// characters that a terminal obeys.
func clipLine(text string) string {
	const most = 500
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		cut := most
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut] + "..."
	}
	return text
}
