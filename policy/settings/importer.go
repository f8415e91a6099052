package settings

import (
	"fmt"
	"slices"
	"strings"

	"sandboxd/policy"
)

// Outcome is what became of one statement of an imported file.
type Outcome string

const (
	// Kept: it means here what it meant there.
	Kept Outcome = "kept"
	// Narrowed: it became something stricter.
	Narrowed Outcome = "narrowed"
	// Refused: it would have permitted something and has no equal here; it was
	// left out.
	Refused Outcome = "refused"
	// Skipped: it permits and forbids nothing (a theme, a model).
	Skipped Outcome = "skipped"
)

// Imported reports on one statement of an imported file. An import never
// permits more than the file did: what forbids is kept or made wider, what
// permits is kept or made smaller.
type Imported struct {
	Line    int     `json:"line"`
	Text    string  `json:"text"` // the statement, short
	Outcome Outcome `json:"outcome"`
	// Reason says why it is not kept, or what to know; may be empty when kept.
	Reason string `json:"reason,omitempty"`
	// Became lists what stands for it in the policy.
	Became []string `json:"became,omitempty"`
}

// Clients lists the names that [Import] takes.
var Clients = []string{"claude", "codex", "gemini", "opencode", "srt"}

// Import reads the settings of another agent into a policy.
func Import(client string, source policy.Source, data []byte) (*Policy, []Imported, error) {
	switch client {
	case "claude":
		return ImportClaude(source, data)
	case "codex":
		if strings.HasSuffix(source.File, ".toml") {
			return importCodexConfig(source, data)
		}
		return importCodexRules(source, data)
	case "gemini":
		return importGemini(source, data)
	case "opencode":
		return importOpencode(source, data)
	case "srt":
		return importSRT(source, data)
	}
	return nil, nil, &Error{Text: "unknown client " + quote(client), Hint: "one of " + strings.Join(Clients, ", ")}
}

// importer collects the policy and the report.
type importer struct {
	reader
	p      *Policy
	report []Imported
}

func newImporter(source policy.Source) *importer {
	return &importer{reader: reader{source.File}, p: &Policy{Source: source}}
}

// settingsObject reads settings that are one JSON object.
func (i *importer) settingsObject(data []byte) (*node, error) {
	root, err := parseJSON(i.file, data)
	if err == nil && !root.isTable() {
		err = i.errorf(root, "settings are a JSON object, not %s", root.kind)
	}
	return root, err
}

func (i *importer) result() (*Policy, []Imported, error) {
	slices.SortStableFunc(i.report, func(a, b Imported) int { return a.Line - b.Line })
	return i.p, i.report, nil
}

// note reports on a statement.
func (i *importer) note(line int, text string, o Outcome, reason string, became ...string) {
	i.report = append(i.report, Imported{Line: line, Text: text, Outcome: o, Reason: reason, Became: became})
}

// statement is one rule of the other agent on its way into ours.
type statement struct {
	line   int
	text   string // as the other file has it
	kind   policy.Kind
	reason string // told when it denies or asks
	modes  []policy.Mode
	except []string
}

// rules adds patterns for s. Each must be one that package policy accepts;
// when a deny or ask is not, the whole tool is taken instead, and an allow is
// refused. why is non-empty when the patterns are narrower than the statement.
func (i *importer) rules(s statement, why string, patterns ...string) {
	outcome := Kept
	if why != "" {
		outcome = Narrowed
	}
	var became []string
	for _, pattern := range patterns {
		if len(s.except) > 0 && !strings.Contains(pattern, "(") {
			pattern += "(**)" // exceptions are read in the grammar of a content
		}
		rule := policy.Rule{Kind: s.kind, Pattern: pattern, Source: i.p.source(s.line), Modes: s.modes, Except: s.except}
		switch s.kind {
		case policy.DenyRule:
			rule.Reason = s.reason
		case policy.AskRule:
			rule.Message = s.reason
		}
		if err := checkRule(rule); err != nil {
			if s.kind == policy.AllowRule {
				i.note(s.line, s.text, Refused, problemOf(err))
				return
			}
			tool, _, _ := strings.Cut(pattern, "(")
			rule.Pattern, rule.Except = tool, nil
			why, outcome = problemOf(err)+"; the whole tool is taken instead", Narrowed
			if checkRule(rule) != nil {
				rule.Pattern = "*"
			}
		}
		became = append(became, rule.Kind.String()+" "+rule.Pattern)
		i.p.Rules = append(i.p.Rules, rule)
	}
	i.note(s.line, s.text, outcome, why, became...)
}

func problemOf(err error) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, "): "); ok {
		text = after
	}
	return text
}

// path adds a file-system entry, or reports why it cannot be one. An entry that
// opens is refused then; one that closes becomes the directory before its first
// star, which closes more.
func (i *importer) path(line int, text, path string, access policy.PathAccess, o Outcome, why string) {
	opens := access == policy.GrantRead || access == policy.GrantWrite
	entry, problem := pathEntry(path)
	if problem == "" && (path == "" || strings.ContainsRune(path, 0)) {
		problem = "empty"
	}
	if problem != "" && opens {
		i.note(line, text, Refused, problem)
		return
	}
	if problem != "" {
		cut := strings.IndexAny(path, "*?[")
		if cut < 0 {
			cut = 0
		}
		entry = strings.TrimSuffix(path[:strings.LastIndexByte(path[:cut], '/')+1], "/")
		if entry == "" && strings.HasPrefix(path, "/") {
			entry = "/"
		}
		if entry == "" {
			entry = "."
		}
		o, why = Narrowed, fmt.Sprintf("%s; %s is closed as a whole", problem, entry)
	}
	i.p.Paths = append(i.p.Paths, policy.PathGrant{Path: entry, Access: access, Source: i.p.source(line)})
	i.note(line, text, o, why, "filesystem "+string(access)+" "+entry)
}

// shorten cuts a statement for the report.
func shorten(s string) string {
	if len(s) > 120 {
		return s[:117] + "..."
	}
	return s
}
