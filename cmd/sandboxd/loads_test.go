package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"sandboxd/cmd/sandboxd/api"
)

func TestConversationsOfAUserAreLoadedByTwos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loads
		var over []func()
		for range maxLoads {
			done, err := l.begin(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			over = append(over, done)
		}
		if done, err := l.begin(t.Context(), 1001); err != nil {
			t.Errorf("somebody else: %v", err)
		} else {
			done()
		}
		ctx, cancel := context.WithCancel(t.Context())
		third := make(chan error, 2)
		go func() { _, err := l.begin(ctx, 1000); third <- err }()
		synctest.Wait()
		select {
		case err := <-third:
			t.Fatalf("a third did not wait: %v", err)
		default:
		}
		cancel()
		if f, ok := errors.AsType[*api.Fault](<-third); !ok || f.Code != api.CodeBusy {
			t.Errorf("a third that gives up: %v, want code busy", f)
		}
		go func() { _, err := l.begin(t.Context(), 1000); third <- err }()
		synctest.Wait()
		over[0]()
		if err := <-third; err != nil {
			t.Errorf("after the end of one: %v", err)
		}
	})
}
