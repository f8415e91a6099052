package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sandboxd/agentloop"
)

// texts is a text, or a list of blocks with texts.
type texts []block

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   texts           `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (t *texts) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*t = texts{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]block)(t))
}

func (t texts) joined() string {
	var out []string
	for _, b := range t {
		out = append(out, b.Text)
	}
	return strings.Join(out, "\n")
}

// conversation is what is read of any protocol. It judges as an API does: a result
// without its call is refused.
type conversation struct {
	r    agentloop.ModelRequest
	open map[string]bool
	err  error
}

func (c *conversation) add(role agentloop.Role, b agentloop.Block) {
	switch b.Kind {
	case agentloop.BlockToolUse:
		if c.open == nil {
			c.open = map[string]bool{}
		}
		c.open[b.CallID] = true
	case agentloop.BlockToolResult:
		if !c.open[b.CallID] {
			c.err = errors.Join(c.err, fmt.Errorf("the result of %q has no call", b.CallID))
		}
		delete(c.open, b.CallID)
	case agentloop.BlockText:
		if strings.TrimSpace(b.Text) == "" {
			c.err = errors.Join(c.err, errors.New("a text is empty"))
		}
	case agentloop.BlockThinking:
		return
	}
	if n := len(c.r.Messages); n == 0 || c.r.Messages[n-1].Role != role {
		if role == agentloop.RoleAssistant && len(c.open) > 0 && b.Kind != agentloop.BlockToolUse {
			c.err = errors.Join(c.err, fmt.Errorf("%d calls have no result", len(c.open)))
		}
		c.r.Messages = append(c.r.Messages, agentloop.Message{Role: role})
	}
	last := &c.r.Messages[len(c.r.Messages)-1]
	last.Blocks = append(last.Blocks, b)
}

func (c *conversation) done() (agentloop.ModelRequest, error) {
	switch {
	case c.err != nil:
		return c.r, c.err
	case len(c.open) > 0:
		return c.r, fmt.Errorf("%d calls have no result", len(c.open))
	case len(c.r.Messages) == 0:
		return c.r, errors.New("there are no messages")
	}
	return c.r, nil
}

func text(s string) agentloop.Block { return agentloop.Block{Kind: agentloop.BlockText, Text: s} }

func use(id, name, args string) agentloop.Block {
	return agentloop.Block{Kind: agentloop.BlockToolUse, CallID: id, Tool: name, Args: args}
}

// result is what a server gets of one: none of the protocols tells more of the
// status than that a call failed.
func result(id, text string, failed bool) agentloop.Block {
	b := agentloop.Block{Kind: agentloop.BlockToolResult, CallID: id, Text: text, Status: agentloop.StatusOK}
	if failed {
		b.Status = agentloop.StatusFail
	}
	return b
}

func readAnthropic(body []byte) (agentloop.ModelRequest, error) {
	var in struct {
		Model    string `json:"model"`
		System   texts  `json:"system"`
		Messages []struct {
			Role    agentloop.Role `json:"role"`
			Content texts          `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		ToolChoice struct {
			Type string `json:"type"`
		} `json:"tool_choice"`
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return agentloop.ModelRequest{}, err
	}
	c := conversation{r: agentloop.ModelRequest{Model: in.Model, MaxTokens: in.MaxTokens, NoTools: in.ToolChoice.Type == "none"}}
	for _, s := range in.System {
		c.r.System = append(c.r.System, s.Text)
	}
	for _, t := range in.Tools {
		c.r.Tools = append(c.r.Tools, agentloop.ToolSchema{Name: t.Name, Description: t.Description, Parameters: t.InputSchema})
	}
	for _, m := range in.Messages {
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				c.add(m.Role, text(b.Text))
			case "tool_use":
				c.add(m.Role, use(b.ID, b.Name, string(b.Input)))
			case "tool_result":
				c.add(m.Role, result(b.ToolUseID, b.Content.joined(), b.IsError))
			}
		}
	}
	return c.done()
}

func readChat(body []byte) (agentloop.ModelRequest, error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Arguments   string          `json:"arguments"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	var in struct {
		Model    string `json:"model"`
		Messages []struct {
			Role      string `json:"role"`
			Content   texts  `json:"content"`
			CallID    string `json:"tool_call_id"`
			ToolCalls []struct {
				ID       string   `json:"id"`
				Function function `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function function `json:"function"`
		} `json:"tools"`
		ToolChoice json.RawMessage `json:"tool_choice"`
		MaxTokens  int             `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return agentloop.ModelRequest{}, err
	}
	c := conversation{r: agentloop.ModelRequest{Model: in.Model, MaxTokens: in.MaxTokens, NoTools: string(in.ToolChoice) == `"none"`}}
	for _, t := range in.Tools {
		c.r.Tools = append(c.r.Tools, agentloop.ToolSchema{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	for _, m := range in.Messages {
		switch m.Role {
		case "system", "developer":
			c.r.System = append(c.r.System, m.Content.joined())
			continue
		case "tool":
			c.add(agentloop.RoleUser, result(m.CallID, m.Content.joined(), false))
			continue
		}
		for _, b := range m.Content {
			c.add(agentloop.Role(m.Role), text(b.Text))
		}
		for _, u := range m.ToolCalls {
			c.add(agentloop.RoleAssistant, use(u.ID, u.Function.Name, u.Function.Arguments))
		}
	}
	return c.done()
}

func readResponses(body []byte) (agentloop.ModelRequest, error) {
	var in struct {
		Model        string `json:"model"`
		Instructions string `json:"instructions"`
		Input        []struct {
			Type      string         `json:"type"`
			Role      agentloop.Role `json:"role"`
			Content   texts          `json:"content"`
			CallID    string         `json:"call_id"`
			Name      string         `json:"name"`
			Arguments string         `json:"arguments"`
			Output    texts          `json:"output"`
		} `json:"input"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"tools"`
		ToolChoice json.RawMessage `json:"tool_choice"`
		MaxTokens  int             `json:"max_output_tokens"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return agentloop.ModelRequest{}, err
	}
	c := conversation{r: agentloop.ModelRequest{Model: in.Model, MaxTokens: in.MaxTokens, NoTools: string(in.ToolChoice) == `"none"`}}
	if in.Instructions != "" {
		c.r.System = []string{in.Instructions}
	}
	for _, t := range in.Tools {
		c.r.Tools = append(c.r.Tools, agentloop.ToolSchema{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	for _, i := range in.Input {
		switch i.Type {
		case "function_call":
			c.add(agentloop.RoleAssistant, use(i.CallID, i.Name, i.Arguments))
		case "function_call_output":
			c.add(agentloop.RoleUser, result(i.CallID, i.Output.joined(), false))
		case "reasoning":
		default:
			c.add(i.Role, text(i.Content.joined()))
		}
	}
	return c.done()
}
