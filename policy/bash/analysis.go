package bash

import "strings"

// Hole stands in [Word.Text] for text that cannot be known: any string, also an
// empty one. A script that contains this character is refused as
// [SuspectCharacter], so it cannot be forged.
const Hole = "\uE000"

// Options is what Analyze may assume about the place where the script runs. The
// zero value assumes nothing.
type Options struct {
	// Cwd is the absolute start directory. Empty means unknown: paths stay
	// relative.
	Cwd string
	// Home is the value of HOME. Empty means unknown.
	Home string
	// Vars are further variables whose start value is known.
	Vars map[string]string
	// Readlink returns the target of a symbolic link that exists before the
	// script runs. Nil means that no link is followed but those the script
	// itself makes.
	Readlink func(path string) (target string, ok bool)
	// Exists says whether a path exists before the script runs. Nil means
	// unknown. It is asked for the signs of a bare git repository and for the
	// top of a checkout.
	Exists func(path string) bool
	// Mentions asks for Analysis.Mentions, which cost time.
	Mentions bool
}

// Analysis is everything found in one script. The zero value is the analysis of
// the empty script.
type Analysis struct {
	// Commands lists every simple command that could run, in the order of the
	// text. A launcher is listed, and so is what it starts.
	Commands []Command
	Effects  []Effect
	Unknown  []Unknown
	Dangers  []Danger
	// Mentions are listed with Options.Mentions.
	Mentions []Mention
	// Assigns are plain assignments that the shell made, as NAME=VALUE, of names
	// that rule other programs ([RulesPrograms]). They reach a program when the
	// variable was in the environment before.
	Assigns []Word
}

// Readable reports whether the commands listed are all that the shell itself
// would run: nothing in Unknown is [Unknown.Unreadable].
func (a *Analysis) Readable() bool {
	for i := range a.Unknown {
		if a.Unknown[i].Unreadable() {
			return false
		}
	}
	return true
}

// Position is a place in the outermost script. Lines and columns count from 1,
// columns in bytes. Commands in text that was computed have the position of the
// command that runs this text.
type Position struct{ Offset, Line, Column int }

// Word is one argument after quotes and expansions were resolved.
type Word struct {
	// Text is the resolved text with [Hole] for each unknown part.
	Text string
	// Many is true for an unquoted unknown, which may be any number of words,
	// also none. Patterns (*.go) are such words; Text is then the pattern.
	Many bool
	// Glob is true when Text is a pattern that the shell matches with file
	// names.
	Glob bool
}

// Known reports whether the word is exactly one argument with the text Text.
func (w Word) Known() bool { return !w.Many && !w.Glob && !hasHole(w.Text) }

// CommandKind says what a command word names.
type CommandKind uint8

const (
	// Program is a file found by PATH or named by a path. The zero value.
	Program CommandKind = iota
	// Builtin is part of the shell.
	Builtin
	// Function is a function that the script defines; the commands of its body
	// are listed too.
	Function
	// ScriptFile is a file that was there before and is run by a shell or an
	// interpreter (bash x.sh, python3 app.py, source env.sh). Argv[0] is the
	// file.
	ScriptFile
)

// Command is one simple command.
type Command struct {
	Kind CommandKind
	// Argv is the resolved command line; Argv[0] is the command word.
	Argv []Word
	// Plain is Argv without the global options of programs that have
	// sub-commands: "git -C r push" is [git push]. It equals Argv otherwise.
	Plain []Word
	// Assigns are variables set for this command alone, as NAME=VALUE.
	Assigns []Word
	// Via names the launchers around this command, outermost first.
	Via []string
	// Dir is the working directory, "" when unknown.
	Dir string
	Pos Position
	// InTable is true when the program is in the tables of this package, that
	// is, its arguments are understood. An unknown program may run any of its
	// arguments.
	InTable bool
	// ReadOnly is true when the command with these arguments only reads: the
	// files in Effects, and what any program may see. Redirects and
	// substitutions are not part of it.
	ReadOnly bool
	// Opaque is true when the command runs code that was there before the
	// script (make test, npm run x, a script file).
	Opaque bool
}

// Name is the base name of the command word, "" when it is unknown. It may be
// known where the directory is not (~nobody/bin/ls, "$dir"/ls).
func (c *Command) Name() string {
	if len(c.Argv) == 0 || c.Argv[0].Many {
		return ""
	}
	name := baseName(c.Argv[0].Text)
	if hasHole(name) || c.Argv[0].Glob && strings.ContainsAny(name, "*?[(\\") {
		return ""
	}
	return name
}

// Words returns the texts of Argv.
func (c *Command) Words() []string {
	out := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		out[i] = w.Text
	}
	return out
}

// EffectKind is what is done to the target of an [Effect].
type EffectKind uint8

const (
	// Read opens a file for reading or lists a directory.
	Read EffectKind = iota
	// Write makes a file or directory, or changes content, mode or owner.
	Write
	// Delete removes a file or directory; also the source of a move.
	Delete
	// Network contacts a host.
	Network
	// Exec starts a program by the script's own writing (a file it made).
	Exec
)

func (k EffectKind) String() string {
	switch k {
	case Read:
		return "read"
	case Write:
		return "write"
	case Delete:
		return "delete"
	case Network:
		return "network"
	case Exec:
		return "exec"
	}
	return "unknown"
}

// EffectSource says how an effect is written in the script.
type EffectSource uint8

