package agentloop

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

// The word that a flag, a field or a form tells of is masked wherever it stands in
// what is kept: of this call and of later ones.
func TestSecretOfACallIsNowhereInItsRows(t *testing.T) {
	const secret = "segelboot-9931"
	for _, tt := range []struct {
		name string
		call policy.Call
	}{
		{"a flag in a script", policy.BashCall("touch "+secret+"; echo x --password "+secret+"; echo "+secret, "")},
		{"a flag and a word", policy.ArgvCall([]string{"echo", "--token", secret, "and", secret}, "")},
		{"an assignment", policy.BashCall("API_KEY="+secret+" sh -c 'echo "+secret+"'", "")},
		{"an address", policy.BashCall("echo https://me:"+secret+"@example.org/; ls "+secret+" /nowhere/"+secret, "")},
		{"a field of another name", policy.Call{Tool: "run_bash", Args: policy.Args{"command": "echo " + secret, "password": secret}}},
		{"a field below", policy.Call{Tool: "run_bash", Args: policy.Args{"command": "echo " + secret, "more": []any{map[string]any{"api_key": secret}}}}},
		{"a list of words", policy.Call{Tool: "run_bash", Args: policy.Args{"command": "echo " + secret, "more": []any{"--secret", secret}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, allowing("run_bash(*"+secret+"*)", "run_bash"))
			w.d.Dispatch(t.Context(), w.s, ToolCall{Call: tt.call})
			missing := []string{"/nowhere/" + secret, "--token", secret}
			if res := w.d.Dispatch(t.Context(), w.s, ToolCall{Call: policy.ArgvCall(missing, ""), Argv: missing}); !strings.Contains(res.Error, "/nowhere/") {
				t.Errorf("a program that is not there: %s", res.Error)
			}
			w.bash("echo later " + secret)
			if len(w.log.rows) < 3 {
				t.Fatalf("rows %v", w.log.statuses())
			}
			for _, row := range w.log.rows {
				text, err := json.Marshal(row)
				if err != nil || strings.Contains(string(text), secret) {
					t.Errorf("%s: %v", text, err)
				}
			}
		})
	}
	w := newWorld(t, allowing("run_bash"))
	if res := w.bash("echo --token $NONE production; echo --password=/run/secrets/db; echo production /run/secrets/db $NONE"); !strings.Contains(w.log.rows[1].OutputPreview, "production /run/secrets/db") {
		t.Errorf("a reference and a path are no secrets: %q %s", w.log.rows[1].OutputPreview, res.Error)
	}
}

// What a session is kept as holds no secret, wherever one stood; and one that would
// be another without it ends with its daemon.
func TestSessionIsKeptWithoutSecrets(t *testing.T) {
	const byForm, byName = "ghp_0123456789abcdefghijABCDEFGHIJ456789", "quarzlampe77x"
	env := []string{"PATH=/usr/bin:/bin", "HOME=/home/u", "PLAIN=" + byForm, "DEPLOY_TOKEN=" + byName, "URL=https://u:" + byName + "@h/"}
	base := SessionRequest{Cwd: "/w", Environ: env, Grant: policy.Grant{EnvSet: []string{"A=b", "B=" + byForm, "C=" + byName}}}
	for _, tt := range []struct {
		name   string
		edit   func(*SessionRequest)
		lasts  bool
		holdsA string // still there
	}{
		{"variables", func(*SessionRequest) {}, true, `"A=b"`},
		{"a network", func(r *SessionRequest) { r.Grant.Network = []string{"my-secret-host:8443"} }, true, "my-secret-host:8443"},
		{"a path", func(r *SessionRequest) {
			r.Grant.Paths = []policy.PathGrant{cli("/x/"+byForm, policy.GrantDeny)}
		}, false, ""},
		{"a policy file", func(r *SessionRequest) { r.Policy = []string{"/x/" + byName + ".toml"} }, false, ""},
		{"a directory", func(r *SessionRequest) { r.Cwd = "/w/" + byForm }, false, ""},
		{"a socket", func(r *SessionRequest) { r.Grant.Unix = []string{"@" + byForm} }, false, ""},
	} {
		r := base
		tt.edit(&r)
		s := newSession("s", Peer{}, r, sessionParts{now: time.Now})
		text, err := json.Marshal(s.State())
		if err != nil || strings.Contains(string(text), byForm) || strings.Contains(string(text), byName) {
			t.Errorf("%s: %v %s", tt.name, err, text)
		}
		if s.State().Incomplete == tt.lasts || !strings.Contains(string(text), tt.holdsA) {
			t.Errorf("%s: incomplete %v: %s", tt.name, s.State().Incomplete, text)
		}
	}
}

