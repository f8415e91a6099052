package tools

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// site is a server of this machine with pages of all kinds.
func site(t *testing.T) (*httptest.Server, *[]*http.Request) {
	var seen []*http.Request
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "id", Value: "1", Path: "/"})
		w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
		_, _ = io.WriteString(w, "<html><head><title>T</title><script>evil()</script></head><body><h1>Gr\xfc\xdfe</h1><p>See <a href=\"/other\">this</a>.</p></body></html>")
	})
	mux.HandleFunc("/text", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "plain \x1b[31mred\x1b[0m\u202e words\n")
	})
	mux.HandleFunc("/binary", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/pdf")
		_, _ = w.Write(bytes.Repeat([]byte{0, 1, 2}, 100))
	})
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such thing", http.StatusNotFound) })
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/text", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for {
			if _, err := io.WriteString(w, strings.Repeat("endless ", 1<<13)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) { // 1 GiB in a MiB
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		zeros := make([]byte, 1<<20)
		for range 1024 {
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
		_ = z.Close()
	})
	mux.HandleFunc("/deep", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, strings.Repeat("<div><b><ul><li>", 100_000)+"bottom")
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv, &seen
}

func granting(hosts ...string) func(*agentloop.PolicyInForce) {
	return func(p *agentloop.PolicyInForce) { p.Config.Hosts = hosts }
}

// What is fetched comes from a confined helper, which reaches an address of this
// machine since the policy names it.
func TestFetchPages(t *testing.T) {
	srv, seen := site(t)
	w := newWorld(t, granting("127.0.0.1"))
	get := func(path string) string { return w.ok("web_fetch", policy.Args{"url": srv.URL + path}) }
	if got := get("/page#part"); !strings.Contains(got, "# Grüße") || !strings.Contains(got, "[this](/other)") || strings.Contains(got, "evil") || !strings.HasPrefix(got, srv.URL+"/page\n200 OK, text/html") {
		t.Errorf("page: %q", got)
	}
	if got := w.ok("web_fetch", policy.Args{"url": srv.URL + "/page", "format": "raw"}); !strings.Contains(got, "<h1>Grüße</h1>") {
		t.Errorf("raw: %q", got)
	}
	if got := get("/text"); !strings.HasSuffix(got, "\n\nplain [31mred[0m words\n") {
		t.Errorf("text: %q", got)
	}
	if got := get("/binary"); !strings.Contains(got, "application/pdf, 300 bytes\n\n[not a text: not shown]") {
		t.Errorf("binary: %q", got)
	}
	if got := get("/here"); !strings.HasPrefix(got, srv.URL+"/text\n") {
		t.Errorf("redirect on the same host: %q", got)
	}
	for _, r := range *seen {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("sent %v", r.Header)
		}
	}
	w.refused("the server answers 404 Not Found: no such thing", "web_fetch", policy.Args{"url": srv.URL + "/gone"})
}

func TestFetchOfWhatIsHostile(t *testing.T) {
	srv, _ := site(t)
	w := newWorld(t, granting("127.0.0.1"))
	began := time.Now()
	for path, want := range map[string]string{
		"/loop": "more than 5 redirects", "/away": "it redirects to another host: call web_fetch with http://169.254.169.254", "/file": "redirects to what is not fetched",
	} {
		w.refused(want, "web_fetch", policy.Args{"url": srv.URL + path})
	}
	for _, path := range []string{"/endless", "/bomb"} {
		got := w.ok("web_fetch", policy.Args{"url": srv.URL + path})
		if len(got) > maxFetchText+1000 || !strings.Contains(got, "the rest is left out") && !strings.Contains(got, "the rest was not read") {
			t.Errorf("%s: %d bytes", path, len(got))
		}
	}
	if res := w.call("web_fetch", policy.Args{"url": srv.URL + "/deep"}); res.Status == agentloop.StatusCancelled {
		t.Errorf("deep: %s", res.Status)
	}
	w.ok("web_fetch", policy.Args{"url": srv.URL + "/text"})
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("took %v", took)
	}
}

