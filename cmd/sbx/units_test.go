package main

import (
	"testing"
	"time"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "4000": 4000, "512MiB": 512 << 20, "2G": 2 << 30, "2GB": 2e9, "1kB": 1000, "1k": 1024,
		"7B": 7, "1 KiB": 1024, "8388607TiB": 8388607 << 40, "unlimited": -1,
		"": 0, "0": 0, "-1": 0, "1.5G": 0, "G": 0, "8388608TiB": 0, "9223372036854775808": 0, "1XB": 0, "0x10": 0, "1e3": 0,
	} {
		got, err := parseBytes(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "5m": 5 * time.Minute, "200ms": 200 * time.Millisecond,
		"60": time.Minute, "0.5": 500 * time.Millisecond, "unlimited": -1,
		"": 0, "0": 0, "0s": 0, "-5s": 0, "-1": 0, "soon": 0, "1e300": 0, "NaN": 0, "Inf": 0, "1d": 0,
	} {
		got, err := parseDuration(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("parseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "256": 256, "unlimited": -1, "0": 0, "-3": 0, "ten": 0, "1e3": 0} {
		got, err := parseCount(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("parseCount(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestSizeText(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 5 << 40: "5 TiB",
	} {
		if got := sizeText(bytes); got != want {
			t.Errorf("sizeText(%d) = %q, want %q", bytes, got, want)
		}
	}
}
