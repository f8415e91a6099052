package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// MaxWholeFile is the largest file that is read as a whole, and so can be edited,
// in bytes. Of a larger one lines are shown.
const MaxWholeFile = 10 << 20

// encoding is how the bytes of a file are text.
type encoding uint8

const (
	encodingUTF8 encoding = iota
	encodingUTF8BOM
	encodingUTF16LE
	encodingUTF16BE
	encodingOther  // bytes that are no UTF-8
	encodingBinary // no text
)

func (e encoding) String() string {
	return [...]string{"UTF-8", "UTF-8 with a byte order mark", "UTF-16, little-endian", "UTF-16, big-endian", "not UTF-8", "binary"}[e]
}

// headBytes is how much of a file decides what it is, as in git's buffer_is_binary.
const headBytes = 8000

const utf8BOM = "\xef\xbb\xbf"

// encodingOf looks at the first bytes of a file; whole says that there are no more.
func encodingOf(head []byte, whole bool) encoding {
	switch {
	case bytes.HasPrefix(head, []byte(utf8BOM)) && bytes.IndexByte(head, 0) < 0:
		return encodingUTF8BOM
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return encodingUTF16LE
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return encodingUTF16BE
	case bytes.IndexByte(head, 0) >= 0:
		return encodingBinary
	}
	if !whole { // the last character may be cut
		for i := 0; i < utf8.UTFMax && len(head) > 0 && !utf8.Valid(head); i++ {
			head = head[:len(head)-1]
		}
	}
	if !utf8.Valid(head) {
		return encodingOther
	}
	return encodingUTF8
}

// decode returns the text of a whole file for reading.
func decode(b []byte, e encoding) string {
	switch e {
	case encodingUTF8BOM:
		return string(b[len(utf8BOM):])
	case encodingUTF16LE, encodingUTF16BE:
		var order binary.ByteOrder = binary.LittleEndian
		if e == encodingUTF16BE {
			order = binary.BigEndian
		}
		units := make([]uint16, 0, len(b)/2)
		for i := 2; i+1 < len(b); i += 2 {
			units = append(units, order.Uint16(b[i:]))
		}
		return string(utf16.Decode(units))
	}
	return string(b)
}

// describeBinary says what a file that is no text is, with its first bytes.
func describeBinary(head []byte, size int64) string {
	const shown = 256
	return fmt.Sprintf("[binary file, %s, %d bytes; its first bytes:]\n%s", http.DetectContentType(head), size, hex.Dump(head[:min(len(head), shown)]))
}

// errTooLarge reports a file that is not read as a whole.
var errTooLarge = errors.New("too large to be read as a whole")

// readWhole reads a file from where it stands, or reports errTooLarge for one of
// more than MaxWholeFile bytes.
func readWhole(f *os.File) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Size > MaxWholeFile {
		return nil, errTooLarge
	}
	var b bytes.Buffer
	b.Grow(int(st.Size) + bytes.MinRead) // room to see the end without growing
	_, err := b.ReadFrom(io.LimitReader(f, MaxWholeFile+1))
	if err == nil && b.Len() > MaxWholeFile {
		err = errTooLarge
	}
	return b.Bytes(), err
}

// stampOf describes a file whose content is known.
func stampOf(st *unix.Stat_t, content []byte) *Stamp {
	sum := sha256.Sum256(content)
	return &Stamp{Size: int64(len(content)), MTime: st.Mtim.Nano(), Hash: hex.EncodeToString(sum[:])}
}
