package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

// mcpTool is a tool of a server, as it was first listed. What the server says of it
// can only make things stricter: a tool that is said to destroy asks, and one that
// is said to read only is treated like any other.
type mcpTool struct {
	server      *mcpServer
	name        string // mcp__SERVER__TOOL
	remote      string // as the server calls it
	description string
	schema      json.RawMessage
	destroys    bool
	digest      [sha256.Size]byte
	problem     string // why it is not offered
}

func newMCPTool(m *mcpServer, t *mcp.Tool) mcpTool {
	out := mcpTool{server: m, remote: t.Name, description: clip(strings.Map(printable, t.Description), maxMCPText)}
	name, ok := toolName(t.Name)
	out.name = "mcp__" + m.spec.Name + "__" + name
	schema, err := json.Marshal(shownJSON(t.InputSchema))
	var object struct{ Type any }
	switch {
	case !ok:
		out.problem = "no name that a rule could hold"
	case len(out.name) > maxMCPName:
		out.problem = fmt.Sprintf("%s is longer than %d characters", out.name, maxMCPName)
	case err != nil || json.Unmarshal(schema, &object) != nil || object.Type != "object":
		out.problem = "its schema is no object"
	case len(schema) > maxMCPSchema:
		out.problem = fmt.Sprintf("its schema has %d bytes, at most %d are taken", len(schema), maxMCPSchema)
	}
	out.schema = schema
	if a := t.Annotations; a != nil && a.DestructiveHint != nil {
		out.destroys = *a.DestructiveHint
	}
	all, err := json.Marshal([]any{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations})
	if err != nil && out.problem == "" {
		out.problem = "it cannot be compared: " + err.Error()
	}
	out.digest = sha256.Sum256(all)
	return out
}

// toolName is a tool's name with what model APIs do not take replaced.
func toolName(name string) (string, bool) {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r == '.', r == '/', r == ':', r == ' ':
			return '_'
		}
		return -1
	}, name)
	return clean, clean != "" && len(name) <= 2*maxMCPName && strings.Trim(clean, "_-") != "" && !strings.Contains(clean, "__")
}

// Name implements [agentloop.Tool].
func (t mcpTool) Name() string { return t.name }

// Traits are cautious, but that a cancelled call is not waited for: nobody knows
// what the server does with it.
func (t mcpTool) Traits(policy.Args) agentloop.Traits {
	return agentloop.Traits{Interrupt: agentloop.InterruptCancel}
}

// Schema declares it as the server does; the text is the server's.
func (t mcpTool) Schema() agentloop.ToolSchema {
	return agentloop.ToolSchema{Name: t.name, Description: "[tool of the MCP server " + t.server.spec.Name + "] " + t.description, Parameters: t.schema}
}

// Rule asks before what the server itself calls destructive.
func (t mcpTool) Rule(policy.Args) (policy.Verdict, string) {
	if t.destroys {
		return policy.Ask, "the server says that the tool may destroy"
	}
	return policy.Allow, ""
}

func (t mcpTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	limit := t.server.spec.Timeout
	if limit == 0 {
		limit = policy.ToolTimeout
	}
	if t.server.spec.Write && r.Session.Mode() == policy.ModePlan {
		return "", errors.New("the server may write the workspace, and nothing is written in mode plan")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the server %s gave no answer within %s", t.server.spec.Name, limit))
	defer cancel()
	res, err := t.server.call(ctx, t, r.Call.Args)
	if err != nil {
		return "", fmt.Errorf("MCP server %s: %w", t.server.spec.Name, err)
	}
	text := resultText(res)
	if res.IsError {
		if text == "" {
			text = "no reason given"
		}
		return "", fmt.Errorf("the tool failed: %s", clip(text, maxTaskText))
	}
	if text == "" {
		return "[the tool returned nothing]", nil
	}
	return text, nil
}

// resultText is what a result says in words, bounded. Pictures and the like are
// named, not shown.
func resultText(res *mcp.CallToolResult) string {
	var b strings.Builder
	add := func(s string) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	for _, c := range res.Content {
		if b.Len() > maxMCPResult {
			break
		}
		switch c := c.(type) {
		case *mcp.TextContent:
			add(c.Text)
		case *mcp.ImageContent:
			add(fmt.Sprintf("[an image, %s, %d bytes: not shown]", c.MIMEType, len(c.Data)))
		case *mcp.AudioContent:
			add(fmt.Sprintf("[audio, %s, %d bytes: not shown]", c.MIMEType, len(c.Data)))
		case *mcp.ResourceLink:
			add(fmt.Sprintf("[a resource: %s %s]", c.URI, c.Name))
		case *mcp.EmbeddedResource:
			add(resourceText(c.Resource))
		default:
			add("[content of a kind that is not known]")
		}
	}
	if b.Len() == 0 && res.StructuredContent != nil {
		if text, err := json.Marshal(res.StructuredContent); err == nil {
			add(string(text))
		}
	}
	text := strings.Map(printable, strings.ToValidUTF8(b.String(), "\uFFFD"))
	if len(text) > maxMCPResult {
		text = clip(text, maxMCPResult) + fmt.Sprintf("\n[the result has %d bytes, at most %d are handed on]", len(text), maxMCPResult)
	}
	return text
}

func resourceText(c *mcp.ResourceContents) string {
	switch {
	case c == nil:
		return "[an empty resource]"
	case c.Text != "":
		return c.Text
	}
	return fmt.Sprintf("[a resource: %s, %s, %d bytes: not shown]", c.URI, c.MIMEType, len(c.Blob))
}

// shownJSON is a value of JSON whose texts have no characters that people do not see:
// a model reads the descriptions in a schema as it reads that of the tool.
func shownJSON(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Map(printable, v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = shownJSON(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, x := range v {
			out[strings.Map(printable, name)] = shownJSON(x)
		}
		return out
	}
	return v
}

// printable drops characters that draw, or hide, something other than themselves.
func printable(r rune) rune {
	if r == '\n' || r == '\t' {
		return r
	}
	if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}
