// Package landlock limits what a process can reach, using the Landlock LSM.
//
//	rs := landlock.Ruleset{
//		Paths: []landlock.PathRule{
//			{Path: "/usr", Access: landlock.ReadExec},
//			{Path: work, Access: landlock.ReadExec | landlock.Write},
//		},
//		ScopeSignal: true, ScopeAbstractUnix: true, LogExec: true,
//	}
//	fd, flags, enforced, err := rs.Open(landlock.Probe())
//
// The parent opens the ruleset; the child binds itself with [Restrict], or with
// the same two calls in C, which cannot be undone. Where the child changes its
// mounts first, [Ruleset.Plan] gives the same ruleset as data to build there.
// [Enforced] says what this kernel really enforces, and [Levels] what each ABI
// lacks.
//
// Every file right of the ABI is handled, so what no rule grants is refused.
// Making device nodes is handled and can not be granted.
//
// # Rules
//
// Rights add up: two rules on one inode, or on a directory and one above it,
// grant the union. There is no rule that takes away; that needs a mount view.
// A rule is bound to the inode that its path named when the ruleset was built:
// a file or directory put in its place later is not covered, and neither is a
// file system mounted over it. Symbolic links are followed then. Walking a link
// needs no right, so only the target gets a rule and every link to it works.
//
// # Limits
//
// As of ABI 7, Landlock does not restrict stat(2), chdir(2), chmod(2),
// chown(2), utime(2), setxattr(2), flock(2), readlink(2), sockets other than
// TCP (multipath TCP is another), connect(2) to UNIX sockets in the file
// system, or listen(2) on a socket that was never bound. Network rules know
// ports, not addresses. Descriptors that are open already keep what they can
// do. A process has at most [MaxLayers] rulesets, its ancestors' included.
package landlock
