package api

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sandboxd/agentloop"
)

type openAPI struct {
	OpenAPI string `json:"openapi"`
	Info    struct {
		Version string `json:"version"`
	} `json:"info"`
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Parameters  []struct{ Name, In string }
		RequestBody *struct {
			Content map[string]struct{ Schema schema }
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema schema }
		}
	} `json:"paths"`
	Components struct{ Schemas map[string]schema } `json:"components"`
}

type schema struct {
	Ref        string `json:"$ref"`
	Properties map[string]schema
	Items      *schema
	Enum       []string
	Required   []string
	Additional *bool `json:"additionalProperties"`
}

func readOpenAPI(t *testing.T) openAPI {
	t.Helper()
	var doc openAPI
	if err := json.Unmarshal(openAPIDocument, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Info.Version != Version || !strings.HasPrefix(doc.OpenAPI, "3.") {
		t.Errorf("openapi %s of version %s, want 3.x of version %s", doc.OpenAPI, doc.Info.Version, Version)
	}
	return doc
}

func TestDocumentAndRoutesAreTheSame(t *testing.T) {
	doc := readOpenAPI(t)
	var described, served []string
	ids := map[string]bool{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
			if ids[op.OperationID] || op.OperationID == "" {
				t.Errorf("%s %s: operationId %q is empty or given twice", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
			if _, ok := op.Responses["default"]; !ok {
				t.Errorf("%s %s: errors are not described", method, path)
			}
			if strings.Contains(path, "{id}") && !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == "id" && p.In == "path" }) {
				t.Errorf("%s %s: the parameter id is not described", method, path)
			}
		}
	}
	for _, r := range routes() {
		served = append(served, r.method+" "+r.path)
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described and served routes differ:\n%q\n%q", described, served)
	}
}

// wireTypes are the objects that stand in the document under the same name.
func wireTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"ExecRequest": reflect.TypeFor[ExecRequest](), "Size": reflect.TypeFor[Size](), "Grant": reflect.TypeFor[Grant](),
		"Limits": reflect.TypeFor[Limits](), "Result": reflect.TypeFor[Result](), "CheckAnswer": reflect.TypeFor[CheckAnswer](),
		"Job": reflect.TypeFor[Job](), "JobList": reflect.TypeFor[JobList](), "KillRequest": reflect.TypeFor[KillRequest](),
		"SessionRequest": reflect.TypeFor[SessionRequest](), "Session": reflect.TypeFor[Session](), "SessionList": reflect.TypeFor[SessionList](),
		"RuleChange": reflect.TypeFor[RuleChange](), "RuleList": reflect.TypeFor[RuleList](), "ModeRequest": reflect.TypeFor[ModeRequest](),
		"CancelRequest": reflect.TypeFor[CancelRequest](), "Question": reflect.TypeFor[agentloop.PendingQuestion](),
		"QuestionList": reflect.TypeFor[QuestionList](), "AnswerRequest": reflect.TypeFor[AnswerRequest](),
		"AnswerOutcome": reflect.TypeFor[agentloop.AnswerOutcome](), "AuditPage": reflect.TypeFor[agentloop.AuditPage](),
		"AuditReport": reflect.TypeFor[agentloop.AuditReport](), "Health": reflect.TypeFor[Health](), "Done": reflect.TypeFor[Done](),
		"AgentRequest": reflect.TypeFor[AgentRequest](), "AgentView": reflect.TypeFor[AgentView](), "MessageRequest": reflect.TypeFor[MessageRequest](),
		"TurnAccepted": reflect.TypeFor[TurnAccepted](), "MessageList": reflect.TypeFor[MessageList](), "CompactRequest": reflect.TypeFor[CompactRequest](),
		"TurnEnd": reflect.TypeFor[agentloop.TurnEnd](), "TurnCompaction": reflect.TypeFor[agentloop.TurnCompaction](),
		"ConversationList": reflect.TypeFor[ConversationList](), "ConversationView": reflect.TypeFor[ConversationView](),
		"ForkRequest": reflect.TypeFor[ForkRequest](), "Conversation": reflect.TypeFor[agentloop.Conversation](), "Entry": reflect.TypeFor[agentloop.Entry](),
		"ErrorBody": reflect.TypeFor[faultBody](),
	}
}

// Every described field exists, and a type whose schema is closed has no other.
func TestDocumentAndTypesAreTheSame(t *testing.T) {
	doc := readOpenAPI(t)
	types := wireTypes()
	for name, s := range doc.Components.Schemas {
		if name == "Text" {
			continue
		}
		typ, ok := types[name]
		if !ok {
			t.Errorf("schema %s has no type", name)
			continue
		}
		fields := jsonFields(typ)
		for field := range s.Properties {
			if !slices.Contains(fields, field) {
				t.Errorf("%s: the field %s does not exist", name, field)
			}
		}
		if s.Additional == nil || *s.Additional {
			continue
		}
		for _, field := range fields {
			if _, ok := s.Properties[field]; !ok {
				t.Errorf("%s: the field %s is not described", name, field)
			}
		}
	}
	for name := range types {
		if _, ok := doc.Components.Schemas[name]; !ok {
			t.Errorf("type %s is not described", name)
		}
	}
}

// jsonFields lists the names of the fields as encoding/json writes them.
func jsonFields(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, jsonFields(f.Type)...)
		case name == "-" || name == "":
		default:
			names = append(names, name)
		}
	}
	return names
}

// Every reference leads somewhere.
func TestReferencesOfTheDocument(t *testing.T) {
	doc := readOpenAPI(t)
	for _, part := range strings.Split(string(openAPIDocument), `"$ref": "`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if _, ok := doc.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")]; !ok {
			t.Errorf("%s leads nowhere", name)
		}
	}
}

// Every code of an error is described, and has a status of its kind.
func TestCodesAreDescribed(t *testing.T) {
	described := readOpenAPI(t).Components.Schemas["ErrorBody"].Properties["error"].Properties["code"].Enum
	for _, c := range []Code{CodeBadRequest, CodeToken, CodeForbidden, CodeInsideRun, CodeBrowser, CodeNotFound, CodeMethod, CodeConflict,
		CodeAnswered, CodeTooLarge, CodeMediaType, CodeVersion, CodePolicy, CodeModel, CodeSetup, CodeBusy, CodeStopping, CodeNotRecorded, CodeMissing, CodeInternal} {
		if !slices.Contains(described, string(c)) {
			t.Errorf("the code %s is not described", c)
		}
		if status := statusOf(c); status < 400 || (status == 500) != (c == CodeInternal) {
			t.Errorf("the code %s has the status %d", c, status)
		}
	}
}
