package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// Limits of the notes of one conversation.
const (
	maxNotes    = 100
	maxNoteText = 8 << 10
	maxNoteRead = 16 << 10
	keptNotes   = 500                 // files of one user
	noteAge     = 90 * 24 * time.Hour // of a file that nobody changed
)

// noteTool is save_note: findings of one conversation, which survive its
// compactions and its resumption.
type noteTool struct{}

func (noteTool) Name() string { return "save_note" }

// Traits are those of requirement 17.
func (noteTool) Traits(policy.Args) agentloop.Traits { return ownStateTraits }

func (noteTool) Schema() agentloop.ToolSchema {
	return schema("save_note", "Keeps a finding of this conversation so that it survives a compaction; the same title again replaces it. "+
		"Your notes are shown to you at the beginning of the conversation's context.", object{
		{name: "title", kind: "string", text: "A short title.", required: true},
		{name: "content", kind: "string", text: "The finding.", required: true},
	})
}

func (noteTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	title, err := need(r.Call.Args, "title")
	if err != nil {
		return "", err
	}
	content, err := need(r.Call.Args, "content", "text", "note")
	if err != nil {
		return "", err
	}
	s := r.Session
	n := record{Key: s.Redactor().Mask(oneLine(title)), Text: s.Redactor().Mask(strings.TrimSpace(content)), Time: time.Now().UTC().Truncate(time.Second)}
	switch {
	case n.Key == "" || len(n.Key) > maxMemoryKey:
		return "", fmt.Errorf("argument title: want 1 to %d bytes", maxMemoryKey)
	case n.Text == "":
		return "", errors.New("argument content is empty")
	case len(n.Text) > maxNoteText:
		return "", fmt.Errorf("a note of %d bytes: at most %d are kept", len(n.Text), maxNoteText)
	}
	f, err := notesOf(s, conversationOf(r))
	if err != nil {
		return "", err
	}
	err = as(s, func() error {
		err := f.change(ctx, func(list []record) ([]record, error) { return remember(list, n, false, maxNotes) })
		sweep(f.dir, keptNotes, noteAge, time.Now())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("nothing was kept: %w", err)
	}
	return fmt.Sprintf("The note %q is kept.", n.Key), nil
}

// conversationOf names whose notes they are: the conversation's, else the session's.
func conversationOf(r *agentloop.ToolRun) string {
	if a := r.Agent(); a != nil {
		return a.ID()
	}
	return r.Session.ID()
}

func notesOf(s *agentloop.Session, conversation string) (records, error) {
	sum := sha256.Sum256([]byte(conversation))
	return recordsOf(s, "notes", hex.EncodeToString(sum[:10]))
}

// Notes are those of a conversation, the newest first and bounded, as data.
func Notes(s *agentloop.Session, conversation string) (string, error) {
	f, err := notesOf(s, conversation)
	if err != nil {
		return "", nil // no place to keep any
	}
	return recordsText(s, f, maxNoteRead)
}
