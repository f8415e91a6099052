package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	htmltomarkdown "github.com/JohannesKaufmann/html-to-markdown/v2"
	"golang.org/x/net/html/charset"

	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// Limits of one fetch.
const (
	fetchTime      = 30 * time.Second
	maxFetchBytes  = 4 << 20 // of a page, unpacked
	maxFetchText   = 1 << 20 // of what is handed on
	maxRedirects   = 5
	maxFetchHeader = 256 << 10
)

// fetchRequest asks the helper for a page.
type fetchRequest struct {
	URL string           `json:"url"`
	How policy.HostGrant `json:"how"`
	Raw bool             `json:"raw,omitempty"`
}

// handleFetch fetches a page. It runs in a process that can write nothing.
func handleFetch(body json.RawMessage, a *files.Answer) error {
	var q fetchRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return fmt.Errorf("bug: no request for a page: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), fetchTime, fmt.Errorf("no whole answer within %s", fetchTime))
	defer cancel()
	text, err := fetch(ctx, q, nil)
	if err != nil {
		return err
	}
	a.Text = text
	return nil
}

// fetch does one request, and follows redirects on the same host. lookup is nil for
// the resolver of this process.
func fetch(ctx context.Context, q fetchRequest, lookup func(context.Context, string) ([]netip.Addr, error)) (string, error) {
	u, err := fetchable(q.URL)
	if err != nil {
		return "", err
	}
	guards := map[string]*hostGuard{} // of the one host, by its ports: where it is, and https
	for _, port := range []string{portOf(u), "443"} {
		guards[port] = &hostGuard{host: u.Hostname(), port: port, how: q.How, lookup: lookup}
	}
	transport := &http.Transport{
		Proxy: nil, TLSHandshakeTimeout: dialTime, DisableKeepAlives: true, MaxResponseHeaderBytes: maxFetchHeader,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			g := guards[address[strings.LastIndexByte(address, ':')+1:]]
			if g == nil {
				return nil, fmt.Errorf("a connection to %s is refused", address)
			}
			return g.dial(ctx, network, address)
		},
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error { return onSameHost(u, r, len(via)) }}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("User-Agent", "sandboxd")
	r.Header.Set("Accept", "text/markdown, text/html, text/plain, application/json;q=0.9, */*;q=0.5")
	res, err := client.Do(r)
	if err != nil {
		return "", fetchError(ctx, err)
	}
	defer res.Body.Close()
	return page(ctx, q, res)
}

// onSameHost allows a redirect that leads to the same host by the same or a safer
// way. Any other address is for a call of its own, which is decided.
func onSameHost(first *url.URL, r *http.Request, seen int) error {
	r.Header.Del("Referer")
	to, err := fetchable(r.URL.String())
	switch {
	case err != nil:
		return fmt.Errorf("it redirects to what is not fetched: %.200s", r.URL)
	case seen >= maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case to.Scheme == first.Scheme && to.Host == first.Host:
		return nil
	case first.Scheme == "http" && to.Scheme == "https" && to.Hostname() == first.Hostname() && portOf(to) == "443":
		return nil
	}
	return fmt.Errorf("it redirects to another host: call web_fetch with %.500s", to)
}

func fetchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the address is known
	}
	return cleanError(err)
}

// page is an answer as text.
func page(ctx context.Context, q fetchRequest, res *http.Response) (string, error) {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		kind = "application/octet-stream"
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxFetchBytes+1))
	if err != nil {
		return "", fetchError(ctx, err)
	}
	cut := ""
	if len(body) > maxFetchBytes {
		body, cut = body[:maxFetchBytes], fmt.Sprintf("\n[the page is longer than %d bytes: the rest was not read]", maxFetchBytes)
	}
	head := fmt.Sprintf("%s\n%s, %s, %d bytes\n\n", clip(strings.Map(printable, res.Request.URL.String()), 2000), clip(oneLine(strings.Map(printable, res.Status)), 100), clip(kind, 100), len(body))
	text := "[not a text: not shown]"
	if isText(kind) {
		if text, err = readable(body, kind, res.Header.Get("Content-Type"), q.Raw); err != nil {
			return "", err
		}
	}
	if len(text) > maxFetchText {
		text, cut = clip(text, maxFetchText), fmt.Sprintf("\n[the text is longer than %d bytes: the rest is left out]", maxFetchText)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return "", fmt.Errorf("the server answers %s: %s", clip(oneLine(strings.Map(printable, res.Status)), 100), clip(oneLine(text), maxSkillLine))
	}
	return head + text + cut, nil
}

func isText(kind string) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") {
		return true
	}
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml", "application/x-yaml", "application/toml":
		return true
	}
	return false
}

// readable decodes a text and turns HTML into Markdown.
func readable(body []byte, kind, contentType string, raw bool) (string, error) {
	r, err := charset.NewReader(strings.NewReader(string(body)), contentType)
	if err != nil {
		return "", err
	}
	decoded, err := io.ReadAll(io.LimitReader(r, 4*maxFetchBytes))
	if err != nil {
		return "", err
	}
	text := string(decoded)
	if !raw && (kind == "text/html" || kind == "application/xhtml+xml") {
		if text, err = htmltomarkdown.ConvertString(text); err != nil {
			return "", fmt.Errorf("the page cannot be read: %w; ask for it raw", err)
		}
	}
	return strings.Map(printable, strings.ToValidUTF8(text, "\uFFFD")), nil
}
