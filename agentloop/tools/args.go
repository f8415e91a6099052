package tools

import (
	"fmt"
	"math"
	"strings"

	"sandboxd/policy"
)

// text returns the text of the one of fields that is given, or "" for none. More
// than one is refused: the decision looked at all, and a call can only do one.
func text(args policy.Args, fields ...string) (s string, given bool, err error) {
	name := ""
	for _, f := range fields {
		v, ok := args[f]
		if !ok || v == nil {
			continue
		}
		t, isText := v.(string)
		switch {
		case !isText:
			return "", false, fmt.Errorf("argument %s: want a text", f)
		case name != "":
			return "", false, fmt.Errorf("arguments %s and %s exclude each other", name, f)
		}
		s, name = t, f
	}
	return s, name != "", nil
}

// need is text for an argument that must be given.
func need(args policy.Args, fields ...string) (string, error) {
	s, given, err := text(args, fields...)
	if err == nil && !given {
		err = fmt.Errorf("argument %s is missing", fields[0])
	}
	return s, err
}

// pathOf is need for a path.
func pathOf(args policy.Args, fields ...string) (string, error) {
	p, err := need(args, fields...)
	if err == nil && (p == "" || strings.ContainsRune(p, 0)) {
		err = fmt.Errorf("argument %s: %q is not a path", fields[0], p)
	}
	return p, err
}

// dirOf is the directory of a search, or "" where none is given.
func dirOf(args policy.Args) (string, error) {
	dir, _, err := text(args, dirFields...)
	if err == nil && strings.ContainsRune(dir, 0) {
		err = fmt.Errorf("argument %s: %q is not a path", dirFields[0], dir)
	}
	return dir, err
}

// number returns a whole number from 0 to most, or usual where none is given.
func number(args policy.Args, field string, usual, most int) (int, error) {
	v, ok := args[field]
	if !ok || v == nil {
		return usual, nil
	}
	n, ok := v.(float64)
	if !ok || n < 0 || n != math.Trunc(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("argument %s: want a whole number from 0", field)
	}
	return int(min(n, float64(most))), nil
}

// flag returns a truth value, false where none is given.
func flag(args policy.Args, fields ...string) (bool, error) {
	for _, f := range fields {
		v, ok := args[f]
		if !ok || v == nil {
			continue
		}
		b, ok := v.(bool)
		if !ok {
			return false, fmt.Errorf("argument %s: want true or false", f)
		}
		return b, nil
	}
	return false, nil
}
