package path

import (
	"fmt"
	"strings"
)

// CheckWindowsName refuses names that mean something else to Windows, which
// may read the same directory over a shared mount: the characters < > : " | ? *
// and the backslash, alternate data streams ("name::$DATA", by their colon),
// 8.3 names ("PROGRA~1"), long prefixes (`\\?\`, `\\.\`), device names, and
// names that end in a dot or a blank, which Windows drops. The error is
// [ErrWindowsName]. "a..b", "x~", "~" and ".." are fine.
func CheckWindowsName(path string) error {
	for i, name := range strings.Split(path, "/") {
		if name == "" || name == "." || name == ".." || i == 0 && name == "~" {
			continue
		}
		if why := windowsTrick(name); why != "" {
			return fmt.Errorf("%s: %w: %s", shorten(name), ErrWindowsName, why)
		}
	}
	return nil
}

func windowsTrick(name string) string {
	for _, c := range name {
		if c < 0x20 {
			return "a control character"
		}
		if strings.ContainsRune(`<>:"|?*\`, c) {
			return fmt.Sprintf("the character %q", c)
		}
	}
	if last := name[len(name)-1]; last == '.' || last == ' ' {
		return "it ends in a dot or a blank"
	}
	base, _, _ := strings.Cut(name, ".")
	if isShortName(base) {
		return "it has the form of an 8.3 name"
	}
	if isDevice(strings.ToUpper(strings.TrimRight(base, " "))) {
		return "it is a device"
	}
	return ""
}

// isShortName reports whether base is up to six characters, a tilde and
// digits, eight in all: the form that Windows makes for long names.
func isShortName(base string) bool {
	i := strings.LastIndexByte(base, '~')
	if i <= 0 || i == len(base)-1 || len(base) > 8 {
		return false
	}
	return strings.Trim(base[i+1:], "0123456789") == ""
}

func isDevice(base string) bool {
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, port := range []string{"COM", "LPT"} {
		if number, ok := strings.CutPrefix(base, port); ok && len(number) == 1 && number >= "1" && number <= "9" {
			return true
		}
	}
	return false
}
