package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"sandboxd/agentloop"
	"sandboxd/policy"
)

func completionCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples(
			"sbx completion bash > ~/.local/share/bash-completion/completions/sbx",
			"sbx completion zsh > ~/.zfunc/_sbx",
			"sbx completion fish > ~/.config/fish/completions/sbx.fish"),
		ArgsUsage: "bash|zsh|fish",
		Action: func(c *cli.Context) error {
			if c.Args().First() == "ids" && c.Args().Len() == 2 { // for the scripts
				return p.completeIDs(c, c.Args().Get(1))
			}
			if c.Args().Len() != 1 {
				return misuse("name one of bash, zsh, fish", "a shell is needed")
			}
			script, ok := completionScripts()[c.Args().First()]
			if !ok {
				return misuse("name one of bash, zsh, fish", "no completion for %q", c.Args().First())
			}
			return p.writeOut("%s", script(p.words()))
		},
	}
}

// commandWords is one command, its visible flags and the commands below it, for
// completion.
type commandWords struct {
	name, usage string
	flags       []string // with dashes
	below       []commandWords
}

func (p *program) words() []commandWords {
	var all []commandWords
	for _, c := range commands() {
		all = append(all, wordsOf(p.build(c)))
	}
	return all
}

func wordsOf(c *cli.Command) commandWords {
	w := commandWords{name: c.Name, usage: c.Usage, flags: []string{"--help"}}
	for _, f := range c.Flags {
		if v, ok := f.(cli.VisibleFlag); ok && v.IsVisible() {
			w.flags = append(w.flags, "--"+f.Names()[0])
		}
	}
	for _, sub := range c.Subcommands {
		w.below = append(w.below, wordsOf(sub))
	}
	return w
}

// flagWords are the flags whose values are of a closed set, with these. The command is
// * where the flag means the same in all.
type flagWords struct{ command, flag, values string }

func valueWords() []flagWords {
	var modes []string
	for _, m := range policy.Modes() {
		if m != policy.ModeBubble { // of sub-agents
			modes = append(modes, m.String())
		}
	}
	return []flagWords{
		{"*", "--mode", strings.Join(modes, " ")}, {"*", "--net", "none full"}, {"*", "--tier", "auto base full"},
		{"approve", "--scope", "session project user"}, {"permissions", "--scope", "user project local"},
		{"audit", "--status", strings.Join(agentloop.AuditStatuses(), " ")}, {"audit", "--verdict", "allow ask deny"},
	}
}

func completionScripts() map[string]func([]commandWords) string {
	return map[string]func([]commandWords) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
}

func bashCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString("# bash completion for sbx\n_sbx() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} flags=\n\tif ((COMP_CWORD == 1)); then\n")
	fmt.Fprintf(&b, "\t\tCOMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n\t\treturn\n\tfi\n", commandNames(all))
	b.WriteString("\tlocal i\n\tfor ((i = 2; i < COMP_CWORD; i++)); do\n\t\tif [[ ${COMP_WORDS[i]} == -- ]]; then\n\t\t\tCOMPREPLY=($(compgen -c -f -- \"$cur\"))\n\t\t\treturn\n\t\tfi\n\tdone\n")
	b.WriteString("\tcase \"${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD - 1]}\" in\n")
	for _, v := range valueWords() {
		fmt.Fprintf(&b, "\t%s\\ %s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", v.command, v.flag, v.values)
	}
	b.WriteString("\tesac\n")
	bashIDs(&b)
	b.WriteString("\tcase ${COMP_WORDS[1]} in\n")
	for _, c := range all {
		if len(c.below) == 0 {
			fmt.Fprintf(&b, "\t%s) flags='%s' ;;\n", c.name, strings.Join(c.flags, " "))
			continue
		}
		fmt.Fprintf(&b, "\t%s)\n\t\tif ((COMP_CWORD == 2)) && [[ $cur != -* ]]; then\n\t\t\tCOMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n\t\t\treturn\n\t\tfi\n\t\tcase ${COMP_WORDS[2]} in\n", c.name, commandNames(c.below))
		for _, sub := range c.below {
			fmt.Fprintf(&b, "\t\t%s) flags='%s' ;;\n", sub.name, strings.Join(sub.flags, " "))
		}
		fmt.Fprintf(&b, "\t\t*) flags='%s' ;;\n\t\tesac ;;\n", strings.Join(c.flags, " "))
	}
	b.WriteString("\tesac\n\tif [[ $cur == -* ]]; then\n\t\tCOMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n\telse\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\tfi\n}\ncomplete -o default -F _sbx sbx\n")
	return b.String()
}

func zshCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString("#compdef sbx\n_sbx() {\n\tlocal -a flags\n\tif ((CURRENT == 2)); then\n\t\tlocal -a commands=(\n")
	for _, c := range all {
		fmt.Fprintf(&b, "\t\t\t'%s:%s'\n", c.name, c.usage)
	}
	b.WriteString("\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tif ((${words[(I)--]} > 0 && ${words[(I)--]} < CURRENT)); then\n\t\t_normal\n\t\treturn\n\tfi\n\tcase \"$words[2] $words[CURRENT-1]\" in\n")
	for _, v := range valueWords() {
		fmt.Fprintf(&b, "\t%s\\ %s) compadd -- %s; return ;;\n", v.command, v.flag, v.values)
	}
	b.WriteString("\tesac\n")
	zshIDs(&b)
	b.WriteString("\tcase $words[2] in\n")
	for _, c := range all {
		if len(c.below) == 0 {
			fmt.Fprintf(&b, "\t%s) flags=(%s) ;;\n", c.name, strings.Join(c.flags, " "))
			continue
		}
		fmt.Fprintf(&b, "\t%s)\n\t\tif ((CURRENT == 3)) && [[ $PREFIX != -* ]]; then\n\t\t\tcompadd -- %s\n\t\t\treturn\n\t\tfi\n\t\tcase $words[3] in\n", c.name, commandNames(c.below))
		for _, sub := range c.below {
			fmt.Fprintf(&b, "\t\t%s) flags=(%s) ;;\n", sub.name, strings.Join(sub.flags, " "))
		}
		fmt.Fprintf(&b, "\t\t*) flags=(%s) ;;\n\t\tesac ;;\n", strings.Join(c.flags, " "))
	}
	b.WriteString("\tesac\n\t[[ $PREFIX == -* ]] && compadd -- $flags || _files\n}\n_sbx \"$@\"\n")
	return b.String()
}

func fishCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString("# fish completion for sbx\n")
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c sbx -n __fish_use_subcommand -f -a %s -d '%s'\n", c.name, c.usage)
	}
	flags := func(command, when string, list []string) {
		for _, f := range list {
			values := fishIDValues(command, f)
			for _, v := range valueWords() {
				if v.flag == f && (v.command == "*" || v.command == command) {
					values = fmt.Sprintf(" -x -a '%s'", v.values)
				}
			}
			fmt.Fprintf(&b, "complete -c sbx -n '%s' -l %s%s\n", when, strings.TrimPrefix(f, "--"), values)
		}
	}
	for _, c := range all {
		under := "__fish_seen_subcommand_from " + c.name
		if len(c.below) == 0 {
			flags(c.name, under, c.flags)
			fishIDs(&b, c.name, "", under)
			continue
		}
		first := under + "; and not __fish_seen_subcommand_from " + commandNames(c.below)
		for _, sub := range c.below {
			fmt.Fprintf(&b, "complete -c sbx -n '%s' -f -a %s -d '%s'\n", first, sub.name, strings.ReplaceAll(sub.usage, "'", `\'`))
			flags(c.name, under+"; and __fish_seen_subcommand_from "+sub.name, sub.flags)
			fishIDs(&b, c.name, sub.name, under+"; and __fish_seen_subcommand_from "+sub.name)
		}
		flags(c.name, first, c.flags)
	}
	return b.String()
}

func commandNames(all []commandWords) string {
	var list []string
	for _, c := range all {
		list = append(list, c.name)
	}
	return strings.Join(list, " ")
}
