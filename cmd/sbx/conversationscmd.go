package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
)

// conversationList lists what can be resumed.
func (p *program) conversationList(c *cli.Context) error {
	workspace := ""
	if c.IsSet("workspace") {
		cwd, err := workingDir()
		if err != nil {
			return err
		}
		if workspace, err = filepath.EvalSymlinks(fromCwd(cwd, c.String("workspace"))); err != nil {
			return misuse("", "--workspace: %v", err)
		}
	}
	d, err := p.someDaemon(c.Context, c)
	if err != nil {
		return err
	}
	defer d.close()
	list, err := d.Conversations(c.Context, workspace, c.Int("limit"))
	if err != nil {
		return daemonFailure(err)
	}
	if c.Bool("json") {
		return p.writeJSON(map[string]any{"conversations": list})
	}
	for _, h := range list {
		if err := p.writeOut("%s\n", oneLine(conversationLine(h))); err != nil {
			return err
		}
	}
	return nil
}

// conversationLine is one head for people.
func conversationLine(h agentloop.Conversation) string {
	ended := string(h.Ended)
	if ended == "" {
		ended = "running or cut"
	}
	cost := ""
	if h.Cost != nil && *h.Cost > 0 {
		cost = fmt.Sprintf(", $%.4f", *h.Cost)
	}
	return fmt.Sprintf("%s  %s  %-14s %s%s  %s  %s", h.ID, h.Changed.Local().Format(time.DateTime), ended, counted(h.Turns, "turn"), cost, h.Workspace, cutLine(h.Title, 60))
}

// conversationShow prints what was said, for people as export --format markdown.
func (p *program) conversationShow(c *cli.Context, id string) error {
	d, err := p.someDaemon(c.Context, c)
	if err != nil {
		return err
	}
	defer d.close()
	if c.Bool("json") {
		view, err := d.Conversation(c.Context, id)
		if err != nil {
			return daemonFailure(err)
		}
		return p.writeJSON(view)
	}
	return daemonFailure(d.ExportConversation(c.Context, id, "markdown", p.stdout))
}

func (p *program) conversationFork(c *cli.Context) error {
	id, err := oneArg(c, "conversation")
	if err != nil {
		return err
	}
	d, err := p.someDaemon(c.Context, c)
	if err != nil {
		return err
	}
	defer d.close()
	fork, err := d.ForkConversation(c.Context, id, c.Int64("at"))
	if err != nil {
		return daemonFailure(err)
	}
	return p.writeOut("%s\n", fork.ID)
}

// conversationExport writes a conversation to standard output, or into a new file
// that only its owner reads: it may hold what the model was shown.
func (p *program) conversationExport(c *cli.Context) (err error) {
	id, err := oneArg(c, "conversation")
	if err != nil {
		return err
	}
	d, err := p.someDaemon(c.Context, c)
	if err != nil {
		return err
	}
	defer d.close()
	to := &safeWriter{to: p.stdout}
	if path := c.String("output"); path != "" {
		// Nothing is made where there is no such conversation.
		if _, err := d.Conversation(c.Context, id); err != nil {
			return daemonFailure(err)
		}
		f, openErr := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if openErr != nil {
			return &failure{code: exitSandbox, stage: "output", hint: "name a file that does not exist", err: openErr}
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		to.to = f
	}
	if err := d.ExportConversation(c.Context, id, c.String("format"), to); err != nil {
		return daemonFailure(err)
	}
	return to.flush()
}

// safeWriter escapes in lines of JSON what a terminal would obey and JSON leaves as it
// is, as [escapeControls] does; other text has nothing of it.
type safeWriter struct {
	to   io.Writer
	rest []byte
}

func (w *safeWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	at := bytes.LastIndexByte(w.rest, '\n') + 1
	if at == 0 {
		return len(b), nil
	}
	_, err := w.to.Write(escapeControls(w.rest[:at]))
	w.rest = append(w.rest[:0], w.rest[at:]...)
	return len(b), err
}

func (w *safeWriter) flush() error {
	_, err := w.to.Write(escapeControls(w.rest))
	return err
}

// conversationRemove removes each of the named ones, and says which it could not.
func (p *program) conversationRemove(c *cli.Context) error {
	if c.Args().Len() == 0 {
		return misuse("sbx sessions list --conversations lists them", "name a conversation")
	}
	d, err := p.someDaemon(c.Context, c)
	if err != nil {
		return err
	}
	defer d.close()
	var first error
	for _, id := range c.Args().Slice() {
		err := d.DeleteConversation(c.Context, id)
		if err != nil && first == nil {
			first = daemonFailure(fmt.Errorf("%s: %w", id, err))
			continue
		}
		if err != nil {
			p.note("error", id+": "+err.Error())
		}
	}
	return first
}
