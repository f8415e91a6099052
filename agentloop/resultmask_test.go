package agentloop

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// maskInPieces masks text as it comes in pieces of the given sizes in turn.
func maskInPieces(red *Redactor, text string, sizes ...int) string {
	m := newStreamMasker(red)
	var out bytes.Buffer
	for i := 0; text != ""; i++ {
		n := min(sizes[i%len(sizes)], len(text))
		out.Write(m.next([]byte(text[:n]), false))
		text = text[n:]
	}
	out.Write(m.next(nil, true))
	return out.String()
}

// A secret is masked wherever the pieces of a text end, and however long it is; and
// what stands around it is kept.
func TestStreamIsMaskedAcrossItsPieces(t *testing.T) {
	token := "ghp_" + strings.Repeat("a1B2", 9)
	long := strings.Repeat("Zz9", 30000)
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEkeykeykey\n", 15000) + "-----END RSA PRIVATE KEY-----"
	value := "V" + strings.Repeat("alue-of-a-variable", 2000)
	red := NewRedactor([]string{"DEPLOY_TOKEN=" + value})
	line := "an honest line of a build, 100% done\n"
	for _, tt := range []struct{ name, secret, inside string }{
		{"token", token, "a1B2a1B2"},
		{"assignment", "password=" + long + " ", "Zz9Zz9"},
		{"private key", key, "keykey"},
		{"value of a variable", value, "alue-of-a-variable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, before := range []int{0, 1, 1500, 1700, 1771, 1772, 4000} {
				text := strings.Repeat(line, before) + tt.secret + "\n" + strings.Repeat(line, 3000)
				for _, sizes := range [][]int{{1 << 20}, {32 << 10}, {4096, 1}, {65536, 3}} {
					got := maskInPieces(red, text, sizes...)
					if strings.Contains(got, tt.inside) {
						t.Fatalf("%d lines before, pieces %v: the secret is there", before, sizes)
					}
					if n := strings.Count(got, line); n != before+3000 {
						t.Fatalf("%d lines before, pieces %v: %d honest lines of %d are kept", before, sizes, n, before+3000)
					}
					if !strings.Contains(got, mask) {
						t.Fatalf("%d lines before, pieces %v: no mask", before, sizes)
					}
				}
			}
		})
	}
}

// A text without secrets comes out byte for byte, whatever it is.
func TestStreamWithoutSecretsIsKeptAsItIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	binary := make([]byte, 700<<10)
	for i := range binary {
		binary[i] = byte(rng.Uint32())
	}
	for name, text := range map[string]string{"binary": string(binary), "one line": strings.Repeat("x", 300<<10), "empty": "", "lines": strings.Repeat("ok 1\n", 90000)} {
		if red := (&Redactor{}); red.Mask(text) != text {
			continue // by chance it has one
		}
		if got := maskInPieces(&Redactor{}, text, 5000, 70000); got != text {
			t.Errorf("%s: %d bytes of %d came out", name, len(got), len(text))
		}
	}
}

func BenchmarkMaskStream(b *testing.B) {
	text := []byte(strings.Repeat("2024-01-01 12:00:00 INFO compile package number 17 of the tree, see https://example.org/x\n", 12000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m := newStreamMasker(NewRedactor([]string{"A_TOKEN=0123456789abcdef", "B_SECRET=fedcba9876543210"}))
		for at := 0; at < len(text); at += 65536 {
			m.next(text[at:min(at+65536, len(text))], false)
		}
		m.next(nil, true)
	}
}
