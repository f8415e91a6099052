package exec

import (
	"os"
	"syscall"

	"sandboxd/exec/child"
)

// CatchSignals catches list for [Spec.Signals] of one run, also what is ignored;
// only one run of a process at a time can. It costs a tenth of signal.Notify and
// Stop, which for nine signals are a millisecond or two of a launch.
//
// Each is given to pass, which hands it to the run by deliver, or something else, or
// nothing. deliver returns false when end was called, which waits for pass.
func CatchSignals(pass func(s os.Signal, deliver func(os.Signal) bool), list ...syscall.Signal) (signals <-chan os.Signal, end func(), err error) {
	caught, err := child.CatchSignals(list...)
	if err != nil {
		return nil, nil, err
	}
	out, stop, done := make(chan os.Signal), make(chan struct{}), make(chan struct{})
	deliver := func(s os.Signal) bool {
		select {
		case out <- s:
			return true
		case <-stop:
			return false
		}
	}
	go func() {
		defer close(done)
		for {
			s, err := caught.Next()
			if err != nil {
				return
			}
			pass(s, deliver)
		}
	}()
	return out, func() {
		close(stop)
		caught.Close()
		<-done
	}, nil
}
