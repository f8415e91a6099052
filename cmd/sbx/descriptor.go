package main

import "golang.org/x/sys/unix"

const closeOnExec = unix.FD_CLOEXEC

// fcntlGetFD returns the descriptor flags of n.
func fcntlGetFD(n int) (int, error) { return unix.FcntlInt(uintptr(n), unix.F_GETFD, 0) }
