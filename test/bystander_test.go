package test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bystander is an outside process of the scene's user. It lives until the test ends.
type bystander struct {
	PID int
	// Address is where its memory holds the token.
	Address string
}

// bystander starts one: the token is in its memory, its environment, its
// arguments and, as descriptor 3, in a file of its own; Out is its directory.
// prepare, when given, is the name of something it does first, see bystand.
func (s *scene) bystander(prepare string) bystander {
	s.Helper()
	stand := *s
	stand.places.Extra = map[string]string{"prepare": prepare, "token": s.Token}
	stand.Env = []string{"BYSTANDER_SECRET=" + s.Token}
	file, err := os.Open(s.file(s.Out+"/bystander", s.Token))
	s.must(err)
	defer file.Close()
	stand.files = []*os.File{file}
	c := stand.command(stand.player("", "bystander")...)
	c.Dir = s.Out
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	s.must(err)
	stdout, err := c.StdoutPipe()
	s.must(err)
	s.must(c.Start())
	s.Cleanup(func() { stdin.Close(); c.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	s.must(err)
	return bystander{PID: c.Process.Pid, Address: strings.TrimSpace(line)}
}

// bystand is the bystander's main. It lets itself be traced where Yama forbids
// that between siblings, so that only confinement can be what refuses.
func bystand(p places) int {
	const anyTracer = ^uintptr(0)
	unix.Prctl(unix.PR_SET_PTRACER, anyTracer, 0, 0, 0) // fails where there is no Yama
	memory, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		copy(memory, p.Extra["token"])
		err = bystanderDoes(p.Extra["prepare"], p.Extra["token"])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bystander:", err)
		return 1
	}
	fmt.Printf("%x\n", uintptr(unsafe.Pointer(&memory[0])))
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// bystanderDoes sets up what belongs to a user and not to a path.
func bystanderDoes(what, token string) error {
	switch what {
	case "key":
		// A key in the user keyring that its owner may find without possessing it.
		const ownerMay = 0x3f3f0000
		id, err := unix.AddKey("user", "sandboxd-"+token[6:14], []byte(token), unix.KEY_SPEC_USER_KEYRING)
		if err != nil {
			return err
		}
		return unix.KeyctlSetperm(id, ownerMay)
	}
	return nil
}
