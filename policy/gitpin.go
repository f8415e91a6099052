package policy

import (
	"slices"
	"strconv"
	"strings"
)

// A git command that only reads still starts programs that the repository's own
// configuration names. What variables switch off is switched off
// ([Decision.Env]); where more than that would start, the command is not among
// those that only read.

// maxGitPlaces bounds the directories of one script whose repositories are read.
const maxGitPlaces = 500

// gitCommand reports a git command that the analyser takes for reading only.
func (v *commandView) gitCommand() bool { return v.base == "git" && v.cmd.ReadOnly }

// gitSub is the sub-command, "" when there is none. Of git remote only show
// reaches out, so that its name has two words.
func (v *commandView) gitSub() string {
	words := v.cmd.Plain
	switch {
	case len(words) < 2:
		return ""
	case words[1].Text == "remote" && len(words) > 2:
		for _, w := range words[2:] {
			if w.Text == "show" || !w.Known() {
				return "remote show"
			}
		}
	}
	return words[1].Text
}

// gitDir is where the command looks for its repository; "" when that is known
// at run time only.
func (v *commandView) gitDir() string {
	dir := v.cmd.Dir
	for i := 1; i+1 < len(v.argv); i++ {
		w := v.argv[i]
		if !strings.HasPrefix(w.Text, "-") {
			break
		}
		if w.Text != "-C" {
			continue // options with a value of their own are not for reading only
		}
		i++
		if to := v.argv[i]; !to.Known() || dir == "" {
			return ""
		} else if strings.HasPrefix(to.Text, "/") {
			dir = to.Text
		} else if to.Text != "" {
			dir += "/" + to.Text
		}
	}
	return dir
}

// gitHidden says what a git command that only reads would start all the same,
// "" when nothing.
func (r *run) gitHidden(v *commandView) string {
	if !v.gitCommand() {
		return ""
	}
	dir := v.gitDir()
	if dir == "" {
		return "git in a directory that is known at run time only"
	}
	real, err := resolveWith(dir, true)
	if err != nil {
		return "git in " + readable(dir) + ": " + err.Error()
	}
	key := real + "\x00" + v.gitSub()
	starts, ok := r.gitStarts[key]
	if !ok {
		if len(r.gitStarts) >= maxGitPlaces {
			return "git in more repositories than are looked at"
		}
		starts = gitStartsIn(real, v.gitSub())
		if r.gitStarts == nil {
			r.gitStarts = map[string]gitStarts{}
		}
		r.gitStarts[key] = starts
	}
	pins := r.e.cfg.AppliesEnv && !r.facts.losesPins()
	switch {
	case starts.unpinned != "":
		return "git starts what the repository names: " + starts.unpinned
	case starts.pinned != "" && !pins:
		return "git starts what the repository names: " + starts.pinned
	case starts.alone != "" && !(pins && r.facts.readsOnly()):
		return "git starts what the repository names: " + starts.alone
	}
	return ""
}

// readsOnly reports a script of nothing but commands that only read.
func (f *facts) readsOnly() bool {
	for i := range f.commands {
		v := &f.commands[i]
		if len(v.argv) > 0 && !v.cmd.ReadOnly && !f.transparent(i) {
			return false
		}
	}
	return true
}

// losesPins reports a script that could take a pinned variable away again.
func (f *facts) losesPins() bool {
	if namesGitVariable(f.script) {
		return true
	}
	for i := range f.commands {
		v := &f.commands[i]
		for _, w := range v.cmd.Assigns {
			if namesGitVariable(w.Text) {
				return true
			}
		}
		loses := false
		switch v.base {
		case "unset", "export", "declare", "typeset", "local", "readonly", "read", "mapfile", "readarray", "printf", "getopts", "let", "wait":
			loses = v.holes && v.base != "printf"
		case "env", "exec", "sudo", "su", "doas", "runuser", "setpriv":
			for _, w := range v.argv[1:] {
				loses = loses || strings.HasPrefix(w.Text, "-") || w.Many
			}
		}
		for _, w := range v.argv {
			loses = loses || namesGitVariable(w.Text)
		}
		if loses {
			return true
		}
	}
	return false
}

// namesGitVariable reports a text with the name of a variable of git's, or the
// beginning of one that is known at run time only.
func namesGitVariable(s string) bool {
	for {
		i := strings.Index(s, "GIT_")
		if i < 0 {
			return false
		}
		s = s[i:]
		n := 0
		for n < len(s) && (s[n] == '_' || s[n] >= 'A' && s[n] <= 'Z') {
			n++
		}
		if !harmlessVariables[s[:n]] {
			return true
		}
		s = s[n:]
	}
}

// gitPins are the settings that are fixed for git commands that only read. Git
// hands them on to the git commands that it starts in submodules.
func gitPins(alone bool) []string {
	settings := [][2]string{{"core.fsmonitor", "false"}}
	env := []string{
		"GIT_OPTIONAL_LOCKS=0", // the index is not written, so no hook is started
		"GIT_PAGER=cat",        // wins over core.pager and pager.*
	}
	if alone {
		settings = append(settings, [2]string{"core.hooksPath", "/dev/null"})
		env = append(env, "GIT_ALLOW_PROTOCOL=none") // no transport has that name
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+s[0], "GIT_CONFIG_VALUE_"+n+"="+s[1])
	}
	slices.Sort(env)
	return env
}

// pins returns the variables of a call: those for git commands that only read
// and that no rule allowed by name.
func (r *run) pins() []string {
	if r.verdict == Deny || r.facts == nil {
		return nil
	}
	for i := range r.parts {
		p := &r.parts[i]
		if p.kind != partCommand || i >= len(r.verdicts) || !r.facts.commands[p.index].gitCommand() {
			continue
		}
		if rule, ok := r.verdicts[i].reason.(RuleReason); ok && rule.Kind == AllowRule {
			continue
		}
		return gitPins(r.facts.readsOnly())
	}
	return nil
}
