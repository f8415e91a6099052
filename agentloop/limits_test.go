package agentloop

import "testing"

func TestOverrideLimit(t *testing.T) {
	for _, tt := range []struct {
		name        string
		limit, flag int
		most        int
		want        int
	}{
		{"no flag", 5, 0, 0, 5},
		{"flag loosens", 5, 9, 0, 9},
		{"flag lifts", 5, -1, 0, -1},
		{"flag alone", 0, 9, 0, 9},
		{"managed is not loosened", 5, 9, 5, 5},
		{"managed is not lifted", 5, -1, 5, 5},
		{"managed is tightened", 5, 3, 5, 3},
	} {
		got := tt.limit
		overrideLimit(&got, tt.flag, tt.most)
		if got != tt.want {
			t.Errorf("%s: %d with flag %d (managed %d) is %d, want %d", tt.name, tt.limit, tt.flag, tt.most, got, tt.want)
		}
	}
}
