package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"sandboxd/agentloop"
	"sandboxd/cmd/sandboxd/api"
)

// auditFilters are the flags that select rows.
func auditFilters() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "session", Usage: "rows of the session `ID`"},
		&cli.StringFlag{Name: "call", Usage: "rows of the call `ID`"},
		&cli.StringFlag{Name: "tool", Usage: "rows of the tool `NAME`"},
		&cli.StringFlag{Name: "verdict", Usage: "rows with the `VERDICT` allow, ask or deny"},
		&cli.StringFlag{Name: "status", Usage: "rows with the `STATUS`, such as ok, fail, deny, blocked"},
		&cli.StringFlag{Name: "since", Usage: "rows not older than `TIME`: 2h, 30m, or 2006-01-02T15:04:05Z"},
		&cli.StringFlag{Name: "until", Usage: "rows older than `TIME`, written as that of --since"},
		&cli.StringFlag{Name: "text", Usage: "rows with all `WORDS` in arguments, output or reason"},
	}
}

func auditFlags() []cli.Flag {
	return append(auditFilters(),
		&cli.IntFlag{Name: "limit", Value: 50, Usage: "at most `N` rows"},
		&cli.BoolFlag{Name: "json", Usage: "print one JSON object for each row"},
		runsFlag(), socketFlag())
}

func runsFlag() cli.Flag {
	return &cli.BoolFlag{Name: "runs", Usage: "the log of your own sbx run, which a policy with [audit] run = true begins; no daemon is asked"}
}

func auditCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples("sbx audit --since 2h", "sbx audit --verdict deny --json", "sbx audit --text 'git push'",
			"sbx audit export --since 24h >audit.jsonl", "sbx audit verify"),
		Description: "Shows the newest rows of the daemon's audit log, oldest of them first. You see your own;\n" +
			"root and the admin group see all.",
		Flags: auditFlags(),
		Subcommands: []*cli.Command{
			{Name: "export", Usage: "write all rows as JSON lines whose hashes can be checked",
				UsageText:   examples("sbx audit export >audit.jsonl", "sbx audit export --since 24h --status deny --output denied.jsonl", "sbx audit export --runs >runs.jsonl"),
				Description: "Writes every row that the filters select, the oldest first, as docs/audit.md says.",
				Flags: append(auditFilters(),
					&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "into the new `FILE`, mode 0600", TakesFile: true},
					runsFlag(), socketFlag()),
				Action: p.auditExport},
			{Name: "verify", Usage: "check that no row was changed, removed or added",
				UsageText: examples("sbx audit verify", "sbx audit verify --anchor 1042:9f86d0..."),
				Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "anchor", Usage: "row SEQ must have the hash HASH: `SEQ:HASH` of a log that was kept elsewhere; may be given again"},
					&cli.BoolFlag{Name: "json", Usage: "print one JSON object"}, runsFlag(), socketFlag(),
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
	v, err := auditFilter(c)
	if err != nil {
		return err
	}
	v.Set("newest", "1")
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

// auditFilter is what the flags of auditFilters select.
func auditFilter(c *cli.Context) (url.Values, error) {
	v := url.Values{}
	for _, name := range []string{"session", "call", "tool", "verdict", "status", "text"} {
		if c.IsSet(name) {
			v.Set(name, c.String(name))
		}
	}
	for _, name := range []string{"since", "until"} {
		if c.IsSet(name) {
			at, err := sinceTime(name, c.String(name), time.Now())
			if err != nil {
				return nil, err
			}
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v, nil
}

// auditExport writes rows as the daemon exports them, byte by byte: the hashes are of
// them. On a terminal what that would obey is escaped.
func (p *program) auditExport(c *cli.Context) (err error) {
	if c.Args().Present() {
		return misuse("rows are selected by flags; --output FILE names a file", "unknown argument %q", c.Args().First())
	}
	v, err := auditFilter(c)
	if err != nil {
		return err
	}
	to := &exportWriter{to: p.stdout}
	if path := c.String("output"); path != "" {
		f, openErr := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if openErr != nil {
			return &failure{code: exitSandbox, stage: "output", hint: "name a file that does not exist", err: openErr}
		}
		defer func() {
			if err = errors.Join(err, f.Close()); err != nil {
				_ = os.Remove(path) // a part is not what was asked for
			}
		}()
		to.to = f
	} else if out, ok := p.stdout.(*os.File); ok && isTerminal(int(out.Fd())) {
		safe := &safeWriter{to: p.stdout}
		defer func() { err = errors.Join(err, safe.flush()) }()
		to.to = safe
	}
	if c.Bool("runs") {
		err = p.exportRuns(v, to)
	} else {
		cl := p.client(c)
		defer cl.Close()
		err = daemonFailure(cl.ExportAudit(c.Context, v, to))
	}
	if to.err != nil {
		return &failure{code: exitSandbox, stage: "output", hint: "see that it can be written; the rows are not all there", err: to.err}
	}
	return err
}

// exportWriter tells errors of what is written to from those of what is read.
type exportWriter struct {
	to  io.Writer
	err error
}

func (w *exportWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.err = err
	return n, err
}

// auditRows fetches pages until there are limit rows or no more.
func (p *program) auditRows(c *cli.Context, v url.Values, limit int) ([]agentloop.AuditRecord, error) {
	if limit < 1 {
		return nil, misuse("as in --limit 100", "--limit is above zero")
	}
	if c.Bool("runs") {
		return p.runRows(v, limit)
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

// sinceTime reads a time before now, or a date, of a flag.
func sinceTime(flag, text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, misuse("as in 2h, 30m, 2006-01-02 or 2006-01-02T15:04:05Z", "--%s %q is no time", flag, text)
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
	if c.Bool("runs") {
		anchors, err := api.ParseAnchors(c.StringSlice("anchor"))
		if err != nil {
			return daemonFailure(err)
		}
		report, err := p.runReport(anchors)
		if err != nil {
			return err
		}
		return p.verified(c, report)
	}
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
	return p.verified(c, report)
}

// verified prints a report and gives the status.
func (p *program) verified(c *cli.Context, report agentloop.AuditReport) error {
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
