package agentloop

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Looking only where a word of a form stands finds what the expression alone does.
func TestFormsAreFoundAsByTheirExpressionsAlone(t *testing.T) {
	parts := []string{"token", "TOKEN", "my_secret", "api-key", "apikey", "passwd", "password", "passw", "=", ": ", " ", "\n", "\"", "'", "-", "_", "--token ", "--password=",
		"ghp_", "github_pat_", strings.Repeat("a1B2", 6), "AKIA", "ABCDEFGH12345678", "sk-", "xoxb-", "glpat-", "AIza", "npm_", "eyJ", ".", "bearer ", "Basic\t",
		"://", "://user:pw@", "eyJhbGciOiJI.eyJzdWIiOiIx.sig", "user:", "@", "/", "x", "é", "\xff", "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "&", ";", "credential", "a"}
	rng := rand.New(rand.NewPCG(7, 8))
	found := map[int]int{}
	for range 20000 {
		var b strings.Builder
		for range 1 + rng.IntN(12) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		s := b.String()
		for i, form := range secretForms() {
			expr := secretFormTable[i].expr
			if reflect.ValueOf(secretFormTable[i].kind).Pointer() == reflect.ValueOf(atWordStart).Pointer() {
				expr = strings.Replace(expr, "(", `\b(`, 1)
			}
			want := alone(i, expr).FindAllStringSubmatchIndex(s, -1)
			got := form.find(s, newLowered(s))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("form %d in %q: %v, want %v", i, s, got, want)
			}
			found[i] += len(got)
		}
	}
	for i := range secretForms() {
		if found[i] == 0 {
			t.Errorf("form %d was never there: the test shows nothing", i)
		}
	}
}

var aloneCache = map[int]*regexp.Regexp{}

func alone(i int, expr string) *regexp.Regexp {
	if aloneCache[i] == nil {
		aloneCache[i] = regexp.MustCompile(expr)
	}
	return aloneCache[i]
}

// A text that is full of the words of forms takes no time that grows with its
// square.
func TestMaskingIsLinear(t *testing.T) {
	for name, unit := range map[string]string{"words": "token", "names": "token_", "spaces": "token   ", "almost": "secret: x ", "urls": "://a", "keys": "-----BEGIN PRIVATE KEY ", "bearers": "bearer "} {
		timeOf := func(n int) time.Duration {
			text := strings.Repeat(unit, n/len(unit))
			best := time.Hour
			for range 3 {
				began := time.Now()
				(&Redactor{}).Mask(text)
				best = min(best, time.Since(began))
			}
			return best
		}
		small, large := timeOf(32<<10), timeOf(256<<10)
		if large > 40*small && large > 500*time.Millisecond {
			t.Errorf("%s: %v for 32 KiB, %v for 256 KiB", name, small, large)
		}
		t.Logf("%s: %v for 32 KiB, %v for 256 KiB", name, small, large)
	}
}
