package landlock_test

import (
	"fmt"

	"sandboxd/landlock"
)

func ExampleRuleset_Plan() {
	rs := landlock.Ruleset{Paths: []landlock.PathRule{
		{Path: "/usr", Access: landlock.ReadExec},
		{Path: "/dev/null", Access: landlock.Device},
		{Path: "/no/such/file", Access: landlock.Read, Optional: true},
	}, ScopeSignal: true}
	// As a kernel of Linux 6.7 has it; a real caller passes Probe().
	plan, enforced, err := rs.Plan(landlock.Support{ABI: 4, Errata: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range plan.Rules {
		fmt.Println(r.Path, r.Access)
	}
	fmt.Println("skipped:", enforced.Skipped)
	for _, g := range enforced.Gaps {
		fmt.Printf("ABI %d: %s; instead: %s\n", g.ABI, g.Why, g.Instead)
	}
	// Output:
	// /usr execute read_file read_dir
	// /dev/null write_file read_file
	// skipped: [/no/such/file]
	// ABI 5: a device that can be opened takes every ioctl; instead: a minimal /dev, and seccomp refusing terminal injection
	// ABI 6: processes of the same user can be signalled, abstract sockets reached; instead: own pid and network namespaces
}
