package policy

import "sync"

// longToShort are long options and the letter that means the same, by program
// or "program sub-command". A deny or ask rule written with one form also
// matches the other. From the manual pages of coreutils 9, git 2.47, curl 8.
var longToShort = sync.OnceValue(func() map[string]map[string]byte {
	return map[string]map[string]byte{
		"rm":           {"--recursive": 'r', "--force": 'f', "--dir": 'd', "--interactive": 'i', "--verbose": 'v'},
		"cp":           {"--recursive": 'r', "--force": 'f', "--archive": 'a', "--link": 'l', "--symbolic-link": 's'},
		"mv":           {"--force": 'f', "--no-clobber": 'n'},
		"ln":           {"--symbolic": 's', "--force": 'f'},
		"chmod":        {"--recursive": 'R'},
		"chown":        {"--recursive": 'R'},
		"chgrp":        {"--recursive": 'R'},
		"mkdir":        {"--parents": 'p'},
		"sed":          {"--in-place": 'i', "--quiet": 'n', "--expression": 'e', "--file": 'f'},
		"tee":          {"--append": 'a'},
		"tar":          {"--extract": 'x', "--create": 'c', "--file": 'f', "--list": 't'},
		"curl":         {"--output": 'o', "--remote-name": 'O', "--data": 'd', "--request": 'X', "--upload-file": 'T', "--insecure": 'k', "--location": 'L', "--form": 'F'},
		"wget":         {"--output-document": 'O', "--recursive": 'r'},
		"kill":         {"--signal": 's'},
		"git push":     {"--force": 'f', "--delete": 'd', "--set-upstream": 'u', "--quiet": 'q'},
		"git commit":   {"--all": 'a', "--message": 'm', "--no-verify": 'n'},
		"git checkout": {"--force": 'f'},
		"git switch":   {"--force": 'f', "--create": 'c'},
		"git clean":    {"--force": 'f', "--interactive": 'i', "--dry-run": 'n'},
		"git branch":   {"--delete": 'd', "--force": 'f', "--move": 'm'},
		"git tag":      {"--delete": 'd', "--force": 'f'},
		"git add":      {"--all": 'A', "--force": 'f'},
		"git rm":       {"--force": 'f'},
		"docker run":   {"--volume": 'v', "--detach": 'd', "--interactive": 'i', "--tty": 't', "--env": 'e', "--publish": 'p'},
		"npm install":  {"--global": 'g', "--save-dev": 'D'},
		"pip install":  {"--upgrade": 'U', "--requirement": 'r', "--editable": 'e'},
	}
})

// sameLetter are pairs of short options that mean the same.
var sameLetter = map[string][]string{
	"rm": {"rR"},
	"cp": {"rR"},
}

// dashWords are programs whose options are words behind one dash: -delete is
// one option and not seven letters.
var dashWords = map[string]bool{
	"find": true, "java": true, "javac": true, "go": true, "terraform": true, "tofu": true, "openssl": true,
	"ffmpeg": true, "convert": true, "magick": true, "clang": true, "gcc": true, "g++": true, "cc": true,
	"ssh-keygen": true, "xdotool": true, "qemu-system-x86_64": true,
}
