package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// Limits of what is remembered of a workspace.
const (
	maxMemories   = 100
	maxMemoryText = 2000 // bytes of one
	maxMemoryKey  = 100
	maxMemoryRead = 16 << 10 // bytes of the system prompt
)

// memoryTool is save_memory: facts about a workspace for later conversations. They
// are kept in the user's state and come back as data. Since they speak to every
// later conversation, a person is asked unless a rule allows it.
type memoryTool struct{}

func (memoryTool) Name() string { return "save_memory" }

// Traits are those of requirement 18: what is begun is finished.
func (memoryTool) Traits(policy.Args) agentloop.Traits { return agentloop.Traits{} }

func (memoryTool) Schema() agentloop.ToolSchema {
	return schema("save_memory", "Remembers a fact about this workspace for later conversations, under a key; the same key again replaces it. "+
		"Never a secret.", object{
		{name: "key", kind: "string", text: "A short name, such as test-command.", required: true},
		{name: "content", kind: "string", text: "The fact, in a sentence or two."},
		{name: "forget", kind: "boolean", text: "Forget what is kept under the key instead."},
	})
}

// Check reads the arguments.
func (memoryTool) Check(args policy.Args) error {
	_, _, _, err := factOf(args)
	return err
}

func factOf(args policy.Args) (key, content string, forget bool, err error) {
	if key, err = need(args, "key"); err != nil {
		return "", "", false, err
	}
	if content, _, err = text(args, "content", "text", "fact"); err != nil {
		return "", "", false, err
	}
	forget, err = flag(args, "forget")
	return key, content, forget, err
}

func (memoryTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	key, content, forget, err := factOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	s := r.Session
	m := record{Key: s.Kept().Mask(oneLine(key)), Text: s.Kept().Mask(strings.TrimSpace(content)), Time: time.Now().UTC().Truncate(time.Second)}
	switch {
	case m.Key == "" || len(m.Key) > maxMemoryKey:
		return "", fmt.Errorf("argument key: want 1 to %d bytes", maxMemoryKey)
	case forget && m.Text != "":
		return "", errors.New("arguments content and forget exclude each other")
	case !forget && m.Text == "":
		return "", errors.New("argument content is missing")
	case len(m.Text) > maxMemoryText:
		return "", fmt.Errorf("a fact of %d bytes: at most %d are kept", len(m.Text), maxMemoryText)
	}
	f, err := memoryOf(s)
	if err != nil {
		return "", err
	}
	err = as(s, func() error {
		return f.change(ctx, func(list []record) ([]record, error) { return remember(list, m, forget, maxMemories) })
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("nothing was kept: %w", err)
	case forget:
		return fmt.Sprintf("%s is forgotten.", m.Key), nil
	case m.Text != strings.TrimSpace(content):
		return fmt.Sprintf("%s is kept, with what looks like a secret left out.", m.Key), nil
	}
	return fmt.Sprintf("%s is kept for later conversations in this workspace.", m.Key), nil
}

// remember puts m at the end of the list, in the place of one of the same key.
func remember(list []record, m record, forget bool, most int) ([]record, error) {
	had := len(list)
	list = slices.DeleteFunc(list, func(r record) bool { return r.Key == m.Key })
	if forget {
		if len(list) == had {
			return nil, fmt.Errorf("nothing is kept under %q", m.Key)
		}
		return list, nil
	}
	if len(list) >= most {
		return nil, fmt.Errorf("%d are kept already: forget one, or replace it", len(list))
	}
	return append(list, m), nil
}

// memoryOf is the file of a workspace.
func memoryOf(s *agentloop.Session) (records, error) {
	sum := sha256.Sum256([]byte(s.Workspace()))
	return recordsOf(s, "memory", hex.EncodeToString(sum[:10]))
}

// Memory is what was remembered of the session's workspace, the newest first and
// bounded. It is data: earlier conversations wrote it.
func Memory(s *agentloop.Session) (string, error) {
	f, err := memoryOf(s)
	if err != nil {
		return "", nil // no place to keep any
	}
	return recordsText(s, f, maxMemoryRead)
}

// recordsText reads records, newest first, up to limit bytes.
func recordsText(s *agentloop.Session, f records, limit int) (string, error) {
	var list []record
	err := as(s, func() (err error) {
		list, err = f.read()
		return err
	})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	left := 0
	for _, r := range slices.Backward(list) {
		line := fmt.Sprintf("- %s (%s): %s\n", oneLine(r.Key), r.Time.Format("2006-01-02"), r.Text)
		if left > 0 || b.Len()+len(line) > limit {
			left++
			continue
		}
		b.WriteString(line)
	}
	if left > 0 {
		fmt.Fprintf(&b, "[%d older ones are left out]\n", left)
	}
	return b.String(), nil
}

// oneLine joins the words of a text.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
