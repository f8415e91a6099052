package agentloop

import (
	"encoding/json"
	"strings"
	"testing"

	"sandboxd/policy"
)

func TestSecretsAreMasked(t *testing.T) {
	r := NewRedactor([]string{"DEPLOY_TOKEN=hunter2-is-long", "PWD=/home/u/w", "SSH_AUTH_SOCK=/run/agent.sock", "PIN=12", "PATH=/usr/bin:/bin"})
	for _, tt := range []struct{ name, text, secret string }{
		{"value of a variable", "echo hunter2-is-long", "hunter2-is-long"},
		{"AWS key", "id AKIAIOSFODNN7EXAMPLE.", "AKIAIOSFODNN7EXAMPLE"},
		{"GitHub token", "git clone https://ghp_abcdefghijklmnopqrstuvwxyz0123456789@x", "ghp_abcdefghijklmnopqrstuvwxyz"},
		{"password in an address", "psql postgres://u:s3cr3t@db/x", "s3cr3t"},
		{"bearer", "curl -H 'Authorization: Bearer abcdef1234567890'", "abcdef1234567890"},
		{"flag", "mysql --password=opensesame x", "opensesame"},
		{"assignment", "MY_API_KEY=abcdef123 make", "abcdef123"},
		{"JSON", `{"client_secret":"abcdef123"}`, "abcdef123"},
		{"private key", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter", "MIIE"},
		{"private key that was cut", "-----BEGIN PRIVATE KEY-----\nMIIE", "MIIE"},
		{"JWT", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcDEF-_123", "eyJzdWIiOiIxMjM0"},
	} {
		got := r.Mask(tt.text)
		if strings.Contains(got, tt.secret) || !strings.Contains(got, mask) {
			t.Errorf("%s: %q", tt.name, got)
		}
		args, _ := json.Marshal(r.MaskArgs(policy.Args{"command": tt.text, "list": []any{map[string]any{"x": tt.text}}}))
		if strings.Contains(string(args), tt.secret) {
			t.Errorf("%s in arguments: %s", tt.name, args)
		}
	}
	for _, plain := range []string{"ls /home/u/w", "git log --author=me", "cat token.go", "12 files", "skip-this", "make -j4 all", "echo $HOME"} {
		if got := r.Mask(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
	if got := r.MaskArgs(policy.Args{"password": "x y", "key": "stays", "n": 3.0}); got["password"] != mask || got["key"] != "stays" || got["n"] != 3.0 {
		t.Errorf("arguments %v", got)
	}
}

func FuzzMask(f *testing.F) {
	f.Add("password=abcd", "x")
	f.Add("eyJ", "\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		r := NewRedactor([]string{"A_TOKEN=planted-secret"})
		got := r.Mask(a + "planted-secret" + b)
		if strings.Contains(got, "planted-secret") {
			t.Errorf("%q", got)
		}
	})
}

func TestRowsAreBoundedAndStayJSON(t *testing.T) {
	args := policy.Args{"command": strings.Repeat("é", 100_000), "list": []any{strings.Repeat("x", 20_000)}, "s": "short"}
	text := maskedArgs(nil, args)
	var back map[string]any
	if err := json.Unmarshal(text, &back); err != nil || len(text) > maxAuditArgs || back["s"] != "short" {
		t.Errorf("%d bytes, %v: %.200s", len(text), err, text)
	}
	if got := firstCharacters("aéb", 2); got != "aé" {
		t.Errorf("%q", got)
	}
}

func TestShowTextHidesNothing(t *testing.T) {
	for in, want := range map[string]string{
		"plain é ü 漢":       "plain é ü 漢",
		"a\x1b[2J\r\nb\x7f": `a\x1b[2J\x0d\nb\x7f`,
		"x\u202e\u200by":    `x\u{202e}\u{200b}y`,
		"bad\xff\xc3":       `bad\xff\xc3`,
		"\u009b31m\ufeff":   `\u{9b}31m\u{feff}`,
		`back\slash`:        `back\\slash`,
		"":                  "",
	} {
		if got := ShowText(in); got != want {
			t.Errorf("ShowText(%q) = %q, want %q", in, got, want)
		}
	}
}
