package seccomp

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// compilerVersion is part of the cache key. It changes whenever the same
// profile would be compiled to other instructions (compile.go, bpf.go).
const compilerVersion = 1

// cacheMagic begins every cache file. Behind it stand the key, the SHA-256 of
// the rest, and the rest: the length of the unknown names (32 bits), those
// names separated by spaces, and the instructions.
const cacheMagic = "sandboxd seccomp cache 1\n"

// maxCacheBytes bounds what is read from a cache file: the longest program, and
// every system call's name.
const maxCacheBytes = 64 << 10

var errStale = errors.New("cache file is not usable")

// Cached is [Profile.Compile] with a cache of files in dir, which is made if
// its parent exists. The name of a file is a hash of everything the filter
// depends on. A file is used only if it and dir belong to the effective user,
// nobody else may write (or read the file), and its content is what was
// written; in any doubt the filter is compiled again. The cache is never the
// reason for an error. An empty dir means no cache.
//
// dir must not be writable for a confined command: that would let it choose the
// filter of the next one.
func Cached(dir string, p Profile, arch string, o Options) (Filter, error) {
	if dir == "" {
		return p.Compile(arch, o)
	}
	key := p.key(arch, o)
	name := hex.EncodeToString(key[:]) + ".bpf"
	at, err := openCacheDir(dir)
	if err != nil {
		return p.Compile(arch, o)
	}
	defer unix.Close(at)
	if f, err := loadFilter(at, name, key, arch); err == nil {
		return f, nil
	}
	f, err := p.Compile(arch, o)
	if err != nil {
		return Filter{}, err
	}
	// A full disk or a read-only one costs time at the next start, not this one.
	_ = storeFilter(at, name, key, f)
	return f, nil
}

// key hashes what the compiled filter depends on.
func (p Profile) key(arch string, o Options) [sha256.Size]byte {
	major, minor, micro := libseccomp.GetLibraryVersion()
	b := make([]byte, 0, 16<<10)
	b = fmt.Appendf(b, "%d %d.%d.%d %s %+v %q %d", compilerVersion, major, minor, micro, arch, o, p.Name, p.Newest)
	for _, rules := range [][]Rule{p.Allow, p.Refuse, {{Calls: p.Missing}}} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(rules)))
		for _, r := range rules {
			b = append(b, byte(r.If), byte(len(r.When)))
			for _, c := range r.When {
				b = append(b, c.Arg)
				b = binary.LittleEndian.AppendUint64(b, c.Mask)
				b = binary.LittleEndian.AppendUint64(b, c.Value)
			}
			b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Calls)))
			for _, call := range r.Calls {
				b = append(b, call...)
				b = append(b, 0)
			}
		}
	}
	return sha256.Sum256(b)
}

// openCacheDir opens dir if only the effective user can change it.
func openCacheDir(dir string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Open(dir, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err := os.Mkdir(filepath.Clean(dir), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return -1, err
		}
		at, err = unix.Open(dir, flags, 0)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		unix.Close(at)
		return -1, errStale
	}
	return at, nil
}

func loadFilter(at int, name string, key [sha256.Size]byte, arch string) (Filter, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return Filter{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Filter{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uint32(os.Geteuid()) || st.Mode&0o077 != 0 ||
		st.Nlink != 1 || st.Size > maxCacheBytes {
		return Filter{}, errStale
	}
	data := make([]byte, st.Size)
	if err := readFull(fd, data); err != nil {
		return Filter{}, err
	}
	return unmarshalFilter(data, key, arch)
}

func readFull(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Read(fd, data)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			data = data[n:]
		}
	}
	return nil
}

func marshalFilter(f Filter, key [sha256.Size]byte) []byte {
	unknown := strings.Join(f.Unknown, " ")
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(unknown)))
	body = append(body, unknown...)
	body = append(body, f.BPF...)
	sum := sha256.Sum256(body)
	return slices.Concat([]byte(cacheMagic), key[:], sum[:], body)
}

func unmarshalFilter(data []byte, key [sha256.Size]byte, arch string) (Filter, error) {
	data, ok := bytes.CutPrefix(data, []byte(cacheMagic))
	if !ok || len(data) < 2*sha256.Size+4 || !bytes.Equal(data[:sha256.Size], key[:]) {
		return Filter{}, errStale
	}
	sum, body := data[sha256.Size:2*sha256.Size], data[2*sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return Filter{}, errStale
	}
	n, body := int64(binary.LittleEndian.Uint32(body)), body[4:]
	if n > int64(len(body)) {
		return Filter{}, errStale
	}
	program := body[n:]
	if len(program) == 0 || len(program)%instructionBytes != 0 || len(program)/instructionBytes > maxInstructions {
		return Filter{}, errStale
	}
	return Filter{BPF: program, Unknown: strings.Fields(string(body[:n])), Arch: arch}, nil
}

// storeFilter writes to a temporary name and renames it, so that a reader
// never sees half a file.
func storeFilter(at int, name string, key [sha256.Size]byte, f Filter) error {
	temporary := "." + rand.Text() // left behind by a crash only
	fd, err := unix.Openat(at, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), temporary)
	_, err = file.Write(marshalFilter(f, key))
	err = errors.Join(err, file.Close())
	if err == nil {
		err = unix.Renameat(at, temporary, at, name)
	}
	if err != nil {
		_ = unix.Unlinkat(at, temporary, 0)
	}
	return err
}
