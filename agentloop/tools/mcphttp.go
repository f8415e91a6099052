package tools

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// httpTransport contacts a server at its address, and nothing else. Who writes an
// address into their own policy names its host with it; the address of a checkout
// needs network.allow besides.
func httpTransport(spec agentloop.MCPServer, s *agentloop.Session) (mcp.Transport, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("its address must be http://HOST or https://HOST, without a user")
	}
	how := policy.HostByAddress
	if k := spec.Source.Kind; k == policy.SourceProject || k == policy.SourceLocalProject {
		if how = s.GrantsHost(spec.URL); how == policy.HostNotGranted {
			return nil, fmt.Errorf("the checkout names %s, which [network] allow does not", u.Host)
		}
	}
	if u.Scheme == "http" && len(spec.Headers) > 0 && how < policy.HostByAddress {
		return nil, errors.New("headers are not sent over plain http")
	}
	guard := &hostGuard{host: u.Hostname(), port: portOf(u), how: how}
	client := &http.Client{
		Transport: &mcpRoundTripper{host: u.Host, scheme: u.Scheme, headers: spec.Headers, next: &http.Transport{
			Proxy: nil, DialContext: guard.dial, TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: policy.ToolTimeout,
			IdleConnTimeout: time.Minute, MaxIdleConns: 4, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server redirects, which is not followed: write its real address")
		},
	}
	return &mcp.StreamableClientTransport{Endpoint: spec.URL, HTTPClient: client, MaxRetries: 1, MaxEventSize: maxMCPMessage}, nil
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// mcpRoundTripper sends the configured headers, to the configured host alone, and
// bounds answers that are no streams of events.
type mcpRoundTripper struct {
	host, scheme string
	headers      []string // NAME: VALUE
	next         *http.Transport
}

func (t *mcpRoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != t.host || r.URL.Scheme != t.scheme {
		return nil, fmt.Errorf("a request to %s is refused: the server is at %s", r.URL.Host, t.host)
	}
	r = r.Clone(r.Context())
	for _, h := range t.headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = &boundedBody{ReadCloser: res.Body, left: maxMCPMessage}
	}
	return res, nil
}

// CloseIdleConnections lets go of what is kept open.
func (t *mcpRoundTripper) CloseIdleConnections() { t.next.CloseIdleConnections() }

// boundedBody fails when more comes than may.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("an answer of more than %d bytes", maxMCPMessage)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
