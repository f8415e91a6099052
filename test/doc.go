// Package test holds the checks that look at sandboxd from outside: its layout,
// its documents and the running program.
//
// # Limits
//
// The layout check reads import declarations only. It does not see what a
// package reaches through interfaces or linked symbols.
package test
