package bash

import (
	"strings"
	"sync"
)

// query is one way to call a program that does more than read so that it only
// reads: a sub-command, or an option that makes it list.
type query struct {
	// program lists the options that keep it so; any other, or a shortened one,
	// makes the call no query. names are those of the program.
	program
	// subs are the sub-commands, one of which must be the first operand; empty
	// when there is none to give.
	subs string
	// verbs are what may follow the sub-command. Empty: whatever operands say.
	verbs string
	// need are options one of which must be given.
	need string
	// most is how many operands may follow the sub-command; 0 is any number,
	// -1 none.
	most int
	// first: only the first operand is a file, as the archive of unzip is.
	first bool
}

// queryTable lists queries. Not here, although they look like it: what asks a
// server (kubectl get, docker ps, gh, npm view), what reads a project's program
// text on the way (bundle list, cargo tree, make -n, go list), and git archive,
// which starts what the settings say.
var queryTable = []query{
	{program: program{names: "systemctl", flags: "alqr", vals: "tpno", long: "all full no-pager plain no-legend legend= user system quiet lines= output= property= state= type= value reverse recursive"},
		subs: "status show cat is-active is-enabled is-failed is-system-running list-units list-unit-files list-timers list-sockets list-jobs list-dependencies get-default"},
	{program: program{names: "journalctl", flags: "aefklmqrx", vals: "uSUtpgoc", maybe: "bn",
		long: "all pager-end full follow dmesg merge quiet reverse catalog unit= user-unit= since= until= identifier= priority= grep= output= lines=? boot=? no-pager no-hostname no-full no-tail utc user system list-boots disk-usage output-fields= facility= case-sensitive=?"}},
	{program: program{names: "timedatectl"}, subs: "status show timesync-status show-timesync list-timezones", most: -1},
	{program: program{names: "timedatectl hostnamectl localectl mount findmnt"}, most: -1},
	{program: program{names: "hostnamectl localectl"}, subs: "status", most: -1},
	{program: program{names: "crontab", flags: "l"}, need: "l", most: -1},
	{program: program{names: "kill", flags: "lL"}, need: "l L"},
	{program: program{names: "unzip", flags: "lvtzpcqCZ", ops: opsRead}, need: "l v t z p c Z", first: true},
	{program: program{names: "zipinfo", flags: "12smlvhMtTCz", ops: opsRead}, first: true},
	{program: program{names: "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma pigz pbzip2", flags: "acdkfltqv123456789", ops: opsRead,
		long: "stdout to-stdout decompress uncompress list test quiet verbose keep robot"}, need: "c l t stdout to-stdout list test"},
	{program: program{names: "zstd unzstd zstdmt", flags: "cdkfltqv", ops: opsRead, long: "stdout decompress list test quiet verbose keep"},
		need: "c l t stdout list test"},
	{program: program{names: "7z 7za 7zr", ops: opsRead}, subs: "l t", most: 1},
	{program: program{names: "dpkg", flags: "lLsSp", long: "list listfiles status search print-avail get-selections print-architecture audit verify"},
		need: "l L s S p list listfiles status search print-avail get-selections print-architecture audit verify"},
	{program: program{names: "rpm", flags: "qaliRdcsf", ops: opsRead, long: "query all list info requires docfiles configfiles state file changelog provides scripts last"}, need: "q query"},
	{program: program{names: "apt apt-cache", flags: "an", long: "installed upgradable all-versions names-only"}, subs: "list show search policy depends rdepends madison showpkg pkgnames stats"},
	{program: program{names: "pip pip3", flags: "fv", long: "format= user local not-required exclude-editable files verbose"}, subs: "show freeze list check"},
	{program: program{names: "npm", flags: "gal", long: "all global json long parseable depth= omit= include= prod"}, subs: "ls list ll la root prefix"},
	{program: program{names: "gem", flags: "l", long: "local all versions"}, subs: "list environment contents which"},
	{program: program{names: "ip", single: true, long: "4 6 br brief c color s stats statistics d details j json p pretty o oneline h human r resolve a all"},
		subs: "addr address a link l route r neigh n rule", verbs: "show list ls get"},
	{program: program{names: "openssl", single: true, long: "hex base64"}, subs: "rand", most: 1},
	{program: program{names: "openssl", single: true, long: "a v b o f p d"}, subs: "version", most: -1},
	{program: program{names: "openssl", single: true, roles: "in:R", long: "in= noout text dates subject issuer fingerprint serial startdate enddate email purpose sha1 sha256 hash pubkey modulus"},
		subs: "x509", need: "noout", most: -1},
	{program: program{names: "openssl", single: true, ops: opsRead, long: "md5 sha1 sha256 sha384 sha512 hex r"}, subs: "dgst sha256 sha1 md5 sha512"},
}

