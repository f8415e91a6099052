package test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "sandboxd/"

func TestLayoutIsAsPlanned(t *testing.T) {
	violations, err := checkLayout(os.DirFS(".."), plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

// A checker that finds nothing proves nothing: each kind of violation is planted.
func TestLayoutCheckFindsPlantedViolations(t *testing.T) {
	honest := map[string]string{
		"README.md":                 "x",
		"landlock/landlock.go":      "package landlock\nimport _ \"" + goLandlock + "/landlock\"\n",
		"exec/run.go":               "package exec\nimport _ \"os/exec\"\nimport _ \"sandboxd/landlock\"\n",
		"policy/policy.go":          "package policy\nimport _ \"sandboxd/policy/path\"\n",
		"policy/path/path.go":       "package path\n",
		"policy/path/path_test.go":  "package path\nimport _ \"os/exec\"\nimport _ \"sandboxd/test/require\"\nimport _ \"sandboxd/policy/path\"\n",
		"policy/path/testdata/a.go": "package broken\nimport _ \"os/exec\"\n",
		"cmd/sbx/main.go":           "package main\nimport _ \"sandboxd/exec\"\nimport _ \"" + cliLib + "/v2\"\n",
	}
	for _, tt := range []struct {
		name, file, content, want string
	}{
		{"nothing planted", "", "", ""},
		{"upward import", "landlock/up.go", "package landlock\nimport _ \"sandboxd/exec\"\n",
			"landlock/up.go: landlock may not import exec"},
		{"policy meets exec", "policy/meet.go", "package policy\nimport _ \"sandboxd/exec\"\n",
			"policy/meet.go: policy may not import exec"},
		{"upward import by a test", "landlock/up_test.go", "package landlock\nimport _ \"sandboxd/exec\"\n",
			"landlock/up_test.go: landlock may not import exec"},
		{"a program that uses what tests need", "policy/need.go", "package policy\nimport _ \"sandboxd/test/require\"\n",
			"policy/need.go: policy may not import test/require"},
		{"a program that uses the model of tests", "policy/play.go", "package policy\nimport _ \"sandboxd/test/model\"\n",
			"policy/play.go: policy may not import test/model"},
		{"dependency of another room", "policy/dep.go", "package policy\nimport _ \"" + goLandlock + "/landlock\"\n",
			"policy/dep.go: " + goLandlock + " belongs to landlock"},
		{"a starter of processes", "policy/start.go", "package policy\nimport x \"os/exec\"\n",
			"policy/start.go: os/exec belongs to exec"},
		{"an older major version", "policy/sh.go", "package policy\nimport _ \"mvdan.cc/sh/syntax\"\n",
			"policy/sh.go: mvdan.cc/sh belongs to policy/bash"},
		{"cgo", "policy/c.go", "package policy\nimport \"C\"\n",
			"policy/c.go: policy may not use cgo"},
		{"unplanned room", "utils/u.go", "package utils\n",
			"utils: not a room of the plan"},
		{"unplanned room below a planned one", "policy/helpers/u.go", "package helpers\n",
			"policy/helpers: not a room of the plan"},
		{"unplanned top-level name", "notes.txt", "x",
			"notes.txt: not planned at the top of the tree"},
		{"unreadable file", "policy/bad.go", "pakcage policy\n",
			"policy/bad.go: "},
		{"init", "policy/i.go", "package policy\nfunc init() {}\n",
			"policy/i.go: func init is not used here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for name, content := range honest {
				tree[name] = &fstest.MapFile{Data: []byte(content)}
			}
			if tt.file != "" {
				tree[tt.file] = &fstest.MapFile{Data: []byte(tt.content)}
			}
			got, err := checkLayout(tree, plan)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				if len(got) != 0 {
					t.Errorf("an honest tree is reported: %q", got)
				}
				return
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
				t.Errorf("checkLayout = %q, want one violation %q", got, tt.want)
			}
		})
	}
}

// checkLayout compares the imports of every Go file in tree with the plan and
// returns one line for each violation.
func checkLayout(tree fs.FS, plan map[string]room) ([]string, error) {
	violations, err := checkTop(tree, plan)
	if err != nil {
		return nil, err
	}
	unplanned := map[string]bool{}
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && skippedDir(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		dir := path.Dir(name)
		r, planned := plan[dir]
		if !planned {
			if !unplanned[dir] {
				unplanned[dir] = true
				violations = append(violations, dir+": not a room of the plan in test/layout_table_test.go")
			}
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		violations = append(violations, checkFile(name, content, dir, r, plan)...)
		return nil
	})
	return violations, err
}

// skippedDir says whether the go command ignores a directory of this name, or it
// holds no source.
func skippedDir(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin"
}

func checkTop(tree fs.FS, plan map[string]room) ([]string, error) {
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		return nil, err
	}
	var violations []string
	for _, e := range entries {
		name := e.Name()
		planned := slices.Contains(topLevel, name)
		for dir := range plan {
			planned = planned || dir == name || strings.HasPrefix(dir, name+"/")
		}
		// A directory with Go files is reported once, as an unplanned room.
		if !planned && !e.IsDir() {
			violations = append(violations, name+": not planned at the top of the tree")
		}
	}
	return violations, nil
}

func checkFile(name string, content []byte, dir string, r room, plan map[string]room) []string {
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", name, err)}
	}
	isTest := strings.HasSuffix(name, "_test.go")
	var violations []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return []string{fmt.Sprintf("%s: %v", name, err)}
		}
		if v := checkImport(imported, dir, isTest, r, plan); v != "" {
			violations = append(violations, name+": "+v)
		}
	}
	for _, decl := range file.Decls {
		if isInit(decl) && !isTest {
			violations = append(violations, name+": func init is not used here")
		}
	}
	return violations
}

// checkImport returns what is wrong with one import, or "".
func checkImport(imported, dir string, isTest bool, r room, plan map[string]room) string {
	if imported == "C" {
		if r.cgo {
			return ""
		}
		return dir + " may not use cgo"
	}
	if ours, ok := strings.CutPrefix(imported, module); ok {
		// An external test package imports the room it tests; test looks at all.
		if ours == dir || isTest && (dir == "test" || ours == testRoom || ours == modelRoom) ||
			slices.Contains(r.imports, ours) || slices.Contains(r.imports, "*") {
			return ""
		}
		return dir + " may not import " + ours
	}
	if isTest {
		return ""
	}
	for _, dep := range owned(plan) {
		if hasPathPrefix(imported, dep) && !slices.Contains(r.owns, dep) {
			return dep + " belongs to " + strings.Join(owners(plan, dep), ", ")
		}
	}
	return ""
}

func hasPathPrefix(imported, dep string) bool {
	return imported == dep || strings.HasPrefix(imported, dep+"/")
}

// owned lists every outside dependency that has an owner, sorted.
func owned(plan map[string]room) []string {
	var deps []string
	for _, r := range plan {
		deps = append(deps, r.owns...)
	}
	slices.Sort(deps)
	return slices.Compact(deps)
}

func owners(plan map[string]room, dep string) []string {
	var rooms []string
	for dir, r := range plan {
		if slices.Contains(r.owns, dep) {
			rooms = append(rooms, dir)
		}
	}
	slices.Sort(rooms)
	return rooms
}

// isInit reports a func init: package start-up is a budget of the command line.
func isInit(decl ast.Decl) bool {
	fn, ok := decl.(*ast.FuncDecl)
	return ok && fn.Recv == nil && fn.Name.Name == "init"
}
