package policy

import (
	"os"
	"path/filepath"
	"testing"
)

// A pattern names links too, and what goes up behind a name that is not known may
// be anywhere: neither is read without a question.
func TestPatternsDoNotReadThroughLinks(t *testing.T) {
	dir, cfg := place(t)
	secret := filepath.Join(t.TempDir(), "secret")
	for name, target := range map[string]string{"out/x.md": secret, "in/x.md": "../src/a", "gone/x.md": filepath.Join(dir, "nothing")} {
		link := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := engine(t, cfg)
	verdicts(t, e, all(Ask, "cat out/x.md", "cat out/*.md", "cat out/*", "head out/?.md", "for f in out/*; do cat \"$f\"; done", "cd out && cat *", "wc out/[x].md",
		"cat */../../secret", "cat src/*/../../../secret", "for f in *; do cat \"$f/../../secret\"; done", `find . -type f -exec cat {}/../../secret \;`,
		"find . -exec cat {} +", "find -L . -type f -exec cat {} +"))
	verdicts(t, e, all(Allow, "cat in/x.md", "cat in/*.md", "cat src/*", "cat gone/*.md", "cat src/../src/*", "cat a..b*", "for f in src/*; do cat \"$f\"; done",
		"find . -type f -exec cat {} +"))
}
