package sim

import (
	"encoding/json"
	"errors"
	"strings"
)

// tool is a function a client offers. Other kinds of tools are kept in the session and never called.
type tool struct {
	Type       string `json:"type"`
	Name       string `json:"name"`
	Parameters schema `json:"parameters"`
}

// schema is the part of JSON Schema that arguments are made from.
type schema struct {
	Type       any             `json:"type"`
	Enum       []any           `json:"enum"`
	Properties json.RawMessage `json:"properties"`
}

var errToolName = errors.New("a function tool has no name")

func parseTools(data json.RawMessage) ([]tool, error) {
	if !isSet(data) {
		return nil, nil
	}
	var all, functions []tool
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Type != "function" {
			continue
		}
		if t.Name == "" {
			return nil, errToolName
		}
		functions = append(functions, t)
	}
	return functions, nil
}

// chooseTool decides whether a response calls a function. It does when tool_choice demands one, and under "auto" when
// the user's text contains the function's name; never right after a function's output, so that a client's loop ends.
func chooseTool(tools []tool, choice json.RawMessage, in input) *tool {
	if len(tools) == 0 || in.kind == inputFunction {
		return nil
	}
	var mode string
	if json.Unmarshal(choice, &mode) != nil {
		var named struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(choice, &named) // an unknown choice names nothing
		for i := range tools {
			if tools[i].Name == named.Name {
				return &tools[i]
			}
		}
		return nil
	}
	switch mode {
	case "none":
		return nil
	case "required":
		return &tools[0]
	}
	for i := range tools {
		if in.kind == inputText && strings.Contains(in.text, tools[i].Name) {
			return &tools[i]
		}
	}
	return nil
}

// arguments makes a value for each declared parameter, in the order of their declaration.
func (t *tool) arguments() string {
	out := []byte{'{'}
	dec := json.NewDecoder(strings.NewReader(string(t.Parameters.Properties)))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return "{}"
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			break
		}
		var s schema
		if dec.Decode(&s) != nil {
			break
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		value, _ := json.Marshal(s.example()) // decoded from JSON or a literal
		out = append(appendString(out, name.(string)), ':')
		out = append(out, value...)
	}
	return string(append(out, '}'))
}

func (s schema) example() any {
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	typ := s.Type
	if several, ok := typ.([]any); ok && len(several) > 0 {
		typ = several[0]
	}
	switch typ {
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	case "null":
		return nil
	}
	return "sim"
}
