package policy

import (
	"fmt"
	"strings"
)

func (v effectVerb) String() string {
	switch v {
	case effectRead:
		return "read"
	case effectWrite:
		return "write"
	case effectDelete:
		return "delete"
	case effectNetwork:
		return "network"
	case effectExec:
		return "exec"
	case effectNone:
		return "none"
	}
	return "none"
}

// parseEffect reads the content of effect(VERB TARGET).
func parseEffect(content string, kind Kind, b base) (pattern, error) {
	word, target, ok := strings.Cut(strings.TrimSpace(content), " ")
	target = strings.TrimSpace(target)
	verb := effectVerbs[word]
	if verb == effectNone {
		return pattern{}, fmt.Errorf("unknown effect %q: want read, write, delete, network or exec", word)
	}
	if !ok || target == "" {
		return pattern{}, fmt.Errorf("effect %s needs a target", word)
	}
	p := pattern{form: formEffect, verb: verb, content: target}
	var err error
	switch verb {
	case effectNetwork:
		p.host, err = newHostPattern(target)
	case effectExec:
		if strings.ContainsAny(target, " \t\n") {
			return pattern{}, fmt.Errorf("effect exec takes one program; use run_bash(%s) for arguments", target)
		}
		p.text = newGlob(target)
	default:
		p.path, err = newPathPattern(target, kind, b)
	}
	return p, err
}
