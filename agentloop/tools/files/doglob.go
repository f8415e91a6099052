package files

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// MaxGlobbed bounds the names of one answer.
const MaxGlobbed = 1000

// GlobRequest asks for the files that match.
type GlobRequest struct {
	Pattern string `json:"pattern"` // empty: the path itself
	All     bool   `json:"all,omitempty"`
	Fold    bool   `json:"fold,omitempty"` // case does not count
}

func handleGlob(q Request, a *Answer) error {
	p, err := at(q)
	if err != nil {
		return err
	}
	defer p.close()
	a.Real = p.real
	pattern := q.Glob.Pattern
	if pattern == "" {
		if p.exists {
			a.Found = []Found{{Path: p.real}}
		}
		return nil
	}
	if q.Glob.Fold {
		pattern = strings.ToLower(pattern)
	}
	if err := checkPattern(pattern); err != nil {
		return err
	}
	f, err := p.openDir()
	if err != nil {
		return err
	}
	defer f.Close()
	return collect(a, maxSearchTime, func(add func(Found)) (string, error) {
		w, n := newWalker(p, q.Glob.All), 0
		w.visit = func(rel, _ string, _ int, _ os.FileMode) bool {
			subject := rel
			if q.Glob.Fold {
				subject = strings.ToLower(rel)
			}
			if !doublestar.MatchUnvalidated(pattern, subject) {
				return true
			}
			if n++; n > MaxGlobbed {
				w.cut = fmt.Sprintf("more than %d files match", MaxGlobbed)
				return false
			}
			add(Found{Path: path.Join(p.real, rel)})
			return true
		}
		w.walk(f)
		return w.cut, nil
	})
}
