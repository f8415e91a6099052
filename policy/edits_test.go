package policy

import "testing"

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"deny", "deny", 0}, {"deny", "dney", 2},
		{"allow", "alow", 1}, {"alow", "allow", 1}, {"read", "reed", 1}, {"kitten", "sitting", 3},
	} {
		if got := EditDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("EditDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
