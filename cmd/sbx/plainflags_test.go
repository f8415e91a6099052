package main

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"sandboxd/test/require"
)

// libraryReads is the judge: what the flag library makes of the same words.
func libraryReads(t *testing.T, args []string) (runOptions, error) {
	t.Helper()
	var o runOptions
	var parse error
	p := &program{stdout: io.Discard, stderr: io.Discard}
	c := runCommand(p)
	c.Name = "run"
	c.Action = func(c *cli.Context) error {
		o, parse = parseRun(c, c.Args().Slice(), "/here")
		return nil
	}
	prepare(c)
	app := p.app(nil)
	app.Commands = []*cli.Command{c}
	if err := app.Run(append([]string{"sbx", "run"}, args...)); err != nil {
		return o, err
	}
	return o, parse
}

func TestPlainFlagsReadAsTheLibraryDoes(t *testing.T) {
	for _, tt := range []struct {
		line  string
		plain bool
	}{
		{"", true},
		{"--", true},
		{"true", true},
		{"-- true", true},
		{"-- -- true", true},
		{"true --quiet -- x", true},
		{"- true", true},
		{"help", true},
		{"-- help me", true},
		{"--quiet -v -- true", true},
		{"-q -q true", true},
		{"-quiet true", true},
		{"--ro a --ro=b --rw c -ro d -- true", true},
		{"--timeout 5s --timeout=7s -- true", true},
		{"--timeout= -- true", true},
		{"--env A=b=c --env=D --env=E=f, -- true", true},
		{"--net none --unix /s --deny - -- true", true},
		{"--workspace -- -- true", true},
		{"--user 1000:1000 --tier base --json --dry-run --best-effort --no-exec-write true", true},
		{"--memory 1GiB --pids 5 --cpu 3 --file-size 1 --output-limit 4KiB --syscalls debug --profile p --policy f true", true},
		{"--publish 80 -- true", true},
		{"--detach -- true", true},
		{"--mode=x -- true", true},
		{"-q --quiet true", false},
		{"--quiet=false true", false},
		{"--quiet=true true", false},
		{"--timeout", false},
		{"--help", false},
		{"-h -- true", false},
		{"--nothing -- true", false},
		{"---quiet true", false},
		{"-qv true", false},
		{"--=x true", false},
	} {
		args := strings.Fields(tt.line)
		want, wantErr := libraryReads(t, args)
		values, argv, ok := parsePlain(runFlags(), args)
		if ok != tt.plain {
			t.Errorf("%q: taken as plain: %v", tt.line, ok)
		}
		if !ok {
			continue
		}
		got, err := parseRun(values, argv, "/here")
		if len(got.argv) == 0 {
			got.argv, want.argv = nil, nil
		}
		if !reflect.DeepEqual(got, want) || text(err) != text(wantErr) {
			t.Errorf("%q:\nplain   %+v, %v\nlibrary %+v, %v", tt.line, got, err, want, wantErr)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Words made of what flags consist of: taken as plain or not, both readers agree.
func FuzzPlainFlags(f *testing.F) {
	f.Add("--ro a -q -- true")
	f.Add("-q --quiet -ro=x --env= x")
	f.Add("--timeout=1s --json=1 --")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		for _, a := range args {
			if strings.ContainsAny(a, "\x00") {
				require.NotHere(t, "no argument holds a NUL byte")
			}
		}
		values, argv, ok := parsePlain(runFlags(), args)
		if !ok {
			return
		}
		got, err := parseRun(values, argv, "/here")
		want, wantErr := libraryReads(t, args)
		if len(got.argv) == 0 {
			got.argv, want.argv = nil, nil
		}
		if !reflect.DeepEqual(got, want) || text(err) != text(wantErr) {
			t.Errorf("%q:\nplain   %+v, %v\nlibrary %+v, %v", line, got, err, want, wantErr)
		}
	})
}
