package policy

import "testing"

func TestGrantsHost(t *testing.T) {
	e, err := NewEngine(Config{Workspace: "/w", Hosts: []string{"example.org", "*.example.com:443", "10.0.0.0/8", "localhost:8080"}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := NewEngine(Config{Workspace: "/w", Hosts: []string{"*", "example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		e       *Engine
		address string
		want    HostGrant
	}{
		{e, "https://example.org/x", HostByName},
		{e, "https://EXAMPLE.org./x", HostByName},
		{e, "https://a.example.com/", HostByStar},
		{e, "http://a.example.com/", HostNotGranted}, // another port
		{e, "http://10.1.2.3/", HostByAddress},
		{e, "http://localhost:8080/", HostByAddress},
		{e, "http://localhost/", HostNotGranted},
		{e, "https://example.org.evil.test/", HostNotGranted},
		{e, "https://example.org@evil.test/", HostNotGranted},
		{all, "http://127.0.0.1/", HostByStar},
		{all, "https://example.org/", HostByName},
	} {
		if got := tt.e.GrantsHost(tt.address); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.address, got, tt.want)
		}
	}
}
