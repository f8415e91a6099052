package bash

import "strings"

// Tool is a row of the tables, for tests that draw from them.
type Tool struct {
	Names    []string
	Flags    string // short options with and without value
	Long     []string
	Launches bool
	Writes   bool // of the table of writers
	Skip     int
}

// Tools lists all tables.
func Tools() []Tool {
	var out []Tool
	for n, t := range [][]program{launcherTable, writerTable, readerTable, networkTable, codeTable, buildTable, consoleTable} {
		for i := range t {
			p := &t[i]
			out = append(out, Tool{Names: strings.Fields(p.names), Flags: p.flags + p.vals + p.maybe + p.digits,
				Long: strings.Fields(p.long), Launches: p.ops == opsLaunch, Writes: n == 1, Skip: p.skip})
		}
	}
	return out
}
