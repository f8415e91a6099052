package agentloop

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// secretTexts are texts with a secret of each kind, and the secret.
var secretTexts = []struct{ text, secret string }{
	{"the value is hunter2hunter2, they say\n", "hunter2hunter2"},
	{"learned: correct-horse-battery.\n", "correct-horse-battery"},
	{"id AKIAIOSFODNN7EXAMPLE end\n", "AKIAIOSFODNN7EXAMPLE"},
	{"ghp_abcdefghijklmnopqrstuvwxyz0123456789 is it\n", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
	{"use glpat-abcdefghij0123456789 now\n", "glpat-abcdefghij0123456789"},
	{"slack xoxb-1234567890-abcdefghij\n", "xoxb-1234567890-abcdefghij"},
	{"sk-ant-api03-abcdefghijklmnop qed\n", "sk-ant-api03-abcdefghijklmnop"},
	{"key AIzaSyA1234567890abcdefghijklmnopqrstu\n", "AIzaSyA1234567890abcdefghijklmnopqrstu"},
	{"npm_abcdefghijklmnopqrstuvwxyz0123456789\n", "npm_abcdefghijklmnopqrstuvwxyz0123456789"},
	{"jwt eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4 end\n", "SflKxwRJSMeKKF2QT4"},
	{"Authorization: Bearer abcdef0123456789\n", "abcdef0123456789"},
	{"clone https://user:pa55w0rdpa55@host/x.git\n", "pa55w0rdpa55"},
	{"DB_PASSWORD=swordfish99 ok\n", "swordfish99"},
	{"\"client_secret\": \"abcd1234efgh\", more\n", "abcd1234efgh"},
	{"run --token s3cr3tt0ken --fast\n", "s3cr3tt0ken"},
	{"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKCAQ\n-----END RSA PRIVATE KEY-----\nafter\n", "IBAAKCAQ"},
}

func pieceRedactor() *Redactor {
	r := NewRedactor([]string{"API_TOKEN=hunter2hunter2"})
	r.Learn("correct-horse-battery")
	return r
}

// However a text is cut into pieces, no secret of it is told, what is told is what the
// mask of the whole gives, and no part of a secret of more than a few characters is
// there.
func TestSecretInPiecesIsMasked(t *testing.T) {
	red := pieceRedactor()
	check := func(t *testing.T, text, secret string, pieces []string) {
		t.Helper()
		m := &pieceMask{red: red}
		told := ""
		for _, p := range pieces {
			told += m.add(p)
		}
		told += m.end()
		want := red.Mask(text)
		if i := strings.Index(told, mask); i > 0 && len(told) == len(want)+1 { // the first letter of its form
			told = told[:i-1] + told[i:]
		}
		if told != want || strings.Contains(told, secret) {
			t.Errorf("%q: told %q, want %q", pieces, told, want)
		}
	}
	for _, tt := range secretTexts {
		t.Run(tt.secret, func(t *testing.T) {
			if !strings.Contains(red.Mask(tt.text), mask) {
				t.Fatalf("nothing is masked in %q", tt.text)
			}
			for cut := range tt.text {
				check(t, tt.text, tt.secret, []string{tt.text[:cut], tt.text[cut:]})
			}
			check(t, tt.text, tt.secret, strings.Split(tt.text, ""))
			rng := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				var pieces []string
				for rest := tt.text; rest != ""; {
					n := 1 + rng.IntN(min(len(rest), 9))
					pieces, rest = append(pieces, rest[:n]), rest[n:]
				}
				check(t, tt.text, tt.secret, pieces)
			}
		})
	}
}

// What is no beginning of a secret is told at once: prompts have no line end, and words
// come as they come.
func TestOrdinaryPiecesAreNotHeldBack(t *testing.T) {
	for _, text := range []string{"Password: ", "Token for github.com: ", "Continue? [y/N] ", "$ ", ">>> ", "(gdb) ", "50%", "Enter a number: ", "half a word", "grün", "x", "I will read the file", "https://example.org/x"} {
		m := &pieceMask{red: pieceRedactor()}
		if got := m.add(text); got != text {
			t.Errorf("of %q is told %q", text, got)
		}
	}
	m := &pieceMask{red: pieceRedactor()}
	if got := m.add("Password: ") + m.add("sword") + m.add("fish99\n"); got != "Password: [secret]\n" {
		t.Errorf("after a prompt: %q", got)
	}
}

// What is held is bounded; of a longer secret the mask is told once, and nothing of it.
func TestLongSecretInPieces(t *testing.T) {
	m := &pieceMask{red: pieceRedactor()}
	told := m.add("-----BEGIN PRIVATE KEY-----\n")
	for range 2000 {
		told += m.add("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n")
		if len(m.held) > maxHeld+1024 {
			t.Fatalf("%d bytes are held", len(m.held))
		}
	}
	told += m.add("-----END PRI") + m.add("VATE KEY-----\nafter it\n") + m.end()
	if told != mask+"\nafter it\n" {
		t.Errorf("told %q", told)
	}
}

func FuzzPiecesAreMasked(f *testing.F) {
	for _, tt := range secretTexts {
		f.Add(tt.text, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		red := pieceRedactor()
		m := &pieceMask{red: red}
		told, n := "", int(size%32)+1
		for rest := text; rest != ""; {
			k := min(n, len(rest))
			told += m.add(rest[:k])
			rest = rest[k:]
		}
		told += m.end()
		for _, secret := range []string{"hunter2hunter2", "correct-horse-battery"} {
			if strings.Contains(told, secret) {
				t.Errorf("told %q of %q", told, text)
			}
		}
	})
}
