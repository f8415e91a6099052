package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// clientAgent tells the daemon that a person uses sbx.
const clientAgent = "sbx"

// Answerers are the programs of sbx at which a person stays and answers; the record of
// an answer names them.
const (
	WatchAnswerer = clientAgent + " approvals --watch"
	AgentAnswerer = clientAgent + " agent"
)

// AnswersAs says at which of the Answerers the person is. It is called before the first
// request.
func (c *Client) AnswersAs(answerer string) { c.agent = answerer }

// Client talks to a daemon over its socket. It is safe for concurrent use.
type Client struct {
	path  string
	build string
	agent string // who answers; empty: a command for one answer
	http  *http.Client
}

// Dial returns a client of the daemon at path. It connects with the first request.
// build is the version of this program.
func Dial(path, build string) *Client {
	c := &Client{path: path, build: build}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		// A stream is one request, and everything else is short.
		MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}}
	return c
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, err
	}
	// What is asked and answered may be secret: only root's daemon and our own are
	// believed.
	cred, err := readCredentials(conn.(*net.UnixConn))
	cred.close()
	if err == nil && cred.UID != 0 && cred.UID != os.Geteuid() {
		err = fmt.Errorf("the program that listens belongs to uid %d", cred.UID)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Path is the socket.
func (c *Client) Path() string { return c.path }

// UnreachableError reports that no daemon answers at a socket.
type UnreachableError struct {
	Path string
	Err  error
	Hint string
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no daemon at %s: %v", e.Path, e.Err)
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// unreachable words an error of the connection.
func (c *Client) unreachable(err error) error {
	e := &UnreachableError{Path: c.path, Err: err, Hint: "start it: sbx daemon start"}
	var inner unix.Errno
	if errors.As(err, &inner) {
		e.Err = inner
	}
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		e.Hint = "the socket is not for you: become a member of its group, or start a daemon of your own"
		if os.Geteuid() != 0 {
			e.Hint += ": sbx daemon start"
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Hint = ""
	}
	return e
}

// do sends one request and returns the answer if it is no error.
func (c *Client) do(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(body); err != nil {
			return nil, err
		}
		content = &b
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+clientHost+path, content)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set(Header, Version)
	r.Header.Set(BuildHeader, c.build)
	r.Header.Set("User-Agent", cmp.Or(c.agent, clientAgent))
	answer, err := c.http.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, c.unreachable(err)
	}
	if err := c.check(answer); err != nil {
		answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// check turns an answer that is an error into one, and notices another version.
func (c *Client) check(answer *http.Response) error {
	theirs := answer.Header.Get(Header)
	if theirs != "" && theirs != Version {
		return fault(CodeVersion, "install sbx and sandboxd of one version, then: sbx daemon stop; sbx daemon start",
			"the daemon (%s) speaks version %s of the API, sbx (%s) version %s", answer.Header.Get(BuildHeader), theirs, c.build, Version)
	}
	if answer.StatusCode < 400 {
		if theirs == "" {
			return fault(CodeVersion, "see what listens at "+c.path, "what answers is no sandboxd")
		}
		return nil
	}
	var body faultBody
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil || body.Error == nil {
		return fault(CodeInternal, "", "the daemon answered %s", answer.Status)
	}
	return body.Error
}

// call sends one request and reads the answer into to, which may be nil.
func (c *Client) call(ctx context.Context, method, path string, body, to any) error {
	answer, err := c.do(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if to == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	return json.NewDecoder(answer.Body).Decode(to)
}

// Get reads the JSON answer of a route into to.
func (c *Client) Get(ctx context.Context, path string, to any) error {
	return c.call(ctx, "GET", path, nil, to)
}

// Post sends body to a route and reads the JSON answer into to.
func (c *Client) Post(ctx context.Context, path string, body, to any) error {
	return c.call(ctx, "POST", path, body, to)
}

// Put and Delete are Post's like.
func (c *Client) Put(ctx context.Context, path string, body, to any) error {
	return c.call(ctx, "PUT", path, body, to)
}

// Delete removes what path names.
func (c *Client) Delete(ctx context.Context, path string, to any) error {
	return c.call(ctx, "DELETE", path, nil, to)
}

// Health asks whether the daemon serves.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	return h, c.Get(ctx, "/api/health", &h)
}
