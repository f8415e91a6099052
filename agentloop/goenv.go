package agentloop

import (
	"path/filepath"
	"strings"
)

// readGoEnv reads the settings file of the go command ("go env -w"). The file
// itself is not shown to the command, since it may name places and credentials;
// its values travel as variables by the same rules as the environment.
func readGoEnv(environ []string, home string) map[string]string {
	file := lookupEnv(environ, "GOENV")
	if file == "off" {
		return nil
	}
	if file == "" {
		base := lookupEnv(environ, "XDG_CONFIG_HOME")
		if !filepath.IsAbs(base) {
			if home == "" {
				return nil
			}
			base = home + "/.config"
		}
		file = base + "/go/env"
	}
	text, err := readSmall(file)
	if err != nil {
		return nil
	}
	settings := make(map[string]string)
	for line := range strings.SplitSeq(text, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && name != "" && name[0] != '#' {
			settings[name] = value
		}
	}
	return settings
}

// goSetting is a setting of the go command: the variable, else the file.
func (b *builder) goSetting(name string) string {
	if v := lookupEnv(b.c.Environ, name); v != "" {
		return v
	}
	return b.goEnv[name]
}
