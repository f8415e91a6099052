// Package bash reads a Bash script and lists what it would do: every simple
// command that could run, the files it would touch, and what cannot be known.
// It runs nothing and opens nothing.
//
//	a := bash.Analyze(`cd src && timeout 5 rm -rf "$x"`, bash.Options{Cwd: "/w"})
//	for _, c := range a.Commands {
//		fmt.Println(c.Words(), c.Via) // [cd src] [], [timeout 5 rm -rf …] [], [rm -rf …] [timeout]
//	}
//
// The reading is an abstract execution: variables, the working directory,
// functions, aliases, standard input and the files that the script itself
// writes are followed through branches and loops. Where several outcomes are
// possible each is listed; where one cannot be computed a typed [Unknown] says
// so. Code is never skipped because it looks dead, so adding a command never
// makes the result looser.
//
// # Limits
//
// The result is advice for a decision, not a boundary: what a program that was
// there before does (a build tool, a script, an interpreter's file) is opaque,
// and the environment the script starts with is not known. Programs in languages
// other than Bash, awk, sed and ed are not read. The tables hold the options of
// the programs that are named in them; a launcher nobody wrote down is an unknown
// program. The kernel's confinement holds what this package cannot see.
package bash
