package api

import (
	"testing"

	"sandboxd/agentloop"
)

// A shell's second command has the session of its first one, and so has one after a cd
// and back; whatever else differs makes another.
func TestKeyOfASessionIsThatOfItsVariables(t *testing.T) {
	e := &execSessions{secret: []byte("k")}
	key := func(asked []string, environ ...string) requestKey {
		t.Helper()
		r := agentloop.SessionRequest{Cwd: "/w", Environ: environ}
		r.Grant.EnvPass = asked
		k, err := e.keyOf(agentloop.Peer{}, r)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := key(nil, "SHELL=/bin/bash", "_=/usr/bin/sbx", "HOME=/h", "OLDPWD=/a", "PATH=/bin")
	for name, tt := range map[string]struct {
		got  requestKey
		same bool
	}{
		"later in the shell":       {key(nil, "PATH=/bin", "SHELL=/bin/bash", "HOME=/h", "OLDPWD=/b", "_=/usr/bin/sbx"), true},
		"from a script":            {key(nil, "HOME=/h", "PATH=/bin", "SHELL=/bin/bash"), true},
		"another value":            {key(nil, "SHELL=/bin/bash", "HOME=/h", "PATH=/evil"), false},
		"one more":                 {key(nil, "SHELL=/bin/bash", "HOME=/h", "PATH=/bin", "X="), false},
		"one less":                 {key(nil, "SHELL=/bin/bash", "HOME=/h"), false},
		"a name that begins alike": {key(nil, "SHELL=/bin/bash", "HOME=/h", "PATH=/bin", "_X=1"), false},
	} {
		if (tt.got == first) != tt.same {
			t.Errorf("%s: the same session is %v, want %v", name, tt.got == first, tt.same)
		}
	}
	if key(nil, "A=1", "A=2") == key(nil, "A=2", "A=1") {
		t.Error("the order of two with one name, which says what counts, does not matter")
	}
	if asked := []string{"OLDPWD"}; key(asked, "OLDPWD=/a") == key(asked, "OLDPWD=/b") {
		t.Error("a variable that was asked for does not matter")
	}
}
