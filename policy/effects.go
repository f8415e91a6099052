package policy

// Effects are what a call would do, as far as it is known beforehand.
type Effects struct {
	// Argv is the command of a script that is nothing but one command.
	Argv []string
	// Redirects are the files that redirections open.
	Redirects []string
	// Reads, Writes are paths, links resolved; writes include removals.
	Reads, Writes []string
	// Uses are the same as [Decision.Uses].
	Uses []PathUse
}

// Effects reads a call. It decides nothing.
func (e *Engine) Effects(c Call) Effects {
	return e.gather(c, e.state.Load().rules).effects()
}

func (f *facts) effects() Effects {
	var d Decision
	d.describe(f)
	out := Effects{Reads: d.Reads, Writes: d.Writes, Uses: d.Uses}
	for i := range f.accesses {
		if a := &f.accesses[i]; a.redirect {
			out.Redirects = appendNew(out.Redirects, orText(a.real, readable(a.raw)))
		}
	}
	if len(f.commands) == 1 {
		for _, w := range f.commands[0].argv {
			out.Argv = append(out.Argv, readable(w.Text))
		}
	}
	return out
}

func orText(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}
