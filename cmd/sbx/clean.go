package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/agentloop"
)

// Bounds of what sbx clean keeps when it is not told otherwise.
const (
	keepAge   = 30 * 24 * time.Hour
	keepBytes = 4 << 30
)

// sharedDir holds the homes of what root ran as other users, see agentloop.
const sharedDir = "/var/cache/sandboxd"

// stateKinds are the files and directories that sbx clean may remove, as
// patterns. Trust decisions and journals of runs that did not end are not among
// them; temporary directories of dead runs are removed by the next run.
var stateKinds = []struct {
	state   bool   // below the state directory, else below a cache directory
	pattern string // an entry each; names that differ in a last extension only are one
	lasting bool   // is no cache: it goes with --all only
}{
	{false, "homes/*", false}, // private homes with their caches, one for each workspace
	{false, "plans/*", false}, // what was found readable on this host
	{false, "*.bpf", false},   // compiled system call filters
	{false, "host-*", false},  // what this host can enforce
	{true, "outputs/*", false},
	{true, "guards/*.dirs", false}, // directories as the last run left them
	{true, "kept/*", false},        // files that were moved aside after a run
	{true, "notes/*.json", true},   // of agents, one file for each conversation
	{true, "memory/*.json", true},  // the same for each workspace
}

// kept is one entry of our state.
type kept struct {
	dir   string   // the state or cache directory
	names []string // below dir: the entry, and what is noted about it
	bytes int64
	used  time.Time
	// lasting is that of its kind.
	lasting bool
}

// cleanObject is the answer of sbx clean --json.
type cleanObject struct {
	Removed      int      `json:"removed"`
	FreedBytes   int64    `json:"freed_bytes"`
	Kept         int      `json:"kept"`
	KeptBytes    int64    `json:"kept_bytes"`
	DryRun       bool     `json:"dry_run"`
	RemovedPaths []string `json:"removed_paths"`
}

func cleanCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx clean", "sbx clean --age 1h --dry-run", "sbx clean --all"),
		Description: "Removes what sbx keeps in its state and cache directories: entries that were not\n" +
			"used for 30 days, then the oldest until 4 GiB are left. The notes and the memory of\n" +
			"agents go with --all only. A run that is going on loses its home with --all.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "remove every entry, also notes and memory of agents"},
			&cli.StringFlag{Name: "age", Usage: "remove what was not used for `TIME` (default: 720h)"},
			&cli.StringFlag{Name: "size", Usage: "then the oldest until `SIZE` is left (default: 4GiB)"},
			&cli.BoolFlag{Name: "shared", Usage: "also what root ran as other users (" + sharedDir + ")"},
			&cli.BoolFlag{Name: "dry-run", Usage: "name what would go and remove nothing"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
		},
		Action: p.clean,
	}
}

func (p *program) clean(c *cli.Context) error {
	if c.Args().Present() {
		return misuse("sbx clean --help lists the flags", "unexpected argument %q", c.Args().First())
	}
	age, size := time.Duration(keepAge), int64(keepBytes)
	var err error
	if c.IsSet("age") {
		if age, err = parseDuration(c.String("age")); err != nil {
			return misuse("", "--age %q: %v", c.String("age"), err)
		}
	}
	if c.IsSet("size") {
		if size, err = parseBytes(c.String("size")); err != nil {
			return misuse("", "--size %q: %v", c.String("size"), err)
		}
	}
	caller, _ := agentloop.CurrentCaller(p.environ)
	caches := []string{caller.CacheDir}
	if c.Bool("shared") {
		caches = append(caches, sharedDir)
	}
	entries, err := listKept(caller.StateDir, caches...)
	if err != nil {
		return &failure{code: exitSandbox, stage: "state", err: err, hint: "see who owns that directory"}
	}
	going := entries
	if !c.Bool("all") {
		going = chooseOld(entries, time.Now(), age, size)
	}
	return p.remove(entries, going, c.Bool("dry-run"), c.Bool("json"))
}

