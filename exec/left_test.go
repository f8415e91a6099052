package exec

import "testing"

// TestLeftBehindTellsOfProcessesThatOutlivedTheCommand in every tier.
func TestLeftBehindTellsOfProcessesThatOutlivedTheCommand(t *testing.T) {
	each(t, func(t *testing.T, s Spec, _ string) {
		for script, want := range map[string]bool{
			"sleep 61.1 & echo": true, "(setsid sleep 61.2 &)": true, "sleep 0.01 & wait": false, "true": false,
		} {
			if got := run(t, sh(s, script)).LeftBehind; got != want {
				t.Errorf("%s: %v, want %v", script, got, want)
			}
		}
	})
}
