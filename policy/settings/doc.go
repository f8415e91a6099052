// Package settings reads policy files, environment variables and other agents'
// settings, and merges them into one effective policy in which every value and
// every rule knows its source, file and line.
//
//	e, err := settings.Load(settings.Options{Workspace: dir, Environ: os.Environ()})
//	for _, note := range e.Ignored { fmt.Println(note) }
//	grant := e.Grant()
//
// Sources, strongest first: managed (/etc/sandboxd/policy.toml), command line
// and environment, command, session, local project (sandboxd.local.toml),
// project (sandboxd.toml), user ($XDG_CONFIG_HOME/sandboxd/policy.toml), default.
// Rules of all sources add up, and a deny from any of them wins; of a single
// value the strongest source counts.
//
// The two project files arrive with a checkout. Until a person trusted exactly
// their content ([TrustStore]) they may only tighten: whatever in them would
// loosen is left out and listed in [Effective.Ignored].
//
// # Limits
//
// This package decides nothing and enforces nothing. Owner and mode of a file
// are checked on the opened file, not on the directories above it: whoever can
// replace a directory on the way can replace the file. A managed policy is as
// safe as /etc is.
package settings
