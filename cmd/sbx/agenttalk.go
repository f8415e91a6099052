package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"sandboxd/cmd/sandboxd/api"
	"sandboxd/policy"
)

// talkHelp is what /help shows.
const talkHelp = `sbx: a line is a prompt; one that ends in \ goes on in the next.
sbx: /mode MODE     switch the mode: default, acceptEdits, plan, ...
sbx: /compact TEXT  summarise the conversation, keeping TEXT in focus
sbx: /rules         list the rules in force
sbx: /quit          end, as Ctrl-D does; Ctrl-C cancels a turn
`

// talk reads prompts at the terminal, and returns with the status of the last turn.
func (a *agentRun) talk(ctx context.Context) error {
	a.p.note("note", fmt.Sprintf("session %s in %s, mode %s; /help lists what else can be typed", a.session.ID, a.session.Workspace, a.session.Mode))
	reader := &lineReader{in: a.p.stdin, out: a.p.stderr}
	var last error
	for {
		prompt, err := reader.read(a.promptSign())
		switch {
		case ctx.Err() != nil:
			return last
		case errors.Is(err, io.EOF):
			if id := a.conversation(ctx); id != "" {
				a.p.note("note", conversationNote(id))
			}
			return last
		case err != nil:
			return &failure{code: exitSandbox, stage: "terminal", err: err}
		case strings.TrimSpace(prompt) == "":
			continue
		case isSlash(prompt):
			if err := a.slash(ctx, prompt); errors.Is(err, errUserEnds) {
				return last
			} else if _, ours := errors.AsType[*failure](err); ours {
				report(a.p.stderr, err)
			} else if err != nil {
				report(a.p.stderr, daemonFailure(err))
			}
			continue
		}
		last = a.turn(ctx, api.MessageRequest{Text: prompt})
		if _, status := errors.AsType[exitStatus](last); last != nil && !status {
			return last
		}
	}
}

// slash obeys a line that begins with a slash.
func (a *agentRun) slash(ctx context.Context, line string) error {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "/quit", "/exit":
		return errUserEnds
	case "/mode":
		return a.switchMode(ctx, rest)
	case "/rules":
		var rules api.RuleList
		if err := a.cl.Get(ctx, sessionPath(a.session.ID, "/permissions/rules"), &rules); err != nil {
			return err
		}
		if len(rules.Rules) == 0 {
			a.p.note("note", "no rules: the mode alone decides")
		}
		for _, r := range rules.Rules {
			fmt.Fprintf(a.p.stderr, "sbx: %s\n", ruleLine(r))
		}
		return nil
	case "/compact":
		_, err := a.cl.CompactSession(ctx, a.session.ID, rest)
		return err
	case "/help":
		fmt.Fprint(a.p.stderr, talkHelp)
		return nil
	default:
		return misuse("/help lists what there is", "no command %s", oneLine(word))
	}
}

// isSlash tells a command from a prompt that begins with a path.
func isSlash(line string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	name, slash := strings.CutPrefix(word, "/")
	return slash && !strings.Contains(name, "/")
}

// switchMode goes to a mode, or to the next one.
func (a *agentRun) switchMode(ctx context.Context, mode string) (err error) {
	if mode == "" {
		mode, err = cycleMode(ctx, a.cl, a.session.ID)
	} else if _, err = policy.ParseMode(mode); err != nil {
		return misuse("default, acceptEdits, plan, dontAsk, auto, bypassPermissions", "no mode %q", mode)
	} else {
		err = a.cl.Put(ctx, sessionPath(a.session.ID, "/permissions/mode"), api.ModeRequest{Mode: mode}, nil)
	}
	if err == nil {
		a.session.Mode = mode
		a.p.note("note", "mode "+mode)
	}
	return err
}

// promptSign shows a mode that is not the usual one.
func (a *agentRun) promptSign() string {
	if a.session.Mode == "" || a.session.Mode == policy.ModeDefault.String() {
		return "> "
	}
	return oneLine(a.session.Mode) + "> "
}

// conversation is the id of what was said here, or empty.
func (a *agentRun) conversation(ctx context.Context) string {
	var s api.Session
	if a.cl.Get(ctx, sessionPath(a.session.ID, ""), &s) != nil || s.Agent == nil {
		return ""
	}
	return s.Agent.Conversation
}

// lineReader reads lines at a terminal with editing and a history, which is kept for
// this command alone: prompts may hold secrets.
type lineReader struct {
	in   *os.File
	out  io.Writer
	term *term.Terminal
}

// read returns a line, or io.EOF at Ctrl-D and Ctrl-C. The terminal is in its usual
// mode again then, so that Ctrl-C is a signal while a turn runs.
func (r *lineReader) read(prompt string) (string, error) {
	var text string
	for {
		line, err := r.line(prompt)
		if err != nil {
			return "", err
		}
		part, more := strings.CutSuffix(line, `\`)
		text += part
		if !more {
			return text, nil
		}
		text += "\n"
		prompt = ". "
	}
}

func (r *lineReader) line(prompt string) (string, error) {
	fd := int(r.in.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(fd, state) }()
	if r.term == nil {
		r.term = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{r.in, r.out}, prompt)
	}
	r.term.SetPrompt(prompt)
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		_ = r.term.SetSize(width, height)
	}
	r.term.SetBracketedPasteMode(true)
	defer r.term.SetBracketedPasteMode(false)
	line, err := r.term.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}
