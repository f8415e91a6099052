package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/policy"
)

// maxBatchLine bounds one line of a batch: a script of 1 MiB, written in JSON
// escapes of six bytes each, and its name.
const maxBatchLine = 8 << 20

// checkBatch answers every line of a file with one line. A line is an object
// with command, or tool and args; id and cwd are optional, other fields are
// ignored. What cannot be read is denied.
func (p *program) checkBatch(c *cli.Context, cwd string) error {
	e, err := p.loadSettings(c)
	if err != nil {
		return err
	}
	eng, err := engine(e)
	if err != nil {
		return err
	}
	in := io.Reader(p.stdin)
	if name := c.String("batch"); name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return &failure{code: exitSandbox, stage: "batch", hint: "name a file with one JSON object a line", err: err}
		}
		defer f.Close()
		in = f
	}
	out := bufio.NewWriterSize(p.stdout, 64<<10)
	if err := answerLines(c.Context, eng, cwd, bufio.NewReaderSize(in, 64<<10), out); err != nil {
		return &failure{code: exitSandbox, stage: "batch", hint: "name a file with one JSON object a line; what was answered before stands on standard output", err: err}
	}
	if err := out.Flush(); err != nil {
		return &failure{code: exitSandbox, stage: "output", hint: "see that standard output can be written", err: err}
	}
	return nil
}

// answerLines copies lines to answers, one for one, in their order.
func answerLines(ctx context.Context, eng *policy.Engine, cwd string, in *bufio.Reader, out *bufio.Writer) error {
	var line []byte
	for {
		var err error
		line, err = readLine(in, line[:0])
		tooLong := errors.Is(err, errLongLine)
		if err != nil && !tooLong && err != io.EOF {
			return err
		}
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var answer []byte
		if tooLong {
			answer = batchError(json.RawMessage("null"), err)
		} else {
			answer = answerLine(ctx, eng, cwd, line)
		}
		if _, err := out.Write(append(escapeControls(answer), '\n')); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
	}
}

var errLongLine = fmt.Errorf("line longer than %d bytes", maxBatchLine)

// readLine reads up to and without the newline. A line that is too long is
// skipped to its end and gives errLongLine. io.EOF comes with the last line when
// it has no newline.
func readLine(in *bufio.Reader, line []byte) ([]byte, error) {
	tooLong := false
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxBatchLine {
			tooLong = true
		} else {
			line = append(line, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if tooLong && (err == nil || err == io.EOF) {
			return nil, errLongLine
		}
		return bytes.TrimSuffix(line, []byte("\n")), err
	}
}

// answerLine decides one line.
func answerLine(ctx context.Context, eng *policy.Engine, cwd string, line []byte) []byte {
	id, call, err := batchCall(line, cwd)
	if err != nil {
		return batchError(id, err)
	}
	decision, err := eng.Check(ctx, call).MarshalJSON()
	if err != nil {
		return batchError(id, err)
	}
	// The decision is an object of our own; the id goes in front.
	return joinBytes([]byte(`{"id":`), id, []byte(","), decision[1:])
}

func joinBytes(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func batchError(id json.RawMessage, problem error) []byte {
	text, err := json.Marshal(problem.Error())
	if err != nil {
		text = []byte(`"unreadable"`)
	}
	return joinBytes([]byte(`{"id":`), id, []byte(`,"verdict":"deny","error":`), text, []byte("}"))
}

// batchCall reads one line. The id is returned as written, null when there is
// none; also with an error, when it could be read.
func batchCall(line []byte, cwd string) (json.RawMessage, policy.Call, error) {
	id := json.RawMessage("null")
	fields, err := objectFields(line)
	if raw, ok := fields["id"]; ok {
		id = raw
	}
	if err != nil {
		return id, policy.Call{}, err
	}
	call := policy.Call{Cwd: cwd}
	text := func(name string, into *string) error {
		raw, ok := fields[name]
		if !ok || string(raw) == "null" {
			return nil
		}
		if raw[0] != '"' {
			return fmt.Errorf("%s is not a string", name)
		}
		return json.Unmarshal(raw, into)
	}
	var command string
	dir := ""
	for name, into := range map[string]*string{"command": &command, "tool": &call.Tool, "cwd": &dir} {
		if err := text(name, into); err != nil {
			return id, call, err
		}
	}
	if dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cwd, dir)
		}
		call.Cwd = filepath.Clean(dir)
	}
	if call.Tool != "" {
		args, err := policy.DecodeArgs(fields["args"])
		call.Args = args
		return id, call, err
	}
	if _, ok := fields["command"]; !ok {
		return id, call, errors.New("no command and no tool")
	}
	bash := policy.BashCall(command, call.Cwd)
	return id, bash, nil
}

// objectFields cuts a JSON object into its members. Names are compared as they
// are, unlike encoding/json does for structs, and one that stands twice is an
// error: two readers could see two different calls. The members read before an
// error are returned with it.
func objectFields(line []byte) (map[string]json.RawMessage, error) {
	line = bytes.TrimSpace(line)
	if !json.Valid(line) || line[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	fields := make(map[string]json.RawMessage, 8)
	var twice error
	for i := 1; ; {
		i = skipJSON(line, i, " \t\r\n,")
		if line[i] == '}' {
			return fields, twice
		}
		end := endOfJSON(line, i)
		name := string(line[i+1 : end-1])
		if strings.IndexByte(name, '\\') >= 0 {
			if err := json.Unmarshal(line[i:end], &name); err != nil {
				return fields, err
			}
		}
		i = skipJSON(line, end, " \t\r\n:")
		end = endOfJSON(line, i)
		if _, there := fields[name]; there {
			twice = fmt.Errorf("field %q stands twice", name)
		}
		fields[name] = line[i:end:end]
		i = end
	}
}

// skipJSON returns the offset of the first byte from i on that is not in set.
// The text is valid JSON, so there is one.
func skipJSON(text []byte, i int, set string) int {
	for strings.IndexByte(set, text[i]) >= 0 {
		i++
	}
	return i
}

// endOfJSON returns the offset after the value at i of valid JSON.
func endOfJSON(text []byte, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i // the end of what holds a number or word
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}
