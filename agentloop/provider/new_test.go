package provider_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/agentloop"
	"sandboxd/agentloop/provider"
	"sandboxd/test/require"
)

// inProcess makes a provider for a server that may have no socket yet.
func inProcess(t testing.TB, p wireProtocol, s *wireServer) (agentloop.Provider, func()) {
	t.Helper()
	var own *httptest.Server
	if s.Server == nil {
		own = httptest.NewServer(s)
		s.Server = own
	}
	c, _, err := provider.New(agentloop.AgentConfig{Provider: p.Name, Model: "m", BaseURL: s.URL, KeyEnv: "KEY"}, environ{"KEY": testKey}.lookup, quick)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		c.(io.Closer).Close()
		if own != nil {
			own.Close()
		}
	}
}

func TestProviderIsChosen(t *testing.T) {
	key := "k"
	for _, tt := range []struct {
		name string
		cfg  agentloop.AgentConfig
		env  environ
		want agentloop.AgentConfig // Provider, Model, BaseURL, KeyEnv
		err  string
	}{
		{name: "the key of Anthropic", env: environ{"ANTHROPIC_API_KEY": key},
			want: agentloop.AgentConfig{Provider: "anthropic", Model: "claude-sonnet-5-5", BaseURL: "https://api.anthropic.com", KeyEnv: "ANTHROPIC_API_KEY"}},
		{name: "a token of Anthropic", env: environ{"ANTHROPIC_AUTH_TOKEN": key},
			want: agentloop.AgentConfig{Provider: "anthropic", Model: "claude-sonnet-5-5", BaseURL: "https://api.anthropic.com", KeyEnv: "ANTHROPIC_AUTH_TOKEN"}},
		{name: "the key of OpenAI", env: environ{"OPENAI_API_KEY": key},
			want: agentloop.AgentConfig{Provider: "openai", Model: "gpt-6.1-sol", BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"}},
		{name: "both keys, told by the model", cfg: agentloop.AgentConfig{Model: "gpt-6-luna"}, env: environ{"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": key},
			want: agentloop.AgentConfig{Provider: "openai", Model: "gpt-6-luna", BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"}},
		{name: "both keys", env: environ{"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": key}, err: "keys for anthropic and openai"},
		{name: "nothing", err: "no model is configured"},
		{name: "a server of one's own", cfg: agentloop.AgentConfig{BaseURL: "http://gpu-box:8000/v1", Model: "qwen"},
			want: agentloop.AgentConfig{Provider: "openai", Model: "qwen", BaseURL: "http://gpu-box:8000/v1", KeyEnv: "none"}},
		{name: "its address in the environment", cfg: agentloop.AgentConfig{Model: "qwen"}, env: environ{"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"},
			want: agentloop.AgentConfig{Provider: "openai", Model: "qwen", BaseURL: "http://127.0.0.1:1/v1", KeyEnv: "none"}},
		{name: "a server of one's own without a model", cfg: agentloop.AgentConfig{BaseURL: "http://localhost:1/v1"}, err: "no model is named for localhost:1"},
		{name: "no key", cfg: agentloop.AgentConfig{Provider: "openai-responses"}, err: "no key for api.openai.com; set OPENAI_API_KEY"},
		{name: "no key where one is named", cfg: agentloop.AgentConfig{BaseURL: "https://models.example", KeyEnv: "MINE", Model: "m"}, env: environ{"OPENAI_API_KEY": key}, err: "set MINE"},
		{name: "a key that is named", cfg: agentloop.AgentConfig{BaseURL: "https://models.example", KeyEnv: "MINE", Model: "m"}, env: environ{"MINE": " k\n"},
			want: agentloop.AgentConfig{Provider: "openai", Model: "m", BaseURL: "https://models.example", KeyEnv: "MINE"}},
		{name: "a key over plain HTTP", cfg: agentloop.AgentConfig{BaseURL: "http://gpu-box:8000/v1", Model: "m"}, env: environ{"OPENAI_API_KEY": key}, err: "without encryption"},
		{name: "none over plain HTTP", cfg: agentloop.AgentConfig{BaseURL: "http://gpu-box:8000/v1", Model: "m", KeyEnv: "none"}, env: environ{"OPENAI_API_KEY": key},
			want: agentloop.AgentConfig{Provider: "openai", Model: "m", BaseURL: "http://gpu-box:8000/v1", KeyEnv: "none"}},
		{name: "a name that begins as this host's", cfg: agentloop.AgentConfig{BaseURL: "http://127.0.0.1.example/v1", Model: "m"}, env: environ{"OPENAI_API_KEY": key}, err: "without encryption"},
		{name: "an unknown provider", cfg: agentloop.AgentConfig{Provider: "gemini"}, err: "want one of anthropic"},
		{name: "a password in the address", cfg: agentloop.AgentConfig{BaseURL: "https://u:hunter2@models.example", Model: "m"}, err: "has a user"},
		{name: "a key in the address", cfg: agentloop.AgentConfig{BaseURL: "https://models.example?key=hunter2", Model: "m"}, err: "a query"},
		{name: "a file", cfg: agentloop.AgentConfig{BaseURL: "file:///etc/passwd", Model: "m"}, err: "no HTTP address"},
		{name: "no address", cfg: agentloop.AgentConfig{BaseURL: "http://hunter2:\x7f", Model: "m"}, err: "is no address"},
		{name: "a key that would end a header", env: environ{"ANTHROPIC_API_KEY": "a\r\nX-Evil: b"}, err: "characters"},
		{name: "a budget without a price", cfg: agentloop.AgentConfig{BaseURL: "http://localhost:1", Model: "qwen", Limits: agentloop.AgentLimits{Cost: 1}}, err: "none is known for qwen"},
		{name: "a budget without a price of the classifier", cfg: agentloop.AgentConfig{BaseURL: "http://localhost:1", Model: "qwen", Classifier: "judge", Limits: agentloop.AgentLimits{Cost: 1}, Prices: map[string]agentloop.Price{"qwen": {Input: 1}}}, err: "none is known for judge"},
		{name: "a budget without a price of the explainer", cfg: agentloop.AgentConfig{BaseURL: "http://localhost:1", Model: "qwen", Explainer: "teacher", Explain: true, Limits: agentloop.AgentLimits{Cost: 1}, Prices: map[string]agentloop.Price{"qwen": {Input: 1}}}, err: "none is known for teacher"},
		{name: "a budget with a price", cfg: agentloop.AgentConfig{BaseURL: "http://localhost:1", Model: "qwen", Limits: agentloop.AgentLimits{Cost: 1}, Prices: map[string]agentloop.Price{"qwen": {Input: 1}}},
			want: agentloop.AgentConfig{Provider: "openai", Model: "qwen", BaseURL: "http://localhost:1", KeyEnv: "none"}},
		{name: "a budget with prices of all that are asked", cfg: agentloop.AgentConfig{BaseURL: "http://localhost:1", Model: "qwen", Classifier: "judge", Explainer: "teacher", Limits: agentloop.AgentLimits{Cost: 1}, Prices: map[string]agentloop.Price{"qwen": {Input: 1}, "judge": {Input: 2}}},
			want: agentloop.AgentConfig{Provider: "openai", Model: "qwen", BaseURL: "http://localhost:1", KeyEnv: "none"}},
		{name: "a budget with a list price", cfg: agentloop.AgentConfig{Limits: agentloop.AgentLimits{Cost: 1}}, env: environ{"ANTHROPIC_API_KEY": key},
			want: agentloop.AgentConfig{Provider: "anthropic", Model: "claude-sonnet-5-5", BaseURL: "https://api.anthropic.com", KeyEnv: "ANTHROPIC_API_KEY"}},
		{name: "a budget beyond what the price is for", cfg: agentloop.AgentConfig{Limits: agentloop.AgentLimits{Cost: 1, HardLimit: 300_000}}, env: environ{"OPENAI_API_KEY": key}, err: "none is known"},
		{name: "a script that nobody may read", cfg: agentloop.AgentConfig{Script: "s"}, err: "not read here"},
		{name: "no script", cfg: agentloop.AgentConfig{Provider: "scripted"}, err: "no script"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, got, err := provider.New(tt.cfg, tt.env.lookup, provider.Options{})
			if tt.err != "" {
				if _, ok := errors.AsType[*provider.ConfigError](err); !ok || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Provider != tt.want.Provider || got.Model != tt.want.Model || got.BaseURL != tt.want.BaseURL || got.KeyEnv != tt.want.KeyEnv || p.Name() != tt.want.Provider {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestScriptIsReadByTheCaller(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("model: sam\nsteps: [{say: hi}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, cfg, err := provider.New(agentloop.AgentConfig{Script: file, Limits: agentloop.AgentLimits{Cost: 1}}, environ{}.lookup, provider.Options{ReadFile: os.ReadFile})
	if err != nil || p.Name() != "scripted" || cfg.Provider != "scripted" || cfg.Model != "sam" {
		t.Errorf("%v, %+v, %v", p, cfg, err)
	}
	if _, _, err = provider.New(agentloop.AgentConfig{Script: file + "x"}, environ{}.lookup, provider.Options{ReadFile: os.ReadFile}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// The SDKs look for keys, addresses, headers, profiles and proxies of the process
// that they are in. That one is the daemon's: nothing of it may reach a model of
// one of its users.
func TestNothingOfThisProcessIsSent(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		trap := newWireServer(t, events(p.Say(spoken{Text: "trapped"})...))
		const secret = "daemon-secret"
		home := t.TempDir()
		for _, dir := range []string{".config/anthropic", ".anthropic", ".config/openai"} {
			os.MkdirAll(filepath.Join(home, dir), 0o700)
			for _, f := range []string{"config.json", "credentials.json", "default.json", "active_config"} {
				os.WriteFile(filepath.Join(home, dir, f), []byte(`{"api_key":"`+secret+`","auth_token":"`+secret+`"}`), 0o600)
			}
		}
		for name, value := range map[string]string{
			"ANTHROPIC_API_KEY": secret, "ANTHROPIC_AUTH_TOKEN": secret, "ANTHROPIC_BASE_URL": trap.URL, "ANTHROPIC_CUSTOM_HEADERS": "X-Leak: " + secret,
			"ANTHROPIC_PROFILE": "default", "OPENAI_API_KEY": secret, "OPENAI_BASE_URL": trap.URL, "OPENAI_ORG_ID": secret, "OPENAI_PROJECT_ID": secret,
			"OPENAI_ADMIN_KEY": secret, "OPENAI_CUSTOM_HEADERS": "X-Leak: " + secret, "HTTP_PROXY": trap.URL, "HTTPS_PROXY": trap.URL, "http_proxy": trap.URL,
			"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "TRACEPARENT": secret,
		} {
			t.Setenv(name, value)
		}
		s := newWireServer(t, events(p.Say(spoken{Text: "fine"})...))
		for _, key := range []string{"", "KEY"} {
			cfg := agentloop.AgentConfig{Provider: p.Name, Model: "m", BaseURL: s.URL, KeyEnv: key}
			c, _, err := provider.New(cfg, environ{"KEY": testKey}.lookup, quick)
			if err != nil {
				t.Fatal(err)
			}
			a, err := c.Stream(t.Context(), ask(), nil)
			if err != nil || a.Message.Text() != "fine" {
				t.Fatalf("answer %q, %v", a.Message.Text(), err)
			}
			got := s.received()[len(s.received())-1]
			// Where the documentation of each API wants it.
			want := map[string]string{"Authorization": "", "X-Api-Key": ""}
			switch {
			case key == "":
			case p.Name == provider.Anthropic:
				want["X-Api-Key"] = testKey
			default:
				want["Authorization"] = "Bearer " + testKey
			}
			for header, value := range want {
				if got := got.header.Get(header); got != value {
					t.Errorf("%s: %q sent, want %q", header, got, value)
				}
			}
			for name, values := range got.header {
				if strings.Contains(strings.Join(values, ""), secret) || strings.EqualFold(name, "traceparent") {
					t.Errorf("header %s: %v", name, values)
				}
			}
			if strings.Contains(got.raw, secret) {
				t.Error("a secret in the body")
			}
		}
		if n := len(trap.received()); n != 0 {
			t.Errorf("%d requests went elsewhere", n)
		}
	})
}

// A proxy is that of the user's environment.
func TestTheProxyIsThatOfTheUser(t *testing.T) {
	p := protocols()[1]
	proxy := newWireServer(t, events(p.Say(spoken{Text: "by proxy"})...))
	env := environ{"HTTP_PROXY": proxy.URL}
	c, _, err := provider.New(agentloop.AgentConfig{Provider: p.Name, Model: "m", BaseURL: "http://models.invalid/v1"}, env.lookup, quick)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := c.Stream(t.Context(), ask(), nil); err != nil || a.Message.Text() != "by proxy" {
		t.Errorf("answer %q, %v", a.Message.Text(), err)
	}
}

// localhost is this host by name only: the address decides.
func TestAKeyOverPlainHTTPStaysOnThisHost(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	other := ""
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			other = ip.IP.String()
		}
	}
	if other == "" {
		require.Missing(t, require.Host, "the host has no address beside loopback")
	}
	p := protocols()[0]
	l, err := net.Listen("tcp", net.JoinHostPort(other, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &wireServer{replies: []reply{events(p.Say(spoken{Text: "fine"})...)}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	cfg := agentloop.AgentConfig{Provider: p.Name, Model: "m", BaseURL: "http://" + other + ":" + port}
	if _, _, err := provider.New(cfg, environ{"ANTHROPIC_API_KEY": testKey}.lookup, quick); err == nil {
		t.Error("a key for another host was taken")
	}
	c, _, err := provider.New(cfg, environ{}.lookup, quick)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := c.Stream(t.Context(), ask(), nil); err != nil || a.Message.Text() != "fine" {
		t.Errorf("without a key: %q, %v", a.Message.Text(), err)
	}
}

func TestKeysGoOverTLS(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p wireProtocol) {
		s := &wireServer{replies: []reply{events(p.Say(spoken{Text: "fine"})...)}}
		s.Server = httptest.NewTLSServer(s)
		defer s.Close()
		cfg := agentloop.AgentConfig{Provider: p.Name, Model: "m", BaseURL: s.URL, KeyEnv: "KEY"}
		env := environ{"KEY": testKey}
		c, _, err := provider.New(cfg, env.lookup, quick)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Stream(t.Context(), ask(), nil)
		if e, ok := errors.AsType[*agentloop.ModelError](err); !ok || e.Kind != agentloop.ModelUnreachable || e.Attempts != 1 || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("unknown certificate: %v", err)
		}
		o := quick
		o.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		o.TLS.MinVersion = tls.VersionTLS12
		if c, _, err = provider.New(cfg, env.lookup, o); err != nil {
			t.Fatal(err)
		}
		if _, err = c.Stream(context.Background(), ask(), nil); err != nil {
			t.Error(err)
		}
		c.(io.Closer).Close()
	})
}
