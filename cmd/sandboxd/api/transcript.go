package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"sandboxd/agentloop"
)

// writeLines writes a conversation as JSON lines: {"conversation":...}, then each
// entry.
func writeLines(w io.Writer, head agentloop.Conversation, entries entrySeq) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]any{"conversation": head}); err != nil {
		return err
	}
	for entry, err := range entries {
		if err != nil {
			return err
		}
		if err := e.Encode(entry); err != nil {
			return err
		}
	}
	return nil
}

// writeMarkdown writes a conversation for people. Texts of tools stand in fences
// that they cannot close; who said what is told by headings of ours alone, since a
// heading in the text of a model is quoted.
func writeMarkdown(w io.Writer, h agentloop.Conversation, entries entrySeq) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", oneLine(h.Title))
	fmt.Fprintf(&b, "- conversation `%s`, workspace `%s`\n- %s, model `%s`, begun %s\n- %d turn%s, %d tokens in, %d out%s\n",
		oneLine(h.ID), oneLine(h.Workspace), oneLine(h.Provider), oneLine(h.Model), h.Created.UTC().Format(time.RFC3339), h.Turns, plural(h.Turns),
		h.Usage.Input+h.Usage.CacheRead+h.Usage.CacheWrite, h.Usage.Output, cost(h.Cost))
	if h.Parent != "" {
		fmt.Fprintf(&b, "- from `%s`, after entry %d\n", oneLine(h.Parent), h.ParentLast)
	}
	for e, err := range entries {
		if err != nil {
			return err
		}
		markEntry(&b, e)
		if _, err := b.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}

func cost(usd *float64) string {
	if usd == nil || *usd == 0 {
		return ""
	}
	return fmt.Sprintf(", $%.4f", *usd)
}

func markEntry(b *bytes.Buffer, e agentloop.Entry) {
	switch e.Kind {
	case agentloop.EntryMessage, agentloop.EntryCompact:
		if e.Message == nil {
			return
		}
		for _, block := range e.Message.Blocks {
			markBlock(b, e, block)
		}
	case agentloop.EntryResult:
		if e.Block != nil {
			fmt.Fprintf(b, "\n### Result: %s\n\n", e.Block.Status)
			fence(b, "", e.Block.Text)
		}
	case agentloop.EntryEnd:
		if e.End != nil {
			fmt.Fprintf(b, "\n---\n\n%s after %d steps and %d calls%s", e.End.Reason, e.End.Steps, e.End.Calls, cost(e.End.Cost))
			if e.End.Error != "" {
				fmt.Fprintf(b, ": %s", oneLine(e.End.Error))
			}
			b.WriteString("\n")
		}
	}
}

// speakers name who the words of a block come from.
var speakers = map[agentloop.Origin]string{
	agentloop.OriginUser: "You", agentloop.OriginModel: "Model", agentloop.OriginBackground: "Background task", agentloop.OriginHook: "Hook",
	agentloop.OriginLoop: "Loop", agentloop.OriginFile: "File", agentloop.OriginTool: "Tool",
}

func markBlock(b *bytes.Buffer, e agentloop.Entry, block agentloop.Block) {
	switch block.Kind {
	case agentloop.BlockText, agentloop.BlockThinking:
		who := speakers[block.Origin]
		if who == "" {
			who = "Model"
		}
		if e.Kind == agentloop.EntryCompact {
			who = "Summary of what came before"
		}
		if block.Kind == agentloop.BlockThinking {
			who += ", thinking"
		}
		fmt.Fprintf(b, "\n## %s\n\n", who)
		for line := range strings.Lines(block.Text) {
			b.WriteString("> " + visible(strings.TrimRight(line, "\r\n")) + "\n")
		}
	case agentloop.BlockToolUse:
		fmt.Fprintf(b, "\n### Call: %s\n\n", oneLine(block.Tool))
		fence(b, "json", block.Args)
	case agentloop.BlockToolResult:
		fmt.Fprintf(b, "\n### Result: %s\n\n", block.Status)
		fence(b, "", block.Text)
	}
}

// fence writes text as code, with a fence longer than any in it.
func fence(b *bytes.Buffer, language, text string) {
	longest, run := 2, 0
	for _, r := range text {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	mark := strings.Repeat("`", longest+1)
	fmt.Fprintf(b, "%s%s\n%s\n%s\n", mark, language, visible(strings.TrimRight(text, "\n")), mark)
}

// visible writes what a terminal would obey, or not show, in hexadecimal: people read
// such files there too. Newlines and tabs stay.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || r >= ' ' && r < 0x7f || r >= 0xa0 && !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}

// oneLine keeps a text in its line, and in its code span.
func oneLine(text string) string {
	return strings.ReplaceAll(agentloop.ShowText(text), "`", "'")
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
