package files

import (
	"fmt"
	"time"
)

// collect takes what a search finds into an answer, until the search is done or its
// time is over: an expression can take long over one file, where the walk does not
// look at the clock. A search that is given up is not waited for; its process
// ends with the answer.
func collect(a *Answer, limit time.Duration, search func(add func(Found)) (cut string, err error)) error {
	type end struct {
		cut string
		err error
	}
	items, done := make(chan Found), make(chan end, 1)
	go func() {
		cut, err := search(func(f Found) { items <- f })
		done <- end{cut, err}
	}()
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		select {
		case f := <-items:
			a.Found = append(a.Found, f)
		case e := <-done:
			a.Cut = e.cut
			return e.err
		case <-over.C:
			a.Cut = fmt.Sprintf("more than %v", limit)
			return nil
		}
	}
}
