package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Text is an argument, a variable or a path. Linux has bytes there and JSON has
// characters: what is UTF-8 stands as a string, anything else as
// {"base64":"..."}, so that nothing is altered on the way.
type Text string

type encodedText struct {
	Base64 *string `json:"base64"`
}

// MarshalJSON never fails.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	text := base64.StdEncoding.EncodeToString([]byte(t))
	return json.Marshal(encodedText{&text})
}

// UnmarshalJSON takes both forms.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = Text(s)
		return nil
	}
	var e encodedText
	if err := decodeStrict(b, &e); err != nil || e.Base64 == nil {
		return fmt.Errorf(`write a string, or {"base64":"..."} for what is not UTF-8`)
	}
	raw, err := base64.StdEncoding.DecodeString(*e.Base64)
	if err != nil {
		return err
	}
	*t = Text(raw)
	return nil
}

// Texts and Strings convert lists.
func Texts(list []string) []Text {
	if list == nil {
		return nil
	}
	out := make([]Text, len(list))
	for i, s := range list {
		out[i] = Text(s)
	}
	return out
}

// Strings is the inverse of [Texts].
func Strings(list []Text) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}
