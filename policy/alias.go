package policy

import (
	"path"
	"slices"
	"strings"
	"sync"

	"sandboxd/policy/bash"
)

// sameProgram lists programs that go by several names, in groups; a rule that
// denies or asks about one holds for the others.
var sameProgram = [...]string{
	"python python3", "pip pip3", "cc gcc clang", "c++ g++ clang++", "node nodejs", "vi vim nvim vim.tiny vim.basic", "awk gawk mawk nawk",
	"make gmake", "tar gtar bsdtar", "sed gsed", "grep ggrep egrep fgrep rgrep", "bat batcat", "fd fdfind", "sh dash", "rg ripgrep",
	"cp gcp", "mv gmv", "rm grm", "ln gln", "cat gcat", "tee gtee", "dd gdd", "install ginstall", "chmod gchmod", "chown gchown",
	"mail mailx s-nail", "nc ncat netcat nc.openbsd nc.traditional", "docker docker.io", "gpg gpg2", "docker-compose compose",
}

// versioned are programs whose name may end in a version (python3.11, gcc-12).
const versioned = " python pip gcc g++ clang clang++ cc c++ node ruby perl php lua java go rustc cargo gdb lldb gem irb erl tclsh pypy cpp gfortran " +
	"llvm-ar ld.lld clang-format clang-tidy psql postgres pg_dump vim qemu-system-x86_64 "

// groups maps each name to the other names of its group.
var groups = sync.OnceValue(func() map[string][]string {
	m := map[string][]string{}
	for _, group := range sameProgram {
		names := strings.Fields(group)
		for _, n := range names {
			for _, other := range names {
				if other != n {
					m[n] = append(m[n], other)
				}
			}
		}
	}
	return m
})

// otherNames are further names of the program base. The result is not to be
// changed.
func otherNames(base string) []string {
	names := groups()[base]
	if base == "" || base[len(base)-1] < '0' || base[len(base)-1] > '9' {
		return names
	}
	stem := strings.TrimRight(base, "0123456789.-")
	if stem == base || stem == "" || !strings.Contains(versioned, " "+stem+" ") {
		return names
	}
	names = append(slices.Clip(names), stem)
	names = append(names, groups()[stem]...)
	if major, _, ok := strings.Cut(base[len(stem):], "."); ok {
		names = append(names, stem+major)
	}
	return names
}

// called sets what else the command is: python -m pip is pip, git-push is git
// push.
func (v *commandView) called() {
	v.aliases = otherNames(v.base)
	if v.plain != nil && v.plain[0].Known() {
		if name := path.Base(v.plain[0].Text); name != v.base {
			v.aliases = append(slices.Clip(v.aliases), name)
		}
	}
	if !strings.HasPrefix(v.base, "python") && !strings.HasPrefix(v.base, "pypy") {
		return
	}
	for i := 1; i < len(v.argv); i++ {
		s := v.argv[i].Text
		if len(s) < 2 || s[0] != '-' {
			return
		}
		if s == "-W" || s == "-X" {
			i++
			continue
		}
		if j := strings.IndexByte(s, 'm'); j > 0 && s[1] != '-' {
			rest := v.argv[i+1:]
			if module := s[j+1:]; module != "" {
				rest = append([]bash.Word{{Text: module}}, rest...)
			}
			if len(rest) > 0 && rest[0].Known() {
				v.plain = rest
				v.aliases = append(slices.Clip(v.aliases), rest[0].Text)
				v.aliases = append(v.aliases, otherNames(rest[0].Text)...)
			}
			return
		}
	}
}
