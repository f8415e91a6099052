package test

import (
	"encoding/json"
	"fmt"
	"os"
)

// partWord starts a player of a part that is not a vector: what it plays is
// judged by a test of its own.
const partWord = "-part"

func parts() map[string]func(places) error {
	return map[string]func(places) error{
		"bare HTTP":          serveBare,
		"type into terminal": typeInto,
		"processes":          bombProcesses,
		"threads":            bombThreads,
		"zombies":            bombZombies,
		"chain":              bombChain,
		"memory":             bombMemory,
		"memory of many":     bombManyMemories,
		"memory file":        bombMemoryFile,
		"temporary files":    bombTemp,
		"shared files":       bombSharedFiles,
		"segments":           bombSegments,
	}
}

// part is the command line of a player.
func (s *scene) part(name string) []string {
	s.Helper()
	text, err := json.Marshal(s.places)
	s.must(err)
	return []string{s.program("player"), partWord, name, string(text)}
}

func playPart(name, text string) int {
	var p places
	run := parts()[name]
	if err := json.Unmarshal([]byte(text), &p); err != nil || run == nil {
		fmt.Fprintln(os.Stderr, "player: no part", name, err)
		return 3
	}
	if err := run(p); err != nil {
		fmt.Fprintln(os.Stderr, "player:", err)
		return 1
	}
	return 0
}
