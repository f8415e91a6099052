package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// flagValues is what a command line gave: that of the flag library, or plainFlags.
type flagValues interface {
	IsSet(name string) bool
	Bool(name string) bool
	String(name string) string
	StringSlice(name string) []string
}

// plainFlags are the values of flags by the flag's first name, in their order.
//
// The flag library looks each name up through regular expressions and all
// aliases, which is a tenth of a whole run of a short command. Most command lines
// need none of that: known flags, then the command. The rest goes to the library,
// which alone writes help and errors.
type plainFlags map[string][]string

func (f plainFlags) IsSet(name string) bool           { return len(f[name]) > 0 }
func (f plainFlags) Bool(name string) bool            { return f.IsSet(name) }
func (f plainFlags) StringSlice(name string) []string { return f[name] }

// String is the last value: a flag that is repeated replaces the one before.
func (f plainFlags) String(name string) string {
	if values := f[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// parsePlain reads args up to the command that begins rest. It reports false for
// whatever the flag library is to judge: an unknown flag or spelling, a missing
// value, a boolean with a value, two names of one flag.
func parsePlain(flags []cli.Flag, args []string) (values plainFlags, rest []string, ok bool) {
	values = plainFlags{}
	spelled := map[string]string{}
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		if arg == "--" {
			break
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		first, boolean, known := findFlag(flags, name)
		if !known || boolean && hasValue || spelled[first] != "" && spelled[first] != name {
			return nil, nil, false
		}
		spelled[first] = name
		if !boolean && !hasValue {
			if len(args) == 0 {
				return nil, nil, false
			}
			value, args = args[0], args[1:]
		}
		values[first] = append(values[first], value)
	}
	return values, args, true
}

// findFlag returns the first name of the flag that is also called name, and
// whether it takes no value.
func findFlag(flags []cli.Flag, name string) (first string, boolean, ok bool) {
	for _, flag := range flags {
		var aliases []string
		switch f := flag.(type) {
		case *cli.BoolFlag:
			first, aliases, boolean = f.Name, f.Aliases, true
		case *cli.StringFlag:
			first, aliases, boolean = f.Name, f.Aliases, false
		case *cli.StringSliceFlag:
			first, aliases, boolean = f.Name, f.Aliases, false
		default:
			continue
		}
		if first == name {
			return first, boolean, true
		}
		for _, alias := range aliases {
			if alias == name {
				return first, boolean, true
			}
		}
	}
	return "", false, false
}
