package bash

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sandboxd/test/require"
)

// onlyReads reports whether every command of a script only reads.
func onlyReads(script string) bool {
	a := Analyze(script, Options{Cwd: "/w"})
	return len(a.Commands) > 0 && len(a.Unknown) == 0 && !slices.ContainsFunc(a.Commands, func(c Command) bool { return !c.ReadOnly })
}

func TestQueriesOnlyRead(t *testing.T) {
	for _, s := range []string{"npm --version", "node --version && npm -v", "git --version", "gcc --version", "tar --help", "java -version",
		"systemctl status nginx", "systemctl --user --no-pager status x", "systemctl is-active x", "systemctl list-units --type=service",
		"journalctl -u nginx", "journalctl -n 50 --no-pager", "journalctl -b -p err --since today", "crontab -l", "mount", "timedatectl", "hostnamectl status",
		"unzip -l a.zip", "unzip -p a.zip m", "zipinfo -1 a.zip", "gzip -l a.gz", "gzip -dc a.gz | head", "xz -l a.xz", "zstd -dc a.zst", "7z l a.7z", "bzip2 -t a",
		"dpkg -l", "dpkg -L git", "dpkg -S /bin/ls", "rpm -qa", "rpm -ql git", "apt list --installed", "apt show git", "pip list", "pip show requests", "pip freeze",
		"npm ls --depth=0", "npm list", "ip addr", "ip -br a", "ip route show", "ip link ls dev eth0", "openssl rand -hex 8", "openssl version",
		"openssl x509 -in c.pem -noout -text", "openssl dgst -sha256 f", "kill -l", "kill -0 42", "jobs", "history", "alias", "ls | tee", "ls | tee /dev/null", "ls | tee /dev/stderr",
		"cut -d' ' -f1 f", "paste -sd, f", "find . -type f -name '*.go' -exec wc -l {} +", `find src -name '*.go' -type f -exec grep -l x {} \;`} {
		if !onlyReads(s) {
			t.Errorf("%q is not read-only", s)
		}
	}
}

// Each is a neighbour of a query that does more than read.
func TestNeighboursOfQueriesDoMore(t *testing.T) {
	for _, s := range []string{"npm --version x", "npm install --version", "foo --version", "./npm-x --version", "yarn --version", "cargo --version", "pytest --version", "mvn --version", "rustup --version", "terraform version",
		"time --version", "python3 x.py --version", "npm $x", "npm view x", "npm outdated", "npm ls --script-shell=x", "bundle list", "cargo tree", "yarn list",
		"systemctl restart x", "systemctl status x --now", "systemctl -H h status", "systemctl edit status", "systemctl", "service x status",
		"journalctl --vacuum-time=1s", "journalctl --rotate", "journalctl --cursor-file=f", "journalctl -D d", "journalctl --vac=1s", "journalctl --flush",
		"crontab -r", "crontab -l f", "crontab f", "mount -a", "mount /dev/sda /mnt", "timedatectl set-time x", "hostnamectl hostname x", "hostnamectl x",
		"unzip a.zip", "unzip -o a.zip", "unzip -q a.zip", "unzip -l a.zip -d x", "unzip -lT a", "gzip a", "gzip -d a.gz", "gunzip a.gz", "gzip -k a", "xz --files=f -c", "xz -d a", "zstd -c a -o b", "zstd -l --rm a", "lz4 -l a",
		"7z x a.7z", "7z l a.7z @f", "7z l -oX a", "dpkg -i a.deb", "dpkg -l --pre-invoke=x", "dpkg --configure -a", "rpm -i a.rpm", "rpm -qa --pipe x", "rpm -qp http://h/a", "rpm --eval %x", "rpm -qa --define x",
		"apt list -o APT::x=y", "apt install git", "apt-cache gencaches", "pip install x", "pip list --outdated", "pip show --log f x", "pip --log f list", "npm config set a b",
		"ip link set eth0 down", "ip addr add 1 dev x", "ip -b f", "ip -batch f", "ip netns exec x ls", "ip r del default", "ip -n ns a",
		"openssl rand -out f 8", "openssl rand -writerand f 8", "openssl x509 -in c -out d -noout", "openssl x509 -in c.pem -text", "openssl dgst -sign k f", "openssl dgst -out f g", "openssl rand -engine x 8", "openssl req -new",
		"kill 42", "kill -9 42", "kill -0 -sKILL 42", "kill -0 $x", "kill -0 *", "kill -l; kill 1", "jobs -x ls", "history -w f", "history -c", "alias a=b", "ls | tee f", "ls | tee -a /dev/null f", "ls | tee $x",
		"find . -type f -exec rm {} +", "find . -exec wc {} +", "find -L . -type f -exec wc {} +", "find . -type f -o -name x -exec wc {} +", "find . ! -type f -exec wc {} +", "find . -follow -type f -exec wc {} +", "find . -execdir ls {} +", `find . -exec {} \;`, "find . -exec sh -c ls {} + -delete", "docker ps", "kubectl get pods"} {
		if onlyReads(s) {
			t.Errorf("%q is called read-only", s)
		}
	}
}

// The judge is the program itself: a call for its version or help, of those that
// are installed here, leaves directory and home as they were and ends.
func TestVersionsChangeNothing(t *testing.T) {
	if testing.Short() {
		require.Asked(t, "starts every program of the table")
	}
	dir := t.TempDir()
	for _, d := range []string{"home", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"-h": "x", "f": "x", "Makefile": "all:\n\ttouch made\n", "package.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, "work", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, ran := treeOf(t, dir), 0
	for _, q := range versionTable {
		for name := range strings.SplitSeq(q.names, " ") {
			path, err := exec.LookPath(name)
			if err != nil {
				continue
			}
			for word := range strings.SplitSeq(q.need, " ") {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				cmd := exec.CommandContext(ctx, path, word)
				cmd.Dir = filepath.Join(dir, "work")
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "LC_ALL=C.UTF-8"}
				cmd.WaitDelay = time.Second
				out, err := cmd.CombinedOutput()
				late := ctx.Err()
				cancel()
				ran++
				if late != nil {
					t.Errorf("%s %s does not end: %v %.200s", name, word, err, out)
				}
				// npm keeps a log of what it was asked.
				if err := os.RemoveAll(filepath.Join(dir, "home", ".npm")); err != nil {
					t.Fatal(err)
				}
				if now := treeOf(t, dir); !maps.Equal(now, before) {
					t.Errorf("%s %s changed files: %v", name, word, slices.Sorted(maps.Keys(now)))
					before = now
				}
			}
		}
	}
	if ran < 40 {
		t.Errorf("%d calls made, want at least 40", ran)
	}
}

// treeOf maps the files below dir to their contents.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			tree[p] = "directory"
			return err
		}
		data, err := os.ReadFile(p)
		tree[p] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
