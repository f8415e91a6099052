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
