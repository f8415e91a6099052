package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sandboxd/agentloop"
)

func auditFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "session", Usage: "rows of the session `ID`"},
		&cli.StringFlag{Name: "call", Usage: "rows of the call `ID`"},
		&cli.StringFlag{Name: "tool", Usage: "rows of the tool `NAME`"},
		&cli.StringFlag{Name: "verdict", Usage: "rows with the `VERDICT` allow, ask or deny"},
		&cli.StringFlag{Name: "status", Usage: "rows with the `STATUS`, such as ok, fail, deny, blocked"},
		&cli.StringFlag{Name: "since", Usage: "rows not older than `TIME`: 2h, 30m, or 2006-01-02T15:04:05Z"},
		&cli.StringFlag{Name: "text", Usage: "rows with all `WORDS` in arguments, output or reason"},
		&cli.IntFlag{Name: "limit", Value: 50, Usage: "at most `N` rows"},
		&cli.BoolFlag{Name: "json", Usage: "print one JSON object for each row"},
		socketFlag(),
	}
}

func auditCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx audit --since 2h", "sbx audit --verdict deny --json", "sbx audit --text 'git push'", "sbx audit verify"),
		Description: "Shows the newest rows of the daemon's audit log, oldest of them first. You see your own;\n" +
			"root and the admin group see all.",
		Flags: auditFlags(),
		Subcommands: []*cli.Command{
			{Name: "verify", Usage: "check that no row was changed, removed or added",
				UsageText: examples("sbx audit verify", "sbx audit verify --anchor 1042:9f86d0..."),
				Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "anchor", Usage: "row SEQ must have the hash HASH: `SEQ:HASH` of a log that was kept elsewhere; may be given again"},
					&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}, socketFlag(),
				}, Action: p.auditVerify},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return needSubcommand(c)
			}
			return p.audit(c)
		},
	}
}

// audit prints rows.
func (p *program) audit(c *cli.Context) error {
	v := url.Values{"newest": {"1"}}
	for _, name := range []string{"session", "call", "tool", "verdict", "status", "text"} {
		if c.IsSet(name) {
			v.Set(name, c.String(name))
		}
	}
	if c.IsSet("since") {
		since, err := sinceTime(c.String("since"), time.Now())
		if err != nil {
			return err
		}
		v.Set("since", since.UTC().Format(time.RFC3339Nano))
	}
	rows, err := p.auditRows(c, v, c.Int("limit"))
	if err != nil {
		return err
	}
	for i := len(rows) - 1; i >= 0; i-- {
		if c.Bool("json") {
			err = p.writeJSON(rows[i])
		} else {
			err = p.writeOut("%s\n", auditLine(rows[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// auditRows fetches pages until there are limit rows or no more.
func (p *program) auditRows(c *cli.Context, v url.Values, limit int) ([]agentloop.AuditRecord, error) {
	if limit < 1 {
		return nil, misuse("as in --limit 100", "--limit is above zero")
	}
	cl := p.client(c)
	defer cl.Close()
	var rows []agentloop.AuditRecord
	for {
		v.Set("limit", strconv.Itoa(min(limit-len(rows), 1000)))
		var page agentloop.AuditPage
		if err := cl.Get(c.Context, "/api/audit?"+v.Encode(), &page); err != nil {
			return nil, daemonFailure(err)
		}
		rows = append(rows, page.Rows...)
		if page.Next == 0 || len(rows) >= limit {
			return rows, nil
		}
		v.Set("after", strconv.FormatInt(page.Next, 10))
	}
}

// sinceTime reads a time before now, or a date.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, misuse("as in 2h, 30m, 2006-01-02 or 2006-01-02T15:04:05Z", "--since %q is no time", text)
}

// auditLine is one row for people.
func auditLine(r agentloop.AuditRecord) string {
	what := string(r.Args)
	var args map[string]any
	if json.Unmarshal(r.Args, &args) == nil {
		for _, name := range []string{"command", "file_path", "path", "url"} {
			if s, ok := args[name].(string); ok {
				what = s
				break
			}
		}
	}
	var reason struct{ Type, Rule, Pattern, Name, Text string }
	_ = json.Unmarshal(r.Reason, &reason)
	why := strings.TrimSpace(reason.Type + " " + reason.Pattern + reason.Name)
	return oneLine(fmt.Sprintf("%s  uid %-5d %-8s %-8s %s  [%s]", r.Time.Local().Format(time.DateTime), r.UID, r.Status, r.Tool, shortLine(what), why))
}

func (p *program) auditVerify(c *cli.Context) error {
	cl := p.client(c)
	defer cl.Close()
	var report agentloop.AuditReport
	path := "/api/audit/verify"
	if known := c.StringSlice("anchor"); len(known) > 0 {
		path += "?" + url.Values{"anchor": known}.Encode()
	}
	if err := cl.Get(c.Context, path, &report); err != nil {
		return daemonFailure(err)
	}
	if c.Bool("json") {
		if err := p.writeJSON(report); err != nil {
			return err
		}
	} else if err := p.writeReport(report); err != nil {
		return err
	}
	if !report.OK {
		return exitStatus(1)
	}
	return nil
}

func (p *program) writeReport(r agentloop.AuditReport) error {
	text := fmt.Sprintf("ok: %d rows, %d to %d, unchanged; anchored up to row %d\n", r.Rows, r.First, r.Last, r.Anchored)
	if !r.OK {
		text = fmt.Sprintf("NOT OK: %d problems in %d rows\n", r.ProblemCount, r.Rows)
	}
	for _, problem := range r.Problems {
		text += oneLine(fmt.Sprintf("row %d: %s: %s", problem.Seq, problem.Kind, problem.Detail)) + "\n"
	}
	for _, n := range r.Notes {
		text += "note: " + oneLine(n) + "\n"
	}
	return p.writeOut("%s", text)
}

// permissionsRecent shows the newest decisions: what was asked for and why it was
// allowed or denied.
func (p *program) permissionsRecent(c *cli.Context) error {
	rows, err := p.auditRows(c, url.Values{"newest": {"1"}}, 4*c.Int("limit"))
	if err != nil {
		return err
	}
	var decided []agentloop.AuditRecord
	for _, r := range rows {
		switch r.Status {
		case agentloop.StatusAllow, agentloop.StatusDeny, agentloop.StatusAsk, agentloop.StatusBlocked:
			if len(decided) < c.Int("limit") {
				decided = append(decided, r)
			}
		}
	}
	for i := len(decided) - 1; i >= 0; i-- {
		if c.Bool("json") {
			err = p.writeJSON(decided[i])
		} else {
			err = p.writeOut("%s\n", auditLine(decided[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
