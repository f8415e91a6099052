package test

import (
	"strings"
	"testing"
)

// What is piped in beside a prompt goes with it, framed as data; alone, or with "-", it
// is the prompt. A pipe that gives nothing holds nobody up, and one that gives too much
// is refused, not cut.
func TestPipeBesideAPromptIsData(t *testing.T) {
	d := startDaemon(t, users()[len(users())-1])
	framed := `steps: [{expect: '(?s)review this.*<data id="\w+" from="file standard input">\n\+a line', say: seen}]`
	bare := `steps: [{expect: '\A\s*\+a line\s*\z', say: seen}]`
	none := `steps: [{reject: 'standard input', say: seen}]`
	for name, tt := range map[string]struct {
		script, input, args string
		code                int
		stderr              string
	}{
		"beside a prompt": {script: framed, input: "echo '+a line' |", args: "'review this'"},
		"a file":          {script: framed, input: "echo '+a line' >in; <in", args: "'review this'"},
		"with -":          {script: bare, input: "echo '+a line' |", args: "-"},
		"alone":           {script: bare, input: "echo '+a line' |"},
		"empty":           {script: none, input: ": |", args: "'review this'"},
		"no input":        {script: none, input: "</dev/null", args: "'review this'"},
		"closed":          {script: none, input: "<&-", args: "'review this'"},
		"silent":          {script: none, input: "sleep 5 |", args: "'review this'", stderr: "gave nothing"},
		"too long":        {script: none, input: "head -c 65537 /dev/zero |", args: "'review this'", code: 125, stderr: "longer than 64 KiB"},
		"of /dev/zero":    {script: none, input: "cat /dev/zero |", args: "'review this'", code: 125, stderr: "longer than 64 KiB"},
	} {
		r := d.plain("bash", "-c", "export SANDBOXD_SOCKET="+d.socket+"; "+tt.input+" "+d.program("sbx")+" agent --script "+d.model(tt.script)+" "+tt.args)
		if r.Code != tt.code || tt.code == 0 && r.Stdout != "seen\n" || !strings.Contains(r.Stderr, tt.stderr) {
			t.Errorf("%s: exit %d, stdout %q\n%s", name, r.Code, r.Stdout, r.Stderr)
		}
	}
}
