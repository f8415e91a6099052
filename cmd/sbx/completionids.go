package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/cmd/sandboxd/api"
)

// idsWait is how long a shell waits for the ids of a daemon while a word is completed.
const idsWait = 500 * time.Millisecond

// idPlaces say where an id stands: at a flag, or as the operand of a command and the one
// below it. kinds are those of [program.ids], with a comma between.
type idPlace struct{ command, below, flag, kinds string }

func idPlaces() []idPlace {
	list := []idPlace{
		{"approve", "", "", "questions"}, {"deny", "", "", "questions"},
		{"agent", "", "--resume", "conversations"}, {"agent", "", "--fork", "conversations"},
		{"exec", "", "--session", "sessions"}, {"audit", "", "--session", "sessions"},
		{"sessions", "show", "", "sessions,conversations"},
	}
	for _, below := range []string{"logs", "attach", "kill", "rm"} {
		list = append(list, idPlace{"jobs", below, "", "jobs"})
	}
	for _, below := range []string{"rules", "allow", "ask", "deny", "mode", "cancel", "close", "events"} {
		list = append(list, idPlace{"sessions", below, "", "sessions"})
	}
	for _, below := range []string{"fork", "export", "rm"} {
		list = append(list, idPlace{"sessions", below, "", "conversations"})
	}
	return list
}

// shellWords are the words that a shell matches against the command, the one below it
// and the word before: "jobs kill *", "agent * --resume".
func (i idPlace) shellWords() (command, below, before string) {
	command, below, before = i.command, i.below, i.flag
	if below == "" {
		below = "*"
	}
	if before == "" {
		before = "*"
	}
	return command, below, before
}

// completeIDs prints ids, one a line, for a completion script. It starts no daemon, asks
// only for lists, and says nothing where there is none.
func (p *program) completeIDs(c *cli.Context, kinds string) error {
	ctx, cancel := context.WithTimeout(c.Context, idsWait)
	defer cancel()
	cl := p.client(c)
	defer cl.Close()
	var all []string
	for kind := range strings.SplitSeq(kinds, ",") {
		ids, ok := p.ids(ctx, cl, kind)
		if !ok {
			return misuse("name some of questions, jobs, sessions and conversations", "no ids of %q", kind)
		}
		all = append(all, ids...)
	}
	// Words for a shell: an id that is not plain is none of ours.
	all = slices.DeleteFunc(all, func(id string) bool {
		_, err := plainID(id, "thing")
		return err != nil
	})
	if len(all) == 0 {
		return nil
	}
	return p.writeOut("%s\n", strings.Join(all, "\n"))
}

// ids are those of one kind that the daemon lists; none without a daemon.
func (p *program) ids(ctx context.Context, cl *api.Client, kind string) (ids []string, ok bool) {
	switch kind {
	case "questions":
		var l api.QuestionList
		_ = cl.Get(ctx, "/api/approvals", &l)
		for _, q := range l.Questions {
			ids = append(ids, q.ID)
		}
	case "jobs":
		var l api.JobList
		_ = cl.Get(ctx, "/api/jobs", &l)
		for _, j := range l.Jobs {
			ids = append(ids, j.ID)
		}
	case "sessions":
		var l api.SessionList
		_ = cl.Get(ctx, "/api/chat/sessions", &l)
		for _, s := range l.Sessions {
			ids = append(ids, s.ID)
		}
	case "conversations":
		l, _ := cl.Conversations(ctx, "", 50)
		for _, h := range l {
			ids = append(ids, h.ID)
		}
	default:
		return nil, false
	}
	return ids, true
}

// bashIDs are cases of the words so far; cur is the word that is completed.
func bashIDs(b *strings.Builder) {
	b.WriteString("\tif [[ $cur != -* ]]; then\n\t\tcase \"${COMP_WORDS[1]} ${COMP_WORDS[2]} ${COMP_WORDS[COMP_CWORD - 1]}\" in\n")
	for _, i := range idPlaces() {
		command, below, before := i.shellWords()
		fmt.Fprintf(b, "\t\t%s\\ %s\\ %s) COMPREPLY=($(compgen -W \"$(sbx completion ids %s 2>/dev/null)\" -- \"$cur\")); return ;;\n", command, below, before, i.kinds)
	}
	b.WriteString("\t\tesac\n\tfi\n")
}

func zshIDs(b *strings.Builder) {
	b.WriteString("\tif [[ $PREFIX != -* ]]; then\n\t\tcase \"$words[2] $words[3] $words[CURRENT-1]\" in\n")
	for _, i := range idPlaces() {
		command, below, before := i.shellWords()
		fmt.Fprintf(b, "\t\t%s\\ %s\\ %s) compadd -- ${(f)\"$(sbx completion ids %s 2>/dev/null)\"}; return ;;\n", command, below, before, i.kinds)
	}
	b.WriteString("\t\tesac\n\tfi\n")
}

// fishIDs is the completion of the operands of one command.
func fishIDs(b *strings.Builder, command, below, when string) {
	for _, i := range idPlaces() {
		if i.command == command && i.below == below && i.flag == "" {
			fmt.Fprintf(b, "complete -c sbx -n '%s' -f -a '(sbx completion ids %s 2>/dev/null)'\n", when, i.kinds)
		}
	}
}

// fishIDValues are the values of a flag that takes an id; empty if it takes none.
func fishIDValues(command, flag string) string {
	for _, i := range idPlaces() {
		if i.command == command && i.flag == flag {
			return fmt.Sprintf(" -x -a '(sbx completion ids %s 2>/dev/null)'", i.kinds)
		}
	}
	return ""
}
