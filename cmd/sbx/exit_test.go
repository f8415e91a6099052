package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, 0},
		{"the command's own", exitStatus(3), 3},
		{"wrapped status", fmt.Errorf("run: %w", exitStatus(143)), 143},
		{"misuse", misuse("hint", "no"), 125},
		{"not found", &failure{code: exitNotFound, stage: "program", err: errors.New("x")}, 127},
		{"unknown errors never look like success", errors.New("x"), 125},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%s: exitCode(%v) = %d, want %d", tt.name, tt.err, got, tt.want)
		}
	}
}

func TestReportIsOneLineEach(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{exitStatus(2), ""},
		{misuse("do that", "a\nb\x1b[2J\u009bc"), "sbx: error: usage: a; b?[2J?c\nsbx: hint: do that\n"},
		{&failure{code: 125, stage: "landlock", err: errors.New("no")}, "sbx: error: landlock: no\n"},
		{errors.New("plain"), "sbx: error: plain\n"},
	} {
		var b strings.Builder
		report(&b, tt.err)
		if b.String() != tt.want {
			t.Errorf("report(%v) wrote %q, want %q", tt.err, b.String(), tt.want)
		}
	}
}

func TestNearestName(t *testing.T) {
	known := []string{"run", "doctor", "version", "timeout", "ro", "rw", "json"}
	for name, want := range map[string]string{
		"verson": "version", "docter": "doctor", "jsn": "json", "tiemout": "timeout",
		"npm": "", "x": "", "rx": "", "completely": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestCappedWriterDrains(t *testing.T) {
	var b strings.Builder
	w := &cappedWriter{to: &b, left: 5}
	for _, text := range []string{"abc", "defg", "", "hij"} {
		if n, err := io.WriteString(w, text); n != len(text) || err != nil {
			t.Fatalf("Write(%q) = %d, %v: the command would notice the cap", text, n, err)
		}
	}
	if b.String() != "abcde" || w.cut() != 5 {
		t.Errorf("passed %q and dropped %d, want %q and 5", b.String(), w.cut(), "abcde")
	}
}
