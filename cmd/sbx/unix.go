package main

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

const closeOnExec = unix.FD_CLOEXEC

// fcntlGetFD returns the descriptor flags of n.
func fcntlGetFD(n int) (int, error) { return unix.FcntlInt(uintptr(n), unix.F_GETFD, 0) }

// diskUse is what a file takes on disk: blocks of 512 bytes, see stat(2).
func diskUse(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
