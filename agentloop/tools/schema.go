package tools

import (
	"encoding/json"

	"sandboxd/agentloop"
)

// param is one argument of a tool as a model is told of it.
type param struct {
	name, kind, text string
	required         bool
	enum             []string
	items            *object // of kind array
}

// object is a JSON schema of type object.
type object []param

// MarshalJSON writes the schema; names in it are sorted, so that a provider's cache
// of the declarations holds.
func (o object) MarshalJSON() ([]byte, error) {
	type property struct {
		Type        string   `json:"type"`
		Description string   `json:"description,omitempty"`
		Enum        []string `json:"enum,omitempty"`
		Items       any      `json:"items,omitempty"`
	}
	properties := map[string]property{}
	required := []string{}
	for _, p := range o {
		prop := property{Type: p.kind, Description: p.text, Enum: p.enum}
		switch {
		case p.items != nil:
			prop.Items = p.items
		case p.kind == "array":
			prop.Items = map[string]string{"type": "string"}
		}
		properties[p.name] = prop
		if p.required {
			required = append(required, p.name)
		}
	}
	return json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

// schema declares a tool to a model.
func schema(name, text string, params object) agentloop.ToolSchema {
	parameters, err := json.Marshal(params)
	if err != nil {
		panic("bug: a schema that is no JSON: " + err.Error())
	}
	return agentloop.ToolSchema{Name: name, Description: text, Parameters: parameters}
}
