package path

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// configSamples exercise every turn of git's grammar.
var configSamples = []string{
	"",
	"[core]\n\tpager = less\n",
	"[core]pager=less",
	"[core] pager = less # comment\n",
	"[core]\n pager = \"a # b\" ; c\n",
	"[CORE]\n PaGeR = X\n",
	"[core]\n pager = a \\\n  b\n",
	"[core]\r\n\tpager = less\r\n[alias]\r\n a = !x\r\n",
	"[remote \"a.B \\\" c\\\\\"]\n url = x\n",
	"[a.b.C]\n k = v\n",
	"[a.b \"C\"]\n k = v\n",
	"[core]\n pager\n bare\n",
	"[core]\n pager =\n",
	"[core]\n pager = \"x\"y\" z \"  \n",
	"[core]\n pager = a\\tb\\nc\\\"d\\\\\n",
	"\xef\xbb\xbf[core]\npager = x\n",
	"; c\n# d\n[core] ; e\n pager = x\n[core]\n pager = y\n",
	"[core] [alias] a = b\n",
	"[x] a = b [y]\n c = d\n",
	"[a-1]\nb-2 = 3\n",
	"[core]\n pager = x \\\n",
	"[core]\n pager = \"a \\\n b\"\n",
	"[core]\n pager = a\tb \t \n",
	"[ \"x\"]\n a = b\n",
	// malformed
	"[core\n pager = x\n",
	"[core \"a]\n",
	"[core]\n = x\n",
	"[core]\n pa_ger = x\n",
	"[core]\n pager = \"x\n",
	"[core]\n pager = \\q\n",
	"[core]\n pager x\n",
	"[core \"a\" ]\n k = v\n",
	"[core]\n1a = b\n",
	"junk\n",
	"[core]\n pager = x\n}\n",
}

// TestParseGitConfigAsGitDoes asks git itself what each sample says.
func TestParseGitConfigAsGitDoes(t *testing.T) {
	for _, text := range configSamples {
		compareWithGit(t, text)
	}
}

// TestParseGitConfigAsGitDoesOnMutations does the same for samples that were
// cut and joined at random, with a fixed seed.
func TestParseGitConfigAsGitDoesOnMutations(t *testing.T) {
	count := 300
	if testing.Short() {
		count = 30
	}
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"[core]", "[a \"b\"]", "[a.B]", "pager", "=", " ", "\t", "\n", "\r\n", "\r", "\\", "\"", "#", ";", "!x", "]", "[", "-", ".", "\\\n", "k=v\n", "é"}
	for range count {
		var text strings.Builder
		for range 1 + random.IntN(14) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		compareWithGit(t, text.String())
	}
}

func compareWithGit(t *testing.T, text string) {
	t.Helper()
	file := put(t, t.TempDir(), "config", text)
	cmd := exec.Command("git", "config", "--no-includes", "-z", "--file", file, "--list")
	cmd.Dir = filepath.Dir(file)
	cmd.Env = gitEnv()
	out, gitErr := cmd.Output()
	var want []string
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if entry != "" {
			want = append(want, entry)
		}
	}
	settings, err := ParseGitConfig([]byte(text))
	if (err != nil) != (gitErr != nil) {
		t.Fatalf("ParseGitConfig(%q) error %v, git says %v", text, err, gitErr)
	}
	if err != nil {
		return
	}
	var got []string
	for _, s := range settings {
		key := strings.TrimPrefix(s.Key, ".")
		if s.NoValue {
			got = append(got, key)
		} else {
			// git 2.39 turns blanks into spaces, later ones keep tabs.
			got = append(got, key+"\n"+strings.ReplaceAll(s.Value, "\t", " "))
		}
	}
	for i := range want {
		want[i] = strings.ReplaceAll(strings.TrimPrefix(want[i], "."), "\t", " ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("ParseGitConfig(%q)\n got %q\nwant %q", text, got, want)
	}
}

func FuzzJudgeGitConfig(f *testing.F) {
	for _, text := range configSamples {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		all := func(Finding) bool { return true }
		clean, ok := CleanGitConfig(content, all)
		if ok && len(JudgeGitConfig(clean)) != 0 {
			t.Errorf("CleanGitConfig(%q) = %q, which still has findings", content, clean)
		}
		if !ok && len(JudgeGitConfig(content)) == 0 {
			t.Errorf("CleanGitConfig(%q) refuses content without findings", content)
		}
		JudgeGitModules(content)
		JudgeGitAttributes(content)
	})
}
