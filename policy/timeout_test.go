package policy

import (
	"testing"
	"time"
)

func TestTimeoutsOfCalls(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		tool               string
		asked, limit, want time.Duration
		reported           bool
	}{
		{"run_bash", 0, 0, 60 * s, false},
		{"Bash", 0, 0, 60 * s, false},
		{"run_bash", 119 * s, 0, 119 * s, false},
		{"run_bash", 120 * s, 0, 120 * s, false},
		{"run_bash", 500 * s, 0, 120 * s, true},
		{"run_bash", -1, 0, 60 * s, false},
		{"web_fetch", 0, 0, 120 * s, false},
		{"web_fetch", 500 * s, 0, 120 * s, true},
		{"run_bash", 0, 10 * s, 10 * s, false},
		{"run_bash", 20 * s, 10 * s, 10 * s, true},
		{"run_bash", 0, 600 * s, 600 * s, false},
		{"run_bash", 500 * s, 600 * s, 500 * s, false},
		{"web_fetch", 0, 10 * s, 10 * s, false},
		{"run_bash", 500 * s, -1, 500 * s, false},
		{"run_bash", 0, -1, 0, false},
	} {
		got, note := CallTimeout(tt.tool, tt.asked, tt.limit)
		if got != tt.want || (note != "") != tt.reported {
			t.Errorf("CallTimeout(%s, %v, %v) = %v %q, want %v, reported %v", tt.tool, tt.asked, tt.limit, got, note, tt.want, tt.reported)
		}
	}
}
