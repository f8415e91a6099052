package main

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
	"sandboxd/exec"
)

// The document and the program name the same fields.
func TestResultDocumentNamesEveryField(t *testing.T) {
	doc, err := os.ReadFile("../../docs/result.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	for _, v := range []any{resultObject{}, exec.Stream{}, exec.Enforced{}, exec.Part{}, exec.Gap{}, errorObject{}, agentloop.GuardFinding{}} {
		for _, name := range jsonFields(reflect.TypeOf(v)) {
			fields[name] = true
			if !strings.Contains(string(doc), "`"+name+"`") {
				t.Errorf("docs/result.md does not name the field %q of %T", name, v)
			}
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\|").FindAllStringSubmatch(string(doc), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			name = strings.Trim(name, "`")
			if !fields[name] && !strings.Contains(outcomes, " "+name+" ") {
				t.Errorf("docs/result.md names the field %q, which no object has", name)
			}
		}
	}
}

// outcomes are rows of the document that are values, not fields.
const outcomes = " exited signaled timeout memory tasks cpu denied setup "

// jsonFields lists the JSON names of a struct, those of embedded ones included.
func jsonFields(t reflect.Type) []string {
	var list []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			list = append(list, jsonFields(f.Type)...)
		case name != "-":
			list = append(list, name)
		}
	}
	return list
}

func TestResultObject(t *testing.T) {
	object := api.NewResult(exec.Result{
		Outcome: exec.Exited, ExitCode: 1, Elapsed: 1500 * time.Microsecond, CPU: time.Microsecond,
		Stdout: exec.Stream{Bytes: 3, Kept: 3, Text: "<a>"},
	}, []string{"x"})
	text, err := marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"version":1,"outcome":"exited","exit_code":1,`, `"elapsed_ms":2,"cpu_ms":1,`, `"text":"<a>"`,
		`"limits_hit":[]`, `"parts":[],"missing":[],"weakened":[]`, `"withheld_env":[],"detected":[],"warnings":[]`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("object %s lacks %s", text, want)
		}
	}
	text, err = marshal(object.WithoutOutput())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "<a>") || !json.Valid(text) || !strings.Contains(string(text), `"bytes":3`) {
		t.Errorf("the object for --status-fd is %s", text)
	}
}

func TestObjectHoldsNoControlCharacters(t *testing.T) {
	const text = "a\x1b[2J\u009b2J\u0080\u009f\x7f\u00a0\u00e9\u4f82\x07z\xc2"
	got, err := marshal(map[string]string{text: text})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range strings.TrimSuffix(string(got), "\n") {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			t.Errorf("%q holds %U", got, r)
		}
	}
	want := strings.TrimSuffix(text, "\xc2") + "\ufffd" // what encoding/json makes of a stray byte
	var back map[string]string
	if err := json.Unmarshal(got, &back); err != nil || back[want] != want {
		t.Errorf("%q reads as %q: %v", got, back, err)
	}
}
