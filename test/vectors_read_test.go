package test

import (
	"fmt"
	"os"
)

// readVectors are ways to read what is outside.
func readVectors() []vector {
	secret := func(s *scene) { s.file(s.Out+"/secret", s.Token) }
	inside := func(s *scene) { secret(s); s.file(s.Work+"/mine", "mine") }
	return []vector{
		{name: "read absolute path", setup: inside, reached: leaks,
			attack: func(p places) error { return show(p.Out + "/secret") },
			honest: func(p places) error { return show(p.Work + "/mine") }},
	}
}

// show prints a file.
func show(path string) error {
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Printf("%s\n", text)
	}
	return err
}
