package policy

// fragileEffect groups programs by what they do, for the lint check of deny
// rules that name one of them. A study of 1,709 real deny lists found 69 to
// 98.6 percent of them passed by another program (arXiv 2606.15549).
type fragileEffect struct {
	does     string
	programs []string // the usual names, which deny rules hold
	also     []string // other ways to the same effect
	fix      string   // the effect rule
}

var fragileEffects = []fragileEffect{
	{
		does:     "remove files",
		programs: []string{"rm", "unlink", "rmdir", "shred"},
		also:     []string{"find -delete", "git clean", "git rm", "mv", "rsync --delete", "truncate", "busybox rm", "perl -e", "python3 -c", "node -e", "tar --remove-files", "dd"},
		fix:      "add effect(delete ./**), or protect the paths ([filesystem] protect)",
	},
	{
		does:     "reach the network",
		programs: []string{"curl", "wget", "nc", "ncat", "netcat", "telnet", "ftp"},
		also:     []string{"socat", "ssh", "scp", "rsync", "git", "python3 -c", "perl -e", "node -e", "openssl s_client", "bash (/dev/tcp)", "busybox wget", "gawk", "php", "aria2c", "lynx", "npm", "pip"},
		fix:      "add effect(network *), or leave the network off (the default)",
	},
	{
		does:     "read a file",
		programs: []string{"cat", "less", "more", "head", "tail"},
		also:     []string{"grep", "sed", "awk", "cut", "sort", "od", "xxd", "base64", "strings", "cp", "tar", "dd", "python3 -c", "vim", "diff", "tac", "nl", "git diff --no-index", "curl file://"},
		fix:      "deny the path: effect(read PATH) or [filesystem] deny",
	},
	{
		does:     "write a file",
		programs: []string{"tee", "cp", "mv", "dd", "install", "truncate", "touch"},
		also:     []string{"redirections (>)", "sed -i", "sort -o", "awk", "python3 -c", "git checkout", "ln", "tar", "rsync", "vim", "ed", "patch"},
		fix:      "deny the path: effect(write PATH) or [filesystem] protect",
	},
	{
		does:     "become another user",
		programs: []string{"sudo", "su", "doas", "pkexec"},
		also:     []string{"runuser", "setpriv", "nsenter", "chroot", "docker run", "machinectl shell", "systemd-run"},
		fix:      "add effect(exec sudo) and its kind; inside a run no program can gain rights anyhow (no_new_privs)",
	},
	{
		does:     "change permissions",
		programs: []string{"chmod", "chown", "chgrp"},
		also:     []string{"install -m", "setfacl", "cp --preserve", "rsync --chmod", "python3 -c", "perl -e", "tar -p"},
		fix:      "deny the path: effect(write PATH) or [filesystem] protect",
	},
	{
		does:     "run code",
		programs: []string{"python", "python3", "node", "perl", "ruby", "php", "bash", "sh", "eval"},
		also:     []string{"awk", "make", "find -exec", "xargs", "env", "git -c alias", "vim -c", "gdb", "tclsh", "lua", "sqlite3 .shell", "npm run", "go run", "ssh localhost"},
		fix:      "allow what may run instead of denying what may not: default = \"ask\" or \"deny\"",
	},
	{
		does:     "end processes",
		programs: []string{"kill", "pkill", "killall"},
		also:     []string{"timeout", "fuser -k", "systemctl kill", "python3 -c", "perl -e", "xargs kill", "htop"},
		fix:      "nothing: a run cannot signal processes outside itself",
	},
}
