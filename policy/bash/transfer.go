package bash

import (
	"net/url"
	"strings"
)

// curl follows curl and wget: hosts are contacted, outputs are written.
func (a *analyzer) curl(v *invocation, p *program) {
	g := parseArgs(p, v.argv)
	a.optionRoles(v, p, &g)
	if g.computed {
		a.noteHere(UnknownOption, v.argv[0].Text)
	}
	for _, o := range g.opts {
		a.sentFile(v, o)
	}
	wget := strings.HasPrefix(baseName(v.argv[0].Text), "wget")
	remoteName := g.has("O", "remote-name", "remote-name-all")
	_, toFile := g.get("O", "output-document")
	if dir, ok := g.get("output-dir"); ok && !wget {
		if o, ok := g.get("o", "output"); ok && o.Text != "-" {
			a.effect(v.st, Effect{Kind: Write, Path: dir.Text + "/" + o.Text, Source: Option, Command: a.cur})
			a.wrote(v.st, dir.Text+"/"+o.Text)
		}
	}
	if w, ok := g.get("i", "input-file"); ok && wget {
		a.listedHosts(v, w)
	}
	for _, w := range g.ops {
		if path, ok := fileURL(w.Text); ok {
			a.effect(v.st, Effect{Kind: Read, Path: path, Command: a.cur})
			if o, ok := g.get("o", "output"); ok && !wget {
				a.put(v.st, o.Text, a.content(v.st, path))
			}
		} else {
			a.effect(v.st, Effect{Kind: Network, Path: hostOf(w.Text), Command: a.cur})
		}
		if wget && !toFile || !wget && remoteName {
			name := baseName(w.Text)
			if name == "" || hasHole(name) {
				name = nameText
			}
			if d, ok := g.get("P", "directory-prefix", "output-dir"); ok {
				name = d.Text + "/" + name
			}
			a.effect(v.st, Effect{Kind: Write, Path: name, Command: a.cur})
			a.wrote(v.st, name)
		}
	}
	// What comes from elsewhere is not known, and whoever wrote the URL chose it.
	if v.st.out != nil {
		v.st.out.derived(v.st.in, worldText)
	}
}

// listedHosts lists the hosts of the URLs in the file w, "-" for standard input.
func (a *analyzer) listedHosts(v *invocation, w Word) {
	t := v.st.in
	if w.Text != "-" {
		t = a.content(v.st, w.Text)
	}
	lines := []string{anyText}
	if t != nil && w.Known() {
		lines = t.alts
	}
	for _, s := range lines {
		for line := range strings.FieldsSeq(s) {
			if a.spend(1) {
				return
			}
			if hasHole(line) {
				line = anyText
			}
			a.effect(v.st, Effect{Kind: Network, Path: hostOf(line), Command: a.cur})
		}
	}
}

// fileURL is the path in a file URL, "%" and a host name resolved.
func fileURL(s string) (string, bool) {
	if len(s) < 5 || !strings.EqualFold(s[:5], "file:") {
		return "", false
	}
	s = s[5:]
	if rest, ok := strings.CutPrefix(s, "//"); ok {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return rest, true
		}
		s = rest[i:]
	}
	if p, err := url.PathUnescape(s); err == nil {
		s = p
	}
	return s, true
}

// sentFile lists files that curl and wget read to send them: "@FILE" and "<FILE"
// in a value, "NAME=@FILE" in a form.
func (a *analyzer) sentFile(v *invocation, o option) {
	file := ""
	switch o.name {
	case "d", "data", "data-ascii", "data-binary", "data-urlencode", "json", "H", "header", "proxy-header", "url-query", "variable":
		if i := strings.IndexByte(o.val.Text, '@'); i == 0 || i > 0 && (o.name == "data-urlencode" || o.name == "url-query" || o.name == "variable") {
			file = o.val.Text[i+1:]
		}
	case "F", "form":
		if _, val, ok := strings.Cut(o.val.Text, "="); ok && strings.IndexAny(val, "@<") == 0 {
			file, _, _ = strings.Cut(val[1:], ";")
		}
	case "post-file", "body-file", "b", "cookie", "netrc-file", "E", "cert", "key", "cacert":
		file = o.val.Text
		if (o.name == "b" || o.name == "cookie") && strings.Contains(file, "=") {
			file = ""
		}
	}
	if file != "" && file != "-" {
		a.effect(v.st, Effect{Kind: Read, Path: file, Source: Option, Command: a.cur})
	}
}