// A host is reached when the list of the policy, a rule or a person names it.
func TestFetchOnlyHostsThatAreAllowed(t *testing.T) {
	srv, seen := site(t)
	for _, tt := range []struct {
		name string
		edit func(*agentloop.PolicyInForce)
		url  string
		want string
	}{
		{"default = allow opens no network", func(*agentloop.PolicyInForce) {}, srv.URL, "no rule and nobody allows 127.0.0.1"},
		{"nor does a mode", func(p *agentloop.PolicyInForce) {
			p.Config.Mode, p.Config.Bypass.EnabledAtStart = policy.ModeBypass, true
		}, srv.URL, "no rule and nobody allows 127.0.0.1"},
		{"a star names no address of this machine", granting("*"), srv.URL, "an address of this machine"},
		{"nor does a rule with a star", func(p *agentloop.PolicyInForce) {
			p.Config.Rules = append(p.Config.Rules, policy.Rule{Kind: policy.AllowRule, Pattern: "web_fetch", Source: policy.Source{Kind: policy.SourceUser}})
		}, srv.URL, "an address of this machine"},
		{"a deny rule", func(p *agentloop.PolicyInForce) {
			granting("127.0.0.1")(p)
			denying("web_fetch(domain:127.0.0.1)")(p)
		}, srv.URL, "denied"},
		{"an effect rule", func(p *agentloop.PolicyInForce) {
			granting("127.0.0.1")(p)
			denying("effect(network 127.0.0.1)")(p)
		}, srv.URL, "denied"},
		{"the same address in other words", granting("example.org"), "http://2130706433/", ""},
		{"in octal", granting("*"), "http://0177.0.0.1/", ""},
		{"as IPv6", granting("*"), "http://[::ffff:127.0.0.1]/", ""},
		{"zero", granting("*"), "http://0.0.0.0/", ""},
		{"a user in front", granting("127.0.0.1"), "http://127.0.0.1@evil.test/", ""},
		{"no web address", granting("*"), "file:///etc/passwd", ""},
		{"gopher", granting("*"), "gopher://127.0.0.1/", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.edit)
			w.refused(tt.want, "web_fetch", policy.Args{"url": tt.url})
		})
	}
	if len(*seen) != 0 {
		t.Errorf("%d requests came", len(*seen))
	}
	w := newWorld(t, granting("127.0.0.1"))
	w.caller.Environ = append(w.caller.Environ, "SERVICE_TOKEN=sesame-open-12345")
	w.s = w.session()
	w.refused("looks like a secret", "web_fetch", policy.Args{"url": srv.URL + "/text?k=sesame-open-12345"})
	if len(*seen) != 0 {
		t.Errorf("%d requests came", len(*seen))
	}
	// The network is the helper's alone.
	w.file("get.sh", "exec 3<>/dev/tcp/"+strings.Replace(strings.TrimPrefix(srv.URL, "http://"), ":", "/", 1)+" && echo connected\n")
	if res := w.call("run_bash", policy.Args{"command": "bash ./get.sh 2>&1; true"}); strings.Contains(res.Output, "connected") {
		t.Errorf("a command reached it: %q", res.Output)
	}
}

// A name is resolved once: what was checked is what is connected to.
func TestFetchResolvesOnce(t *testing.T) {
	srv, _ := site(t)
	u, _ := url.Parse(srv.URL)
	asked := 0
	rebind := func(context.Context, string) ([]netip.Addr, error) {
		asked++
		if asked > 1 {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	q := fetchRequest{URL: fmt.Sprintf("http://named.test:%s/here", u.Port()), How: policy.HostByAddress}
	got, err := fetch(t.Context(), q, rebind)
	if err != nil || asked != 1 || !strings.Contains(got, "plain") {
		t.Errorf("asked %d times, %q, %v", asked, got, err)
	}
	for how, want := range map[policy.HostGrant]string{policy.HostByStar: "not public", policy.HostByName: ""} {
		q := fetchRequest{URL: "http://inside.test:1/", How: how}
		_, err := fetch(t.Context(), q, func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.168.255.254")}, nil
		})
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v, want %q", how, err, want)
		}
		if want == "" && (err == nil || strings.Contains(err.Error(), "not public")) {
			t.Errorf("%d: %v", how, err)
		}
		break // connecting to the other one would wait for this network
	}
}

func TestAddressesByGrant(t *testing.T) {
	for address, least := range map[string]policy.HostGrant{
		"93.184.216.34": policy.HostNotGranted, "2606:2800:220:1::1": policy.HostNotGranted,
		"10.1.2.3": policy.HostByName, "192.168.1.1": policy.HostByName, "172.16.0.1": policy.HostByName, "100.64.0.1": policy.HostByName, "fd00::1": policy.HostByName,
		"64:ff9b::7f00:1": policy.HostByName, "2002:7f00:1::": policy.HostByName, "198.18.0.1": policy.HostByName, "0.1.2.3": policy.HostByName, "240.0.0.1": policy.HostByName,
		"127.0.0.1": policy.HostByAddress, "127.9.9.9": policy.HostByAddress, "::1": policy.HostByAddress, "169.254.169.254": policy.HostByAddress, "fe80::1": policy.HostByAddress,
		"0.0.0.0": policy.HostByAddress, "::": policy.HostByAddress, "224.0.0.1": policy.HostByAddress, "255.255.255.255": policy.HostByName,
	} {
		a := netip.MustParseAddr(address)
		for how := policy.HostNotGranted; how <= policy.HostByAddress; how++ {
			if err := checkAddress(a, how); (err == nil) != (how >= least) {
				t.Errorf("%s by %d: %v, want it from %d on", address, how, err, least)
			}
		}
	}
	if checkAddress(netip.MustParseAddr("fe80::1%eth0"), policy.HostByAddress) == nil || checkAddress(netip.Addr{}, policy.HostByAddress) == nil {
		t.Error("a zone, or no address, is taken")
	}
}

func TestFetchEndsWithItsCall(t *testing.T) {
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { <-stop }))
	defer srv.Close()
	defer close(stop)
	w := newWorld(t, granting("127.0.0.1"))
	done := make(chan agentloop.ToolResult, 1)
	go func() { done <- w.in(w.s, "web_fetch", policy.Args{"url": srv.URL}) }()
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	w.s.Cancel("test")
	res := <-done
	if took := time.Since(began); res.Status != agentloop.StatusCancelled || took > time.Second {
		t.Errorf("%s after %v", res.Status, took)
	}
}
