package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// parseJSON reads a JSON document with line numbers. Comments and trailing
// commas are accepted, as the clients' own readers do. A key that is there twice
// is refused: the clients would use the last, and a person reads the first.
func parseJSON(file string, data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := checkDepth(file, data); err != nil {
		return nil, err
	}
	index := lineIndex(data)
	data = blankComments(data)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	j := jsonBuilder{file: file, lines: index, decoder: d}
	n, err := j.value()
	if err != nil {
		return nil, j.locate(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, j.locate(errors.New("text after the end of the document"))
	}
	return n, nil
}

type jsonBuilder struct {
	file    string
	lines   lines
	decoder *json.Decoder
}

func (j *jsonBuilder) locate(err error) error {
	if placed, ok := errors.AsType[*Error](err); ok {
		return placed
	}
	if err == io.EOF {
		err = errors.New("unexpected end of the document")
	}
	return &Error{File: j.file, Line: j.lines.at(int(j.decoder.InputOffset())), Text: err.Error()}
}

// line is that of the token just read.
func (j *jsonBuilder) line() int { return j.lines.at(int(j.decoder.InputOffset())) }

func (j *jsonBuilder) value() (*node, error) {
	t, err := j.decoder.Token()
	if err != nil {
		return nil, err
	}
	n := &node{line: j.line()}
	switch t := t.(type) {
	case string:
		n.kind, n.text = text, t
	case bool:
		n.kind, n.truth = boolean, t
	case nil:
		n.kind = null
	case json.Number:
		if i, err := t.Int64(); err == nil {
			n.kind, n.integer = integer, i
		} else {
			n.kind = float
			if n.float, err = t.Float64(); err != nil {
				return nil, err
			}
		}
	case json.Delim:
		if t == '[' {
			return j.array(n)
		}
		return j.table(n)
	}
	return n, nil
}

func (j *jsonBuilder) array(n *node) (*node, error) {
	n.kind = array
	for j.decoder.More() {
		item, err := j.value()
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err := j.decoder.Token()
	return n, err
}

func (j *jsonBuilder) table(n *node) (*node, error) {
	n.kind = table
	for j.decoder.More() {
		t, err := j.decoder.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("key %v is not a string", t)
		}
		line := j.line()
		value, err := j.value()
		if err != nil {
			return nil, err
		}
		if err := n.add(key, line, value); err != nil {
			return nil, err
		}
	}
	_, err := j.decoder.Token()
	return n, err
}

// blankComments replaces // and /* */ comments and commas before a closing
// bracket by blanks, so that offsets and lines stay.
func blankComments(data []byte) []byte {
	out := bytes.Clone(data)
	comma := -1 // offset of a comma after which only blanks came
	for i := 0; i < len(out); {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			i = endOfString(out, i)
			continue
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			i = blank(out, i)
			continue
		case c == ',':
			comma = i
		case (c == ']' || c == '}') && comma >= 0:
			out[comma] = ' '
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
		i++
	}
	return out
}

// endOfString returns the offset after the string that starts at i.
func endOfString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// blank wipes the comment at i and returns the offset after it. One that does
// not end is left for the decoder to refuse.
func blank(data []byte, i int) int {
	end := len(data)
	if data[i+1] == '/' {
		if n := bytes.IndexByte(data[i:], '\n'); n >= 0 {
			end = i + n
		}
	} else {
		n := bytes.Index(data[i+2:], []byte("*/"))
		if n < 0 {
			return i + 2
		}
		end = i + 2 + n + 2
	}
	for k := i; k < end; k++ {
		if data[k] != '\n' {
			data[k] = ' '
		}
	}
	return end
}
