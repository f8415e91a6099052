package bash

import "strings"

// compressed lists what a compressor does: it reads its operands, and replaces
// them by files with another ending unless it is told to keep them.
func (a *analyzer) compressed(v *invocation, g *args) {
	ops := g.ops
	tree := g.has("r", "recursive")
	a.each(v, ops, Effect{Kind: Read, Tree: tree})
	if g.has("c", "stdout", "to-stdout", "l", "list", "t", "test") {
		return
	}
	keeps := g.has("k", "keep")
	if name := baseName(v.argv[0].Text); hasField("zstd unzstd zstdmt lz4 brotli", name) {
		keeps = !g.has("rm")
	}
	a.each(v, ops, Effect{Kind: Write, Tree: tree})
	if !keeps {
		a.each(v, ops, Effect{Kind: Delete, Tree: tree, NoFollow: true})
	}
	for _, w := range ops { // the file beside it
		if w.Known() {
			a.effect(v.st, Effect{Kind: Write, Path: besideName(v.argv[0].Text, w.Text, g), Command: a.cur, Replaces: true})
		}
	}
	a.changed(v, ops)
}

// besideName is the file that a compressor makes of one: the ending added or
// taken away.
func besideName(program, file string, g *args) string {
	name := baseName(program)
	unpacks := strings.HasPrefix(name, "un") || name == "gunzip" || name == "bunzip2" || g.has("d", "decompress", "uncompress")
	if unpacks {
		if i := strings.LastIndexByte(baseName(file), '.'); i > 0 {
			return file[:len(file)-len(baseName(file))+i]
		}
		return file
	}
	if s, ok := g.get("S", "suffix"); ok && !hasHole(s.Text) {
		return file + s.Text
	}
	for _, end := range [...][2]string{{"gzip pigz", ".gz"}, {"bzip2 pbzip2", ".bz2"}, {"xz", ".xz"}, {"lzma", ".lzma"}, {"zstd zstdmt", ".zst"},
		{"lz4", ".lz4"}, {"compress", ".Z"}, {"lzip", ".lz"}, {"brotli", ".br"}} {
		if hasField(end[0], name) {
			return file + end[1]
		}
	}
	return file
}
