package test

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSocketsBoundLater: what is bound below a directory granted for reading after
// the start is reached where the kernel has no right for it, and the result says so.
func TestSocketsBoundLater(t *testing.T) {
	for _, uid := range users() {
		for _, tier := range tiers() {
			s := newScene(t, uid, tier)
			at := s.mkdir(s.Out+"/read") + "/s"
			bound := make(chan error, 1)
			go func() {
				for range 500 {
					if exists(s.Work + "/started") {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				l, err := net.Listen("unix", at)
				if err == nil {
					err = os.Chmod(at, 0o777)
					t.Cleanup(func() { l.Close() })
				}
				bound <- err
			}()
			script := `use Socket; open(my $f, ">", "started"); close $f; for (1..40) { select(undef, undef, undef, 0.05);
				socket(my $s, AF_UNIX, SOCK_STREAM, 0) or next; connect($s, pack_sockaddr_un($ARGV[0])) and print("connected") and exit }`
			r := s.sbx([]string{"--ro", s.Out + "/read"}, "perl", "-e", script, at)
			if err := <-bound; err != nil {
				t.Fatal(err)
			}
			held := (observed{result: r}).mechanism("UNIX sockets")
			switch connected := strings.Contains(r.Stdout, "connected"); {
			case !exists(s.Work + "/started"):
				t.Errorf("uid %d, %s: the attack did not run: %s", uid, tier, r.Stderr)
			case connected && (tier == "base" || !strings.Contains(held, "bound later")):
				t.Errorf("uid %d, %s: it is reached, and the result says %q", uid, tier, held)
			case !connected && strings.Contains(held, "bound later"):
				t.Errorf("uid %d, %s: it is not reached, and the result says %q", uid, tier, held)
			}
		}
	}
}
