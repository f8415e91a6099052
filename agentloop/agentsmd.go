package agentloop

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"sandboxd/policy"
	policypath "sandboxd/policy/path"
)

const (
	// instructionsName is the file with instructions for agents.
	instructionsName = "AGENTS.md"
	// maxInstructions bounds all of them together, in bytes; the nearest go first.
	maxInstructions = 32 << 10
	// maxInstructionDirs bounds how far up they are looked for.
	maxInstructionDirs = 64
)

// instructionFile is one of them. Its name is relative to the workspace.
type instructionFile struct{ name, text string }

// instructionFiles reads the AGENTS.md files from the root of the workspace down to
// the user's directory, with the user's rights. Links are not followed, and a file
// that the policy denies is not read.
func (s *Session) instructionFiles(ctx context.Context) []instructionFile {
	var out []instructionFile
	left := maxInstructions
	for _, dir := range s.instructionDirs() {
		name := filepath.Join(dir, instructionsName)
		d, _ := s.Check(ctx, policy.Call{Tool: "read_file", Args: policy.Args{"file_path": filepath.Join(s.workspace, name)}})
		if left == 0 || d.Verdict == policy.Deny {
			continue
		}
		var text string
		if err := s.asUser(func() { text = readBeneath(s.workspace, name, left) }); err != nil || text == "" {
			continue
		}
		left = max(left-len(text), 0) // a note that it is cut may exceed it
		out = append(out, instructionFile{name, text})
	}
	slices.Reverse(out)
	return out
}

// instructionDirs are the directories from the user's up to the workspace, relative
// to it.
func (s *Session) instructionDirs() []string {
	rel, err := filepath.Rel(s.workspace, s.peer.Caller.Cwd)
	if err != nil || !filepath.IsLocal(rel) {
		return []string{"."}
	}
	var out []string
	for ; rel != "." && len(out) < maxInstructionDirs; rel = filepath.Dir(rel) {
		out = append(out, rel)
	}
	return append(out, ".")
}

// readBeneath reads a regular file below root without following any link or waiting
// for a pipe. What is past limit is cut, at a line, and said. A file that cannot be
// read so is as one that is not there.
func readBeneath(root, name string, limit int) string {
	dir, err := policypath.OpenNamed(root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return ""
	}
	defer unix.Close(dir)
	steps := strings.Split(filepath.Clean(name), "/")
	for _, step := range steps[:len(steps)-1] {
		next, err := unix.Openat(dir, step, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return ""
		}
		defer unix.Close(next)
		dir = next
	}
	return readStart(dir, steps[len(steps)-1], limit)
}

func readStart(dir int, name string, limit int) string {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	content, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return ""
	}
	more := ""
	if len(content) > limit {
		content = content[:bytes.LastIndexByte(content[:limit], '\n')+1]
		more = "[the rest is left out: too long]\n"
	}
	if !utf8.Valid(content) {
		return ""
	}
	return string(content) + more
}