// remove removes the entries in going and says what was freed. One that cannot
// be removed does not keep the others.
func (p *program) remove(entries, going []kept, dryRun, asJSON bool) error {
	out := cleanObject{DryRun: dryRun, RemovedPaths: []string{}}
	for _, e := range entries {
		out.Kept++
		out.KeptBytes += e.bytes
	}
	var failed []error
	for _, e := range going {
		full := filepath.Join(e.dir, e.names[0])
		if !dryRun {
			if err := removeKept(e); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		out.Removed, out.Kept = out.Removed+1, out.Kept-1
		out.FreedBytes, out.KeptBytes = out.FreedBytes+e.bytes, out.KeptBytes-e.bytes
		out.RemovedPaths = append(out.RemovedPaths, full)
	}
	if err := p.printCleaned(out, asJSON); err != nil {
		return err
	}
	if len(failed) > 0 {
		return &failure{code: exitSandbox, stage: "clean", err: failed[0],
			hint: fmt.Sprintf("%d of %d entries could not be removed", len(failed), len(going))}
	}
	return nil
}

func (p *program) printCleaned(out cleanObject, asJSON bool) error {
	if asJSON {
		return p.writeJSON(out)
	}
	verb := "removed"
	if out.DryRun {
		verb = "would remove"
	}
	var b strings.Builder
	for _, name := range out.RemovedPaths {
		fmt.Fprintf(&b, "%s %s\n", verb, oneLine(name))
	}
	fmt.Fprintf(&b, "%s %d entries, %s; %d entries, %s are kept\n", verb,
		out.Removed, sizeText(out.FreedBytes), out.Kept, sizeText(out.KeptBytes))
	return p.writeOut("%s", b.String())
}

// listKept lists the entries of our state with their sizes. A directory that
// does not exist holds nothing.
func listKept(stateDir string, cacheDirs ...string) ([]kept, error) {
	var all []kept
	for _, k := range stateKinds {
		dirs := cacheDirs
		if k.state {
			dirs = []string{stateDir}
		}
		for _, dir := range dirs {
			if dir == "" {
				continue
			}
			entries, err := listKind(dir, k.pattern)
			if err != nil {
				return nil, err
			}
			for i := range entries {
				entries[i].lasting = k.lasting
			}
			all = append(all, entries...)
		}
	}
	return all, nil
}

func listKind(dir, pattern string) ([]kept, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), pattern)
	if err != nil {
		return nil, err
	}
	var entries []kept
	for _, name := range names { // sorted, so an entry comes before NAME.note
		bytes, used := measure(filepath.Join(dir, name))
		if n := len(entries); n > 0 && strings.TrimSuffix(name, path.Ext(name)) == entries[n-1].names[0] {
			e := &entries[n-1]
			e.names, e.bytes = append(e.names, name), e.bytes+bytes
			if used.After(e.used) {
				e.used = used
			}
			continue
		}
		entries = append(entries, kept{dir: dir, names: []string{name}, bytes: bytes, used: used})
	}
	return entries, nil
}

// measure sums the disk use below root and finds the latest change of the entry
// itself or of what stands directly in it. What cannot be read counts as empty.
func measure(root string) (bytes int64, used time.Time) {
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // unreadable parts still are removable by their owner
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		bytes += diskUse(info)
		depth := strings.Count(strings.TrimPrefix(name, root), "/")
		if depth <= 1 && info.ModTime().After(used) {
			used = info.ModTime()
		}
		return nil
	})
	return bytes, used
}

// chooseOld picks the entries that were not used for age, then the oldest ones
// until at most size bytes are left. Negative bounds mean no bound. What lasts is not
// among them.
func chooseOld(entries []kept, now time.Time, age time.Duration, size int64) []kept {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e kept) bool { return e.lasting })
	byAge := slices.SortedStableFunc(slices.Values(entries), func(a, b kept) int { return a.used.Compare(b.used) })
	left := int64(0)
	for _, e := range byAge {
		left += e.bytes
	}
	var going []kept
	for _, e := range byAge {
		tooOld := age >= 0 && now.Sub(e.used) > age
		tooMuch := size >= 0 && left > size
		if tooOld || tooMuch {
			going = append(going, e)
			left -= e.bytes
		}
	}
	return going
}

// removeKept removes one entry. All steps stay beneath our directory even if a
// command that still runs swaps a directory for a link.
func removeKept(e kept) error {
	root, err := os.OpenRoot(e.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range e.names {
		if err := removeBelow(root, name); err != nil {
			return err
		}
	}
	return nil
}

// removeBelow removes a file or a tree. Package managers leave directories
// without write permission, so those get it when the first try fails.
func removeBelow(root *os.Root, name string) error {
	if err := root.RemoveAll(name); err == nil {
		return nil
	}
	_ = fs.WalkDir(root.FS(), name, func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			_ = root.Chmod(name, 0o700)
		}
		return nil
	})
	return root.RemoveAll(name)
}