const (
	// Operand is an argument of a program. The zero value.
	Operand EffectSource = iota
	// Redirect is a redirection of the shell.
	Redirect
	// Option is the value of an option (sort -o FILE).
	Option
	// Code is a statement in an awk, sed or editor program.
	Code
)

// Effect is one thing done to a file or host.
type Effect struct {
	Kind EffectKind
	// Path is the target: absolute when it or the working directory is known
	// to be, else relative to an unknown directory. It is not cleaned: "a/../b"
	// means what the kernel makes of it. Links made by the script itself are
	// followed. It may hold [Hole] and, with Glob, a pattern. For Network it is
	// the host, or [Hole].
	Path string
	Glob bool
	// Hidden is true when a star in Path also matches a leading dot.
	Hidden bool
	// Tree is true when everything beneath Path is meant (rm -r, cp -r).
	Tree bool
	// NoFollow is true when a link at Path itself is not followed (rm, mv).
	NoFollow bool
	// Into is true when Path may be a directory, in which the effect happens
	// below the same name as the source (cp a DIR).
	Into bool
	// Some is true when only some of the tree at Path is meant, by names that are
	// known at run time only: those in an archive or a patch, those that git
	// brings back. Only, if not empty, is a pattern that their last component
	// matches (find -name), or behind "!" one that it does not match.
	Some bool
	Only string
	// Names is true when a tree is only listed, and the content of its files is
	// not read (find, ls -R).
	Names bool
	// Tracked is true when only files that git tracks are meant.
	Tracked bool
	// Replaces is true when what Path held before is lost, should it exist.
	Replaces bool
	Source   EffectSource
	// Command is an index into Analysis.Commands, -1 for a redirect without a
	// command.
	Command int
	Pos     Position
}

// Known reports whether the target is literally known.
func (e Effect) Known() bool { return !e.Glob && !hasHole(e.Path) }

// UnknownKind says why something cannot be known.
type UnknownKind uint8

const (
	// UnreadableParse: the text is no Bash that we can read. Commands before
	// the fault are listed, since Bash runs the lines before it.
	UnreadableParse UnknownKind = iota
	// SuspectCharacter: CR, NUL, a control character or a blank look-alike,
	// which another shell or a person reads otherwise.
	SuspectCharacter
	// ForeignShell: code of a shell that is not Bash (zsh, fish, csh).
	ForeignShell
	// Bound: a limit of size, depth or work was reached.
	Bound
	// ComputedWord: the command word is known at run time only.
	ComputedWord
	// BareShell: a shell without a script, and nothing known on its standard
	// input.
	BareShell
	// ShellInput: a shell takes its commands from standard input, which is known
	// at run time only (curl URL | sh, source /dev/stdin).
	ShellInput
	// ComputedCode: shell code (eval, sh -c, standard input of a shell) is
	// known at run time only.
	ComputedCode
	// UnknownCode: the script carries a program in another language.
	UnknownCode
	// UnknownOption: an argument that is known at run time only could be an
	// option by which its program starts another, or one we do not know.
	UnknownOption
	// UnknownTarget: a file is written, deleted or run whose name is known at
	// run time only.
	UnknownTarget
)

func (k UnknownKind) String() string {
	switch k {
	case UnreadableParse:
		return "unreadable"
	case SuspectCharacter:
		return "suspect character"
	case ForeignShell:
		return "foreign shell"
	case Bound:
		return "too complex"
	case ComputedWord:
		return "computed command"
	case BareShell:
		return "bare shell"
	case ShellInput:
		return "shell on standard input"
	case ComputedCode:
		return "computed code"
	case UnknownCode:
		return "unknown code"
	case UnknownOption:
		return "unknown option"
	case UnknownTarget:
		return "unknown target"
	}
	return "unknown"
}

// Unknown is one thing that cannot be known.
type Unknown struct {
	Kind UnknownKind
	// Text is what it is about, for people; at most 120 bytes.
	Text string
	// Command is an index into Analysis.Commands, -1 when there is none.
	Command int
	Pos     Position
}

// Unreadable reports whether a command could hide here that the shell itself
// runs. UnknownCode, UnknownOption and UnknownTarget are not of this kind: the
// command that they belong to is known.
func (u Unknown) Unreadable() bool { return u.Kind <= ComputedCode }

// DangerKind names a finding that is dangerous by itself.
type DangerKind uint8

const (
	// ForkBomb: a function starts itself in a pipeline or in the background.
	ForkBomb DangerKind = iota
	// PrivilegeChange: sudo, su, doas, pkexec, set-user-id and the like.
	PrivilegeChange
	// LoosenedSandbox: sbx or sandboxd with a flag that widens confinement, or
	// a command that changes its policy.
	LoosenedSandbox
	// BareRepository: git runs in a directory that was entered in the script
	// and looks like a bare repository, whose configuration starts programs.
	BareRepository
	// SecretRead: the whole environment is printed.
	SecretRead
	// LoaderVariable: LD_PRELOAD and other variables that put code into
	// programs.
	LoaderVariable
)

func (k DangerKind) String() string {
	switch k {
	case ForkBomb:
		return "fork bomb"
	case PrivilegeChange:
		return "change of privilege"
	case LoosenedSandbox:
		return "loosened sandbox"
	case BareRepository:
		return "bare repository"
	case SecretRead:
		return "secrets in the environment"
	case LoaderVariable:
		return "loader variable"
	}
	return "danger"
}

// Danger is one dangerous finding.
type Danger struct {
	Kind    DangerKind
	Text    string
	Command int
	Pos     Position
}

// baseName is the part after the last slash.
func baseName(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[i+1:]
	}
	return path
}
