package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"sandboxd/agentloop"
	"sandboxd/agentloop/tools/files"
	"sandboxd/policy"
)

// fetchTool is web_fetch. The address is fetched by a confined helper, as the
// user and without the workspace: what a page holds is read where it can touch
// nothing. The helper holds itself to the one host that was decided; a network by
// host is not held by the kernel yet.
type fetchTool struct{ helper }

func (fetchTool) Name() string { return "web_fetch" }

// Traits: a failed download is no reason to go on with what was asked for beside it
// (resolution C32).
func (fetchTool) Traits(policy.Args) agentloop.Traits {
	return agentloop.Traits{ConcurrencySafe: true, ReadOnly: true, SiblingAbort: true, Interrupt: agentloop.InterruptCancel}
}

func (fetchTool) Schema() agentloop.ToolSchema {
	return schema("web_fetch", "Fetches a page, as text. Only hosts that the policy, or the person, allows; no cookies, no logins, and redirects to other hosts are told, not followed.", object{
		{name: "url", kind: "string", text: "http:// or https://", required: true},
		{name: "format", kind: "string", text: "markdown, unless raw is asked for.", enum: []string{"markdown", "raw"}},
	})
}

// Check reads the arguments.
func (fetchTool) Check(args policy.Args) error {
	_, _, err := fetchOf(args)
	return err
}

func fetchOf(args policy.Args) (address, format string, err error) {
	if address, err = need(args, "url"); err != nil {
		return "", "", err
	}
	format, _, err = text(args, "format")
	if err == nil && format != "" && format != "markdown" && format != "raw" {
		err = errors.New("argument format: markdown or raw")
	}
	return address, format, err
}

func (t fetchTool) Call(ctx context.Context, r *agentloop.ToolRun) (string, error) {
	address, format, err := fetchOf(r.Call.Args)
	if err != nil {
		return "", err
	}
	u, err := fetchable(address)
	if err != nil {
		return "", err
	}
	if r.Session.Redactor().Mask(address) != address {
		return "", errors.New("the address holds what looks like a secret: it is not sent")
	}
	how, err := mayReach(r, u)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(fetchRequest{URL: u.String(), How: how, Raw: format == "raw"})
	if err != nil {
		return "", err
	}
	a, err := t.runOwn(ctx, r, files.Request{Other: body}, agentloop.Command{Network: []string{"full"}})
	if err != nil {
		return "", err
	}
	return a.Text, nil
}

// fetchable reads an address that can be fetched.
func fetchable(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("argument url: not an address")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("argument url: want http://HOST or https://HOST")
	case u.User != nil:
		return nil, errors.New("argument url: an address with a user is not fetched")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// mayReach says how the host of u was allowed: by the list of the policy, by a rule,
// or by a person. A mode, or default = "allow", opens no network.
func mayReach(r *agentloop.ToolRun, u *url.URL) (policy.HostGrant, error) {
	if how := r.Session.GrantsHost(u.String()); how != policy.HostNotGranted {
		return how, nil
	}
	switch reason := r.Decision().Reason.(type) {
	case policy.UserReason, policy.HookReason: // who was asked, and answered
		return policy.HostByStar, nil
	case policy.RuleReason:
		if reason.Kind == policy.AllowRule {
			return policy.HostByStar, nil
		}
	}
	return policy.HostNotGranted, fmt.Errorf("no rule and nobody allows %s: a rule web_fetch(domain:%s) would", u.Host, u.Hostname())
}
