package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/policy/settings"
)

// policyLint prints what is wrong in the policy files, one line each, and ends
// with status 1 when there is an error or a warning.
func (p *program) policyLint(c *cli.Context) error {
	if err := noOperands(c, "name a file by --policy FILE"); err != nil {
		return err
	}
	e, err := p.loadSettings(c)
	if err != nil {
		return err
	}
	findings := e.Lint(p.installed, time.Now())
	if c.Bool("json") {
		if findings == nil {
			findings = []settings.Finding{}
		}
		if err := p.writeJSON(map[string]any{"findings": findings}); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			text := fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Severity, f.Text)
			if f.Fix != "" {
				text += "; " + f.Fix
			}
			if err := p.writeOut("%s\n", oneLine(text)); err != nil {
				return err
			}
		}
	}
	for _, f := range findings {
		if f.Severity != "info" {
			return exitStatus(1)
		}
	}
	return nil
}

// installed reports whether a program is on the caller's PATH.
func (p *program) installed(name string) bool {
	for _, e := range p.environ {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return true
			}
		}
	}
	return false
}