// versionTable lists what makes a program print its version or its help, as the
// only argument. Not here is what reads the project first: yarn and pnpm (they
// start the version that the project names), cargo and rustc (a toolchain may be
// a directory of the project), dotnet, mvn, gradle, bazel, bundle, pytest, flake8
// and pylint (settings with code), rustup, ansible, terraform, gcloud.
var versionTable = []query{
	{program: program{names: "cp mv ln install touch mkdir rm rmdir truncate chmod chown chgrp dd tee split csplit shred mkfifo patch tar cpio zip unzip gzip bzip2 xz zstd rsync scp ssh sftp curl wget sed awk gawk find xargs env nice nohup timeout stdbuf setsid watch flock parallel sort uniq cut tr ls cat grep git make gmake cmake ninja meson gcc g++ cc c++ clang clang++ ld as ar python python3 pip pip3 pipx uv node npm npx deno bun tsc esbuild prettier eslint ruff black mypy perl ruby gem php lua java javac jq yq rg fd fzf bat vim nvim emacs nano docker podman kubectl helm aws gh glab psql mysql sqlite3 redis-cli mongosh protoc buf shellcheck shfmt hadolint tmux nvcc ffmpeg convert pandoc openssl gpg bash zsh strace gdb lsof"},
		need: "--version --help"},
	{program: program{names: "ssh tmux gawk curl wget less perl psql mysql"}, need: "-V"},
	{program: program{names: "node npm ruby perl php java javac gcc g++ clang unzip zip nginx redis-server redis-cli lua"}, need: "-v"},
	{program: program{names: "java javac"}, need: "-version --version"},
	{program: program{names: "openssl helm"}, need: "version"},
}

// queryIndex finds the queries of a program by its name.
func queryIndex(table []query) map[string][]*query {
	m := make(map[string][]*query, 256)
	for i := range table {
		for name := range strings.SplitSeq(table[i].names, " ") {
			m[name] = append(m[name], &table[i])
		}
	}
	return m
}

// queries are the two tables by name, built on first use.
var queries = sync.OnceValues(func() (calls, versions map[string][]*query) {
	return queryIndex(queryTable), queryIndex(versionTable)
})

// query reads a command that is a query; false when it is none.
func (a *analyzer) query(v *invocation) bool {
	calls, versions := queries()
	name := baseName(v.argv[0].Text)
	if len(v.argv) == 2 {
		for _, q := range versions[name] {
			if hasField(q.need, v.argv[1].Text) {
				a.setReadOnly()
				a.defaultOut(v)
				return true
			}
		}
	}
	for _, q := range calls[name] {
		if g, ok := q.read(v.argv); ok {
			a.optionRoles(v, &q.program, &g)
			if q.ops == opsRead {
				a.each(v, g.ops, Effect{Kind: Read})
			}
			a.setReadOnly()
			a.defaultOut(v)
			return true
		}
	}
	return false
}

// read takes argv apart and reports whether it is this query. The operands that
// are left are files, when the query has files.
func (q *query) read(argv []Word) (args, bool) {
	for _, w := range argv[1:] {
		if w.Many {
			return args{}, false
		}
	}
	g := parseArgs(&q.program, argv)
	if g.odd || g.computed || q.shortened(argv) {
		return g, false
	}
	ops := g.ops
	if q.subs != "" {
		if len(ops) == 0 || !hasField(q.subs, ops[0].Text) {
			return g, false
		}
		ops = ops[1:]
	}
	switch {
	case q.verbs != "" && len(ops) > 0 && !hasField(q.verbs, ops[0].Text):
		return g, false
	case q.most < 0 && len(ops) > 0, q.most > 0 && len(ops) > q.most:
		return g, false
	case q.need != "" && !g.has(strings.Fields(q.need)...):
		return g, false
	}
	if q.first {
		ops = ops[:min(len(ops), 1)]
	}
	g.ops = ops
	return g, true
}

// shortened reports a long option that is not written in full: another option,
// which this table does not list, may begin so.
func (q *query) shortened(argv []Word) bool {
	for _, w := range argv[1:] {
		s := w.Text
		if s == "--" {
			return false
		}
		if len(s) < 2 || s[0] != '-' || s[1] != '-' && !q.single {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimLeft(s, "-"), "=")
		if !hasField(q.long, name) && !hasField(q.long, name+"=") && !hasField(q.long, name+"=?") {
			return true
		}
	}
	return false
}
