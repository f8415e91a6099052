package agentloop

import (
	"slices"
	"strings"
)

// assignsSecret reports whether a value that holds options or settings gives one of
// them a secret: "--password=x", "--token x", "user=u;password=x", "Bearer x".
// It is told from switches and places ("-DUSE_TOKEN=1", "--password-file=/run/p") by
// the name and by what is assigned.
func assignsSecret(value string) bool {
	if !strings.ContainsAny(value, "=: ") || !mayNameSecret(strings.ToUpper(value)) {
		return false
	}
	unquoted := strings.Map(func(c rune) rune {
		if strings.ContainsRune(`"'\`, c) {
			return -1
		}
		return c
	}, value)
	words := strings.FieldsFunc(unquoted, func(c rune) bool { return strings.ContainsRune(" \t\n\r;,&?|{}", c) })
	for i, word := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch name := strings.ToLower(word); {
		case (name == "bearer" || name == "basic") && len(next) >= 8,
			strings.HasSuffix(name, ":") && secretSetting(name[:len(name)-1]) && next != "":
			return true
		case strings.HasPrefix(word, "--") && !strings.Contains(word, "=") && secretSetting(word) && next != "" && next[0] != '-' && !harmless(next, 1):
			return true
		}
		if name, text, ok := strings.Cut(word, ":"); ok && !strings.Contains(word, "=") && text != "" && text[0] != ':' && secretSetting(name) && !harmless(text, 1) {
			return true
		}
		for name, rest, ok := strings.Cut(word, "="); ok; name, rest, ok = strings.Cut(rest, "=") {
			assigned, _, _ := strings.Cut(rest, "=")
			shortest := 1
			if strings.HasPrefix(name, "-D") {
				shortest = 4 // -DTOKEN_TYPE=int is no secret
			}
			if secretSetting(name) && !harmless(assigned, shortest) {
				return true
			}
		}
	}
	return false
}

// mayNameSecret is a quick look that spares most values the rest: something in every
// name that secretSetting knows, and the schemes of HTTP.
func mayNameSecret(upper string) bool {
	return slices.ContainsFunc([]string{"TOKEN", "SECRET", "PASS", "CRED", "KEY", "SESSION", "COOKIE", "PWD", "PAT", "JWT", "DSN", "BEARER", "BASIC"},
		func(part string) bool { return strings.Contains(upper, part) })
}

// settingWords mark a setting as a secret beside secretParts, as a word of its
// name. Fewer than secretWords: KEY, AUTH, SEED and others name ordinary settings.
var settingWords = []string{"PASS", "PWD", "PAT", "JWT", "DSN", "CREDS", "CRED"}

// placeWords end the name of a setting that tells where a secret is, or of what kind.
var placeWords = []string{"FILE", "PATH", "DIR", "COMMAND", "CMD", "ENV", "NAME", "TYPE", "URL", "URI", "HELPER", "STORE", "LENGTH", "LEN", "SIZE", "TTL", "STDIN"}

// secretSetting reports whether the name of an option or setting says that it holds
// a secret.
func secretSetting(name string) bool {
	upper := strings.ToUpper(strings.TrimLeft(name, "-"))
	words := strings.FieldsFunc(upper, func(c rune) bool { return strings.ContainsRune("-_.:/", c) })
	if len(words) == 0 || slices.Contains(placeWords, words[len(words)-1]) {
		return false
	}
	joined := strings.Join(words, "")
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(joined, part) }) ||
		slices.ContainsFunc(words, func(w string) bool { return slices.Contains(settingWords, w) })
}

// switches are values of settings that are no secrets, whatever the name says.
var switches = []string{"true", "false", "yes", "no", "on", "off", "none", "auto", "always", "never", "prompt",
	"trace", "debug", "info", "warn", "warning", "error", "critical"}

// harmless reports whether a value is a switch, a number, a place or a reference, or
// shorter than shortest.
func harmless(value string, shortest int) bool {
	return len(value) < shortest || strings.ContainsRune("/.~$%", rune(value[0])) ||
		strings.Trim(value, "0123456789") == "" && len(value) < 4 || slices.Contains(switches, strings.ToLower(value))
}
