package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unlimited is how a limit is switched off in words; it becomes -1.
const unlimited = "unlimited"

// byteUnits are the suffixes of a size. Letters alone are powers of 1024, as in
// ulimit(1), systemd and Docker.
var byteUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
}

// parseBytes reads a size such as "512MiB", "2G", "4000" or "unlimited" (-1).
func parseBytes(text string) (int64, error) {
	if text == unlimited {
		return -1, nil
	}
	number, unit := text, int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return 0, errors.New("not a size above zero such as 512MiB, 2GiB or unlimited")
	}
	return n * unit, nil
}

// parseCount reads a count above zero, or "unlimited" (-1).
func parseCount(text string) (int, error) {
	if text == unlimited {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0, errors.New("not a number above zero, nor unlimited")
	}
	return n, nil
}

// parseDuration reads a time above zero such as "90s" or "5m"; a bare number is
// seconds, as for timeout(1).
func parseDuration(text string) (time.Duration, error) {
	if text == unlimited {
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, bare := strconv.ParseFloat(text, 64); bare == nil && seconds < math.MaxInt64/float64(time.Second) {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, errors.New("not a time above zero such as 90s, 5m or unlimited")
	}
	return d, nil
}

// sizeText writes a number of bytes for people, exact when it is a whole unit.
func sizeText(bytes int64) string {
	for _, u := range []struct {
		suffix string
		bytes  int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes < u.bytes {
			continue
		}
		if bytes%u.bytes == 0 {
			return fmt.Sprintf("%d %s", bytes/u.bytes, u.suffix)
		}
		return fmt.Sprintf("%.1f %s", float64(bytes)/float64(u.bytes), u.suffix)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
