package main

import (
	"fmt"
	"strings"
)

const variablePrefix = "SANDBOXD_"

// variableFlags are the flags of sbx run, and of each command that takes them, that a
// variable of the caller can stand for: SANDBOXD_FILE_SIZE for --file-size. Flags that name paths, sockets or
// variables are not among them: what a single run is granted stands in its
// command line or in a policy.
var variableFlags = []struct {
	flag    string
	boolean bool
}{
	{"timeout", false}, {"memory", false}, {"pids", false}, {"cpu", false}, {"file-size", false}, {"output-limit", false},
	{"syscalls", false}, {"user", false}, {"tier", false}, {"net", false},
	{"no-exec-write", true}, {"best-effort", true}, {"quiet", true}, {"verbose", true},
}

// variableOf is the name of the variable that stands for a flag.
func variableOf(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readRun is parseRun with the variables of the caller. narrow hides the flags that a
// command does not have, and their variables; nil hides none.
func (p *program) readRun(flags flagValues, narrow func(flagValues) flagValues, argv []string, cwd string) (runOptions, error) {
	flags, err := withVariables(flags, p.environ)
	if err != nil {
		return runOptions{}, err
	}
	v, varied := flags.(variables)
	if narrow != nil {
		flags = narrow(flags)
	}
	o, err := parseRun(flags, argv, cwd)
	if varied && err != nil {
		err = v.blame(err)
	}
	return o, err
}

// withVariables answers from flags, and from variables for what was not given
// there. An empty variable counts as none. Names that stand for no flag are left to
// others: SANDBOXD_MODE belongs to the settings.
func withVariables(flags flagValues, environ []string) (flagValues, error) {
	var set plainFlags
	for _, entry := range environ {
		if !strings.HasPrefix(entry, variablePrefix) {
			continue
		}
		name, value, _ := strings.Cut(entry, "=")
		for _, v := range variableFlags {
			if value == "" || name != variableOf(v.flag) || flags.IsSet(v.flag) {
				continue
			}
			if v.boolean {
				on, err := truth(value)
				if err != nil {
					return nil, misuse("write 1 or 0", "%s: %v", name, err)
				}
				if !on {
					continue
				}
			}
			if set == nil {
				set = plainFlags{}
			}
			set[v.flag] = []string{value}
		}
	}
	if set == nil {
		return flags, nil
	}
	return variables{flags, set}, nil
}

func truth(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "1", "true", "yes":
		return true, nil
	case "0", "false", "no":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither 1 nor 0", value)
}

// variables are flag values of which some come from variables; no name is in both.
type variables struct {
	flagValues
	set plainFlags
}

func (v variables) IsSet(name string) bool { return v.set.IsSet(name) || v.flagValues.IsSet(name) }
func (v variables) Bool(name string) bool  { return v.set.Bool(name) || v.flagValues.Bool(name) }

func (v variables) String(name string) string {
	if v.set.IsSet(name) {
		return v.set.String(name)
	}
	return v.flagValues.String(name)
}

func (v variables) StringSlice(name string) []string {
	if v.set.IsSet(name) {
		return v.set.StringSlice(name)
	}
	return v.flagValues.StringSlice(name)
}

// blame names the variable in an error about a flag that the command line does
// not hold.
func (v variables) blame(err error) error {
	for flag := range v.set {
		if strings.Contains(err.Error()+" ", "--"+flag+" ") {
			return fmt.Errorf("%s stands for --%s: %w", variableOf(flag), flag, err)
		}
	}
	return err
}
