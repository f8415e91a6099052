package agentloop

import (
	"context"
	"strings"
	"testing"
)

// redacted is what is left of an output in a session with these variables.
func redacted(t *testing.T, output string, environ ...string) string {
	t.Helper()
	out, err := RedactionHook{NewRedactor(environ)}.Handle(context.Background(), HookEvent{Event: EventPostToolUse, Output: output})
	if err != nil {
		t.Fatal(err)
	}
	if out.Output == nil {
		return output
	}
	return *out.Output
}

// Each form of the table in docs/hooks.md, with what stands around it kept.
func TestKnownSecretsAreMasked(t *testing.T) {
	a := strings.Repeat("Ab1", 20)
	for _, tt := range []struct{ output, secret string }{
		{"key AKIAABCDEFGHIJKLMNOP end", "AKIAABCDEFGHIJKLMNOP"}, {"ghp_" + a + " end", a}, {"github_pat_" + a + " end", a}, {"glpat-" + a[:20] + " end", a[:20]},
		{"xoxb-1234567890-abc end", "1234567890"}, {"sk-ant-" + a + " end", a}, {"AIza" + a[:35] + " end", a[:35]}, {"npm_" + a[:36] + " end", a[:36]},
		{"eyJhbGciOi1.eyJzdWIiOiIx.c2lnbmF0dXJl end", "eyJzdWIiOiIx"}, {"Authorization: Bearer abcdef0123456789 end", "abcdef0123456789"},
		{"https://user:hunter22@host.test/x end", "hunter22"}, {"DB_PASSWORD=hunter22 end", "hunter22"}, {"api_key: hunter22 end", "hunter22"},
		{"mysql --password=hunter22 end", "hunter22"}, {"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- end", "abc"},
		{"it says correct-horse end", "correct-horse"},
	} {
		got := redacted(t, tt.output, "DEPLOY_SECRET=correct-horse")
		if strings.Contains(got, tt.secret) || !strings.Contains(got, "end") {
			t.Errorf("%q became %q", tt.output, got)
		}
	}
}

// Honest outputs of everyday commands stay as they are.
func TestHonestOutputsAreNotMasked(t *testing.T) {
	for _, output := range []string{
		"commit 3f786850e387550fdab836ed7e6dc881de23001b\nAuthor: A B <a@b.test>\n",
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n",
		"sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==\n",
		"550e8400-e29b-41d4-a716-446655440000\n", "https://example.test/path?q=1#frag\n", "git@example.test:group/repo.git\n",
		"-rw-r--r-- 1 root root 1234 Jan  1 00:00 secrets.go\n", "ok  \tpkg/token\t0.012s\n", "PASS: TestPasswordIsHashed (0.00s)\n",
		"func (t *Token) Next() (Kind, error) {\n", "the password is never stored\n", "for key, value := range items {\n",
		"task-list sk-short risk-assessment\n", "npm_config_cache\n", "Basic usage: run it\n", "bearer of news\n", "PWD=/home/dev/proj\n", "SSH_AUTH_SOCK=/tmp/agent\n",
	} {
		if got := redacted(t, output, "PWD=/home/dev/proj", "SSH_AUTH_SOCK=/tmp/agent", "KEY=ab", "HOME=/home/dev"); got != output {
			t.Errorf("%q became %q", output, got)
		}
	}
}
