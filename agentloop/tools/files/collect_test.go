package files

import (
	"errors"
	"testing"
	"time"
)

// What was found before a search is given up is shown.
func TestSearchThatHangsIsGivenUp(t *testing.T) {
	hold, ended := make(chan bool), make(chan bool)
	var a Answer
	began := time.Now()
	err := collect(&a, 50*time.Millisecond, func(add func(Found)) (string, error) {
		defer close(ended)
		add(Found{Path: "/one"})
		<-hold
		return "", errors.New("too late")
	})
	if err != nil || a.Cut != "more than 50ms" || len(a.Found) != 1 || time.Since(began) > 5*time.Second {
		t.Errorf("%v, %+v after %v", err, a, time.Since(began))
	}
	close(hold)
	<-ended
	a = Answer{}
	if err := collect(&a, time.Minute, func(add func(Found)) (string, error) { add(Found{}); return "cut", errors.New("x") }); err == nil || a.Cut != "cut" || len(a.Found) != 1 {
		t.Errorf("%v, %+v", err, a)
	}
}
