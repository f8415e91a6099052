package main

import (
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the Makefile through -ldflags -X; otherwise the go command's
// build information tells.
var version string

// versionObject is the answer of sbx version --json.
type versionObject struct {
	Product string `json:"product"` // "sandboxd": tells it from Docker's sbx
	Program string `json:"program"`
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

func versionCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx version", "sbx version --json"),
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}},
		Action: func(c *cli.Context) error {
			v := currentVersion()
			if c.Bool("json") {
				return p.writeJSON(v)
			}
			return p.writeOut("sbx %s of sandboxd, built with %s\nThis is not the sbx of Docker: it needs no Docker and keeps its state under sandboxd/.\n",
				v.Version, v.Go)
		},
	}
}

func currentVersion() versionObject {
	v := versionObject{Product: "sandboxd", Program: "sbx", Version: version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
