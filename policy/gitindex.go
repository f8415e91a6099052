package policy

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// errIndex reports an index file in another form than gitformat-index(5).
var errIndex = errors.New("not a git index that can be read")

// gitlinkMode are the mode bytes of an entry that is another repository.
var gitlinkMode = []byte{0x00, 0x00, 0xe0, 0x00}

// gitlinks lists the paths in an index at which other repositories are checked
// out. git status and git diff start git in each, listed in .gitmodules or not.
// hashLen is 20 for SHA-1 and 32 for SHA-256. The format is gitformat-index(5),
// versions 2 to 4.
func gitlinks(data []byte, hashLen int) ([]string, error) {
	if !bytes.Contains(data, gitlinkMode) {
		return nil, nil // the usual case needs no parsing
	}
	if len(data) < 12 || string(data[:4]) != "DIRC" {
		return nil, errIndex
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return nil, errIndex
	}
	var links []string
	var name []byte
	pos := 12
	for range count {
		head := 40 + hashLen + 2 // stat data, object name, flags
		if len(data)-pos < head+1 {
			return nil, errIndex
		}
		start := pos
		if version >= 3 && data[pos+head-2]&0x40 != 0 {
			head += 2 // extended flags
		}
		mode := data[pos+24 : pos+28]
		pos += head
		if version == 4 {
			cut, n := indexVarint(data[min(pos, len(data)):])
			if n == 0 || cut > len(name) {
				return nil, errIndex
			}
			pos += n
			name = name[:len(name)-cut]
		} else {
			name = name[:0]
		}
		end := bytes.IndexByte(data[min(pos, len(data)):], 0)
		if end < 0 {
			return nil, errIndex
		}
		name = append(name, data[pos:pos+end]...)
		pos += end + 1
		if version < 4 {
			pos = start + (head+end+8)&^7
		}
		if bytes.Equal(mode, gitlinkMode) {
			links = append(links, string(name))
		}
	}
	return links, nil
}

// indexVarint reads how many bytes of the name before are left out in version
// 4, in the encoding of offsets in packs. n is 0 when it does not end.
func indexVarint(data []byte) (v, n int) {
	for n < len(data) && n < 5 {
		c := data[n]
		n++
		v = v<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return v, n
		}
		v++
	}
	return 0, 0
}
