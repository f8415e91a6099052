package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

func completionCommand(p *program) *cli.Command {
	return &cli.Command{
		UsageText: examples(
			"sbx completion bash > ~/.local/share/bash-completion/completions/sbx",
			"sbx completion zsh > ~/.zfunc/_sbx",
			"sbx completion fish > ~/.config/fish/completions/sbx.fish"),
		ArgsUsage: "bash|zsh|fish",
		Action: func(c *cli.Context) error {
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

// commandWords is one subcommand and its visible flags, for completion.
type commandWords struct {
	name, usage string
	flags       []string // with dashes
}

func (p *program) words() []commandWords {
	var all []commandWords
	for _, c := range commands() {
		w := commandWords{name: c.name, usage: c.usage, flags: []string{"--help"}}
		for _, f := range p.build(c).Flags {
			if v, ok := f.(cli.VisibleFlag); ok && v.IsVisible() {
				w.flags = append(w.flags, "--"+f.Names()[0])
			}
		}
		all = append(all, w)
	}
	return all
}

func completionScripts() map[string]func([]commandWords) string {
	return map[string]func([]commandWords) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
}

func bashCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString("# bash completion for sbx\n_sbx() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]}\n\tif ((COMP_CWORD == 1)); then\n")
	fmt.Fprintf(&b, "\t\tCOMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n\t\treturn\n\tfi\n", commandNames(all))
	b.WriteString("\tlocal i\n\tfor ((i = 2; i < COMP_CWORD; i++)); do\n\t\tif [[ ${COMP_WORDS[i]} == -- ]]; then\n\t\t\tCOMPREPLY=($(compgen -c -f -- \"$cur\"))\n\t\t\treturn\n\t\tfi\n\tdone\n\tcase ${COMP_WORDS[1]} in\n")
	for _, c := range all {
		fmt.Fprintf(&b, "\t%s) [[ $cur == -* ]] && COMPREPLY=($(compgen -W '%s' -- \"$cur\")) || COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n",
			c.name, strings.Join(c.flags, " "))
	}
	b.WriteString("\tesac\n}\ncomplete -o default -F _sbx sbx\n")
	return b.String()
}

func zshCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString("#compdef sbx\n_sbx() {\n\tif ((CURRENT == 2)); then\n\t\tlocal -a commands=(\n")
	for _, c := range all {
		fmt.Fprintf(&b, "\t\t\t'%s:%s'\n", c.name, c.usage)
	}
	b.WriteString("\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tif ((${words[(I)--]} > 0 && ${words[(I)--]} < CURRENT)); then\n\t\t_normal\n\t\treturn\n\tfi\n\tcase $words[2] in\n")
	for _, c := range all {
		fmt.Fprintf(&b, "\t%s) [[ $PREFIX == -* ]] && compadd -- %s || _files ;;\n", c.name, strings.Join(c.flags, " "))
	}
	b.WriteString("\tesac\n}\n_sbx \"$@\"\n")
	return b.String()
}

func fishCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString("# fish completion for sbx\n")
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c sbx -n __fish_use_subcommand -f -a %s -d '%s'\n", c.name, c.usage)
	}
	for _, c := range all {
		for _, f := range c.flags {
			fmt.Fprintf(&b, "complete -c sbx -n '__fish_seen_subcommand_from %s' -l %s\n", c.name, strings.TrimPrefix(f, "--"))
		}
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