// A rule with a secret is in force and is not kept where it allows, and is refused
// where it denies or asks: it would be lost with the daemon.
func TestRuleWithASecret(t *testing.T) {
	const byForm = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	for pattern, secret := range map[string]bool{
		"run_bash(git push https://me:hunter2hunter@example.org/x)": true, "run_bash(curl --token " + byForm + " *)": true, "run_bash(*" + byForm + "*)": true,
		"run_bash(mysql --password=hunter22 *)": true, "run_bash(mysql --password=hunter2*)": true, "run_bash(deploy quarzlampe77x)": true,
		"run_bash(mysql --password=*)": false, "run_bash(mysql --password *)": false, "run_bash(vault --token $VAULT_TOKEN *)": false, "run_bash(echo ${API_KEY})": false,
		"run_bash(rm -rf *)": false, "effect(read ~/.aws/credentials)": false, "effect(network secret-host)": false, "web_fetch(https://example.org/*)": false,
	} {
		w := newWorld(t, nil)
		w.s = newSession("s", w.peer(), SessionRequest{Environ: []string{"DEPLOY_TOKEN=quarzlampe77x"}}, sessionParts{now: time.Now})
		w.s.workspace = w.host.Cwd
		if err := w.s.install(PolicyInForce{Config: policy.Config{Workspace: w.host.Cwd, Home: "/home/u"}}); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []policy.Kind{policy.DenyRule, policy.AskRule} {
			if err := w.s.AddRule(kind, pattern, "t"); errors.Is(err, ErrSecretRule) != secret || !secret && err != nil {
				t.Errorf("%v %s: %v", kind, pattern, err)
			}
		}
		if err := w.s.AddRuleFor(policy.AllowRule, pattern, "token: "+byForm, "t"); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		if !slices.ContainsFunc(w.s.Rules(), func(r policy.Rule) bool { return r.Kind == policy.AllowRule && r.Pattern == pattern }) {
			t.Errorf("%s is not in force", pattern)
		}
		kept := fmt.Sprint(w.s.State().Rules)
		if strings.Contains(kept, "allow "+pattern) == secret || strings.Contains(kept, byForm) {
			t.Errorf("%s: kept %s", pattern, kept)
		}
	}
}

func TestQuestionIsKeptWithoutSecrets(t *testing.T) {
	const secret = "segelboot-9931"
	s := newSession("s", Peer{}, SessionRequest{}, sessionParts{now: time.Now})
	args := policy.Args{"command": "echo " + secret, "password": secret, "path": "/x/" + secret}
	text, _ := json.Marshal(args)
	q := PendingQuestion{Args: text, Script: "echo " + secret, Shown: "echo " + secret, Reads: []string{"/x/" + secret}, AlwaysRules: []string{"run_bash(echo " + secret + ")"}, Why: secret}
	stored, err := json.Marshal(storedQuestion(q, s.keptWith(args)))
	if err != nil || strings.Contains(string(stored), secret) || !strings.Contains(string(stored), "echo [secret]") {
		t.Errorf("%v %s", err, stored)
	}
	if row, _ := json.Marshal(askRow(q, s)); strings.Contains(string(row), secret) {
		t.Errorf("%s", row)
	}
}

// What a model says before the call that tells of a secret is kept without it too.
func TestEntryIsKeptWithoutSecretsOfItsCalls(t *testing.T) {
	const secret = "segelboot-9931"
	s := newSession("s", Peer{}, SessionRequest{}, sessionParts{now: time.Now})
	m := Message{Blocks: []Block{{Kind: BlockText, Text: "I take " + secret}, {Tool: "run_bash", Args: `{"command":"deploy --password ` + secret + `"}`}}}
	for _, e := range []Entry{{Kind: EntryMessage, Message: &m}, {Kind: EntryMessage, Message: &Message{Blocks: []Block{{Kind: BlockText, Text: "later " + secret}}}}} {
		text, err := json.Marshal(maskEntry(s.keptFor(e), e))
		if err != nil || strings.Contains(string(text), secret) || !strings.Contains(string(text), mask) {
			t.Errorf("%v %s", err, text)
		}
	}
}

// The oldest secrets of a session make room for new ones.
func TestLearnedSecretsAreBounded(t *testing.T) {
	k := &keptMask{base: NewRedactor([]string{"DEPLOY_TOKEN=quarzlampe77x"})}
	for i := range 2 * maxLearned {
		k.learn(fmt.Sprintf("word-%06d", i))
	}
	red := k.learn()
	if got := red.Mask("word-000000 word-000511 quarzlampe77x"); got != "word-000000 [secret] [secret]" || len(red.values) > maxLearned+1 {
		t.Errorf("%q with %d values", got, len(red.values))
	}
	k.base.Learn("later-one")
	if got := k.learn().Mask("later-one"); got != mask {
		t.Errorf("what the session's own mask learned: %q", got)
	}
}
