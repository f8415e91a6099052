package main

import (
	"context"
	"sync"

	"sandboxd/cmd/sandboxd/api"
)

// maxLoads bounds how many conversations of one uid are read into memory at once.
// Each may have 64 MiB, and is counted among those that are held only when it is read.
const maxLoads = 2

// loads lets those that are too many wait. It keeps one channel for each uid that ever
// came. The zero value is ready, and safe for concurrent use.
type loads struct {
	mu sync.Mutex
	of map[int]chan struct{}
}

// begin waits for a place until ctx ends.
func (l *loads) begin(ctx context.Context, uid int) (done func(), err error) {
	l.mu.Lock()
	places := l.of[uid]
	if places == nil {
		if l.of == nil {
			l.of = map[int]chan struct{}{}
		}
		places = make(chan struct{}, maxLoads)
		l.of[uid] = places
	}
	l.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, api.NewFault(api.CodeBusy, "try again", "uid %d resumes %d conversations already", uid, maxLoads)
	}
}
