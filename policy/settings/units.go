package settings

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are the factors of byte sizes: KB is 1000, KiB and K are 1024, as
// systemd and Docker's documentation have them for the written-out forms.
var sizeUnits = []struct {
	suffix string
	factor int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"B", 1},
}

// ParseSize reads a byte size such as "2GiB", "512MB", "1.5G" or "4096". The
// word "unlimited" is -1. Zero is refused: it means "the default" elsewhere.
func ParseSize(s string) (int64, error) {
	if s == "unlimited" {
		return -1, nil
	}
	number, factor := strings.TrimSpace(s), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	if strings.ContainsAny(number, "eExXpP_+iInN") {
		return 0, fmt.Errorf("size %q: want a number with an optional unit such as 512MiB", s)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: want a number with an optional unit such as 512MiB", s)
	}
	bytes := f * float64(factor)
	if bytes < 1 || bytes >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q: out of range", s)
	}
	return int64(bytes), nil
}

// ParseDuration reads a duration such as "60s", "2m30s" or "1h", or a plain
// number of seconds. The word "unlimited" is -1. Zero is refused.
func ParseDuration(s string) (time.Duration, error) {
	if s == "unlimited" {
		return -1, nil
	}
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
		return secondsOf(seconds)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("duration %q: want a form such as 60s, 2m30s or 1h", s)
	}
	if d <= 0 {
		return 0, fmt.Errorf("duration %q: out of range", s)
	}
	return d, nil
}

func secondsOf(n int64) (time.Duration, error) {
	if n <= 0 || n > int64(math.MaxInt64/time.Second) {
		return 0, fmt.Errorf("duration of %d seconds: out of range", n)
	}
	return time.Duration(n) * time.Second, nil
}
