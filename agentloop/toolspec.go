package agentloop

import "sandboxd/policy"

// Described tools can be offered to a model.
type Described interface {
	Tool
	Schema() ToolSchema
}

// Ruled tools raise an allowed call to a question: their own permission rules
// (requirement 14). The method must be a function of the arguments alone.
type Ruled interface {
	Tool
	Rule(args policy.Args) (v policy.Verdict, text string)
}

// Checked tools say what is wrong with arguments that nobody can understand, before
// anybody decides or is asked about them: a mistake of the caller is no matter of
// permission (requirement 148). The method must be a function of the arguments alone.
type Checked interface {
	Tool
	Check(args policy.Args) error
}

// checkArgs is the Check of a tool that has one.
func checkArgs(t Tool, args policy.Args) error {
	if c, ok := t.(Checked); ok {
		return c.Check(args)
	}
	return nil
}

// Summarised tools say in a short form what a call would do, for the classifier.
// Others are shown as the JSON of their arguments.
type Summarised interface {
	Tool
	Summary(args policy.Args) string
}

// Declared tools tell the decision about their arguments. The built-in names are
// known to it already ([policy.Tool]).
type Declared interface {
	Tool
	Policy() policy.Tool
}
