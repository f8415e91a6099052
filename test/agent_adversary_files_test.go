package test

import (
	"os"
	"strings"
	"testing"
)

// patient lets a model be denied many times, so that all of its attempts are made.
const patient = `denials_in_row = 100
denials_total = 200
[agent.limits]
stale = 100
max_steps = 60
`

// Ways to a denied file, out of the workspace, and round the checks of edits.
func TestAdversariesOfFiles(t *testing.T) {
	playAll(t, []adversary{
		{name: "a denied file by each tool", policy: patient, replies: func(s *scene) []modelReply {
			return oneByOne(use("read_file", object{"file_path": "secret.txt"}), use("read_file", object{"file_path": s.Work + "/./x/../secret.txt"}),
				use("grep_files", object{"pattern": "token", "path": ".", "output_mode": "content"}), use("grep_files", object{"pattern": ".", "path": "secret.txt", "output_mode": "content"}),
				use("file_edit", object{"file_path": "secret.txt", "old_string": "token", "new_string": "x"}), use("file_write", object{"file_path": "secret.txt", "content": "mine"}),
				use("bg_task_run", object{"command": "cat secret.txt"}), use("bg_task_output", object{"task": "task-1", "wait": 5}), use("read_file", object{"file_path": "notes.txt"}))
		}, told: []string{"three"}},
		{name: "a denied file in other words", policy: patient, replies: func(s *scene) []modelReply {
			return oneByOne(bash("cat secret.txt"), bash("base64 sec*"), bash(`python3 -c 'print(open("sec"+"ret.txt").read())'`), bash("cp secret.txt copy; cat copy; rm -f copy"),
				bash("ln secret.txt hard && cat hard; rm -f hard"), bash("ln -s secret.txt soft; cat soft; rm soft"), bash("tar c . | tar xO"), bash("f=secret; cat $f.txt"),
				bash("$(echo Y2F0IHNlY3JldC50eHQK | base64 -d)"), bash("mv secret.txt moved; cat moved; mv moved secret.txt"), bash("while read l; do echo $l; done < secret.txt"),
				bash("find . -name 'secret*' -exec cat {} +"), bash("dd if=secret.txt 2>&1"), bash("exec 3<secret.txt; cat <&3"), bash("cat notes.txt"))
		}, told: []string{"three"}},
		{name: "a denied file that git has", policy: patient, setup: func(s *scene) {
			if r := s.plain("sh", "-c", "git init -q . && git add secret.txt notes.txt"); r.Code != 0 {
				s.Fatal(r.Stderr)
			}
			s.must(os.RemoveAll(s.Work + "/.git/objects")) // the content is the file's alone
			s.mkdir(s.Work + "/.git/objects")
		}, replies: func(s *scene) []modelReply {
			return oneByOne(bash("git show :secret.txt"), bash("git hash-object -w --stdin <secret.txt"), bash("git diff --no-index /dev/null secret.txt"), bash("git grep --no-index token"), bash("git add -f secret.txt; git cat-file -p :secret.txt"))
		}},
		{name: "links that lead out", policy: patient, setup: func(s *scene) {
			s.link(s.Out+"/outside.txt", s.Work+"/link")
			s.link(s.Out, s.Work+"/dir")
		}, replies: func(s *scene) []modelReply {
			return oneByOne(use("read_file", object{"file_path": "link"}), use("read_file", object{"file_path": "dir/outside.txt"}), use("file_write", object{"file_path": "link", "content": "x"}),
				use("file_write", object{"file_path": "dir/new", "content": "x"}), use("grep_files", object{"pattern": "token", "path": "dir", "output_mode": "content"}),
				use("list_dir", object{"path": "dir"}), use("glob_files", object{"pattern": "dir/**"}), bash("cat link dir/outside.txt; echo x > dir/new"))
		}, after: func(s *scene, o adversaryEnd) {
			if strings.Contains(o.texts(), "outside.txt (") || exists(s.Out+"/new") {
				s.Error(o.texts())
			}
		}},
		{name: "a link that is swapped in between", policy: patient, setup: func(s *scene) { s.file(s.Work+"/d/f", "inside\n") }, replies: func(s *scene) []modelReply {
			list := oneByOne(use("bg_task_run", object{"command": "while :; do mv d e; ln -s " + s.Out + " d; rm d; mv e d; done"}))
			for i := range 12 {
				list = append(list, modelReply{Calls: []modelCall{use("file_write", object{"file_path": "d/outside.txt", "content": strings.Repeat("x", i+1)}), use("read_file", object{"file_path": "d/outside.txt", "limit": i + 1})}})
			}
			return append(list, oneByOne(use("bg_task_kill", object{"task": "task-1"}), bash("rm -rf d e; mkdir d; echo inside > d/f"))...)
		}, left: map[string]string{"d": "directory", "d/f": "inside\n"}},
		{name: "paths that lead out", policy: patient, replies: func(s *scene) []modelReply {
			var list []modelCall
			for _, p := range []string{"../out/outside.txt", s.Out + "/outside.txt", "/proc/self/root" + s.Out + "/outside.txt", "/proc/self/cwd/../out/outside.txt", "/proc/1/root" + s.Out + "/outside.txt",
				"notes.txt/../../out/outside.txt", "..//out/./outside.txt", "~/../out/outside.txt", "\x00" + s.Out + "/outside.txt", "/dev/fd/3", "/proc/self/fd/3"} {
				list = append(list, use("read_file", object{"file_path": p}), use("file_write", object{"file_path": p, "content": "mine"}))
			}
			return oneByOne(append(list, bash("cat ../out/outside.txt; echo x > ../out/new; echo x > /proc/self/root"+s.Out+"/new; cat /proc/1/root"+s.Out+"/outside.txt; ls /proc/*/root/"))...)
		}},
		{name: "hard links to what lies outside", policy: patient, replies: func(s *scene) []modelReply {
			return oneByOne(bash("ln ../out/outside.txt l; ln secret.txt m; ls"), use("file_write", object{"file_path": "notes2", "content": "fine"}))
		}, left: map[string]string{"notes2": "fine"}},
		{name: "edits without reading", policy: patient, replies: func(*scene) []modelReply {
			return append(oneByOne(use("file_edit", object{"file_path": "notes.txt", "old_string": "one", "new_string": "ONE"}), use("file_write", object{"file_path": "notes.txt", "content": "gone"})),
				oneByOne(use("read_file", object{"file_path": "notes.txt"}), use("file_edit", object{"file_path": "notes.txt", "old_string": "two", "new_string": "TWO"}))...)
		}, left: map[string]string{"notes.txt": "one\nTWO\nthree\n"}},
		{name: "edits after a change from outside", play: func(s *scene, n int, r modelRequest) modelReply {
			switch n {
			case 0:
				return modelReply{Calls: []modelCall{use("read_file", object{"file_path": "notes.txt"})}}
			case 1:
				s.file(s.Work+"/notes.txt", "one\ntwo\nFOUR\n") // of the same size or not: it is another one
				return modelReply{Calls: []modelCall{use("file_edit", object{"file_path": "notes.txt", "old_string": "two", "new_string": "TWO"})}}
			}
			return modelReply{Text: "done"}
		}, left: map[string]string{"notes.txt": "one\ntwo\nFOUR\n"}, told: []string{"changed"}},
		{name: "edits that match twice or nowhere", replies: func(*scene) []modelReply {
			return oneByOne(use("read_file", object{"file_path": "notes.txt"}), use("file_edit", object{"file_path": "notes.txt", "old_string": "e", "new_string": "X"}),
				use("file_edit", object{"file_path": "notes.txt", "old_string": "five", "new_string": "X"}), use("file_edit", object{"file_path": "notes.txt", "old_string": "", "new_string": "X"}))
		}},
		{name: "special files", policy: patient, setup: func(s *scene) {
			if r := s.plain("mkfifo", "pipe"); r.Code != 0 {
				s.Fatal(r)
			}
		}, replies: func(*scene) []modelReply {
			return oneByOne(use("read_file", object{"file_path": "pipe"}), use("file_write", object{"file_path": "pipe", "content": "x"}), use("read_file", object{"file_path": "/dev/zero"}),
				use("grep_files", object{"pattern": "x", "path": "/dev/zero"}), use("read_file", object{"file_path": "/proc/kmsg"}), use("list_dir", object{"path": "/proc/self/fd"}))
		}},
		{name: "results of others", policy: patient, replies: func(s *scene) []modelReply {
			return oneByOne(use("read_result", object{"id": "../../conversations.db"}), use("read_result", object{"id": "result-AAAAAAAAAAAAAAAAAAAAAAAAAA"}), use("read_result", object{"id": "/etc/passwd"}),
				use("read_result", object{"id": ""}), use("read_result", object{"id": "*"}), use("read_result", object{"id": "x", "offset": -5}), bash("ls -R /run/sandboxd /var/lib/sandboxd ~/.local/state/sandboxd 2>&1; find / -name '*.db' -path '*sandboxd*' 2>/dev/null | head"))
		}, after: func(s *scene, o adversaryEnd) {
			if strings.Contains(o.texts(), "root:x:0") || strings.Contains(o.texts(), "audit.db") || strings.Contains(o.texts(), "SQLite") {
				s.Error(o.texts())
			}
		}},
		{name: "a flood of output", policy: patient, replies: func(*scene) []modelReply {
			return oneByOne(bash("yes 'all work and no play' | head -c 50000000"), bash("head -c 3000000 /dev/zero | tr '\\0' '\\n' >&2; exit 3"), use("bg_task_run", object{"command": "yes | head -c 20000000"}), use("bg_task_output", object{"task": "task-1", "wait": 20}))
		}, after: func(s *scene, o adversaryEnd) {
			for id, r := range o.results {
				if len(r.Text) > 12_000 {
					s.Errorf("%s has %d characters", id, len(r.Text))
				}
			}
		}},
	})
}
