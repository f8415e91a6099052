package api

import (
	"net"
	"net/http"
	"strings"
)

// checkBrowser refuses what a web page can make a browser send, before any route
// is looked up. A page reaches loopback ports, also under a name of its own that
// resolves there, and such a request carries these marks; programs send none.
func checkBrowser(_ *conn, r *http.Request) error {
	for name := range r.Header {
		if name == "Origin" || name == "Referer" || strings.HasPrefix(name, "Sec-") && !strings.HasPrefix(name, "Sec-Websocket-") {
			return fault(CodeBrowser, "programs leave it out", "the request has a header %s, as those of web pages", name)
		}
	}
	if !localHost(r.Host) {
		return fault(CodeBrowser, "use the host name localhost", "the request is for the host %q", r.Host)
	}
	return nil
}

// localHost reports whether host can only mean this machine.
func localHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if ip := net.ParseIP(name); ip != nil {
		return ip.IsLoopback()
	}
	return name == "localhost" || name == clientHost
}

// clientHost is the host name that our client sends.
const clientHost = "sandboxd"

// readJSON reads the body of a request. A form of a web page cannot have this
// content type.
func readJSON(r *http.Request, to any) error {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(strings.ToLower(kind)) != "application/json" {
		return fault(CodeMediaType, "send Content-Type: application/json", "the body is not application/json")
	}
	body, err := readAll(r)
	if err != nil {
		return err
	}
	if err := decodeStrict(body, to); err != nil {
		return fault(CodeBadRequest, "see GET /api/openapi.json", "the body cannot be read: %v", err)
	}
	return nil
}
