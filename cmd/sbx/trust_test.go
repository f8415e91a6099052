package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sandboxd/policy/settings"
)

// swapper replaces a file at the first write to it: between showing and trusting.
type swapper struct {
	bytes.Buffer
	t          *testing.T
	file, text string
	done       bool
}

func (s *swapper) Write(p []byte) (int, error) {
	if !s.done && strings.Contains(string(p), "trust") {
		s.done = true
		if err := os.WriteFile(s.file, []byte(s.text), 0o644); err != nil {
			s.t.Error(err)
		}
	}
	return s.Buffer.Write(p)
}

const (
	shownPolicy   = "[rules]\nallow = [\"run_bash(make *)\"]\n"
	swappedPolicy = "[rules]\nallow = [\"run_bash(evil *)\"]\n"
)

// sbxIn runs sbx in a directory of its own home and returns its exit status.
func sbxIn(t *testing.T, dir string, errs *swapper, args ...string) (int, string) {
	t.Helper()
	t.Chdir(dir)
	var out bytes.Buffer
	home := filepath.Join(filepath.Dir(dir), "home")
	code := run(t.Context(), args, []string{"HOME=" + home}, nil, &out, errs)
	return code, out.String()
}

// What was shown is trusted, also when the file is replaced while people read.
func TestTrustCoversWhatWasShown(t *testing.T) {
	for _, names := range [][]string{nil, {settings.ProjectFile}} {
		work := filepath.Join(t.TempDir(), "work")
		if err := os.MkdirAll(work, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(work, settings.ProjectFile)
		if err := os.WriteFile(file, []byte(shownPolicy), 0o644); err != nil {
			t.Fatal(err)
		}
		errs := &swapper{t: t, file: file, text: swappedPolicy}
		if code, _ := sbxIn(t, work, errs, append([]string{"trust", "--yes"}, names...)...); code != 0 || !errs.done {
			t.Fatalf("trust %v: exit status %d, swapped %v: %s", names, code, errs.done, errs.String())
		}
		if code, out := sbxIn(t, work, &swapper{done: true}, "check", "evil x"); code != checkAsk {
			t.Errorf("trust %v: content that nobody saw is trusted: exit status %d, %s", names, code, out)
		}
		if err := os.WriteFile(file, []byte(shownPolicy), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, out := sbxIn(t, work, &swapper{done: true}, "check", "make x"); code != 0 {
			t.Errorf("trust %v: the content that was shown is not trusted: exit status %d, %s", names, code, out)
		}
	}
}
