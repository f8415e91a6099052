// Package policy decides whether a tool call may run, and says why.
//
// # Limits
//
// A decision is advice until exec enforces the grant in the kernel: this package
// starts nothing and stops nothing.
package policy
