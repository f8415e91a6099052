package bash

// handler picks the code for programs whose arguments need more than a table.
type handler uint8

const (
	howTable handler = iota
	howEnv
	howPrivileged
	howSu
	howFlock
	howWatch
	howScript
	howSubRun
	howSandbox
	howFind
	howXargs
	howParallel
	howFd
	howShell
	howBusybox
	howBusyShell
	howEcho
	howPrintf
	howTest
	howTrue
	howPwd
	howWhich
	howCat
	howTee
	howDd
	howFilter
	howMktemp
	howDate
	howBaseName
	howSed
	howAwk
	howEd
	howVim
	howGit
	howSSH
	howSCP
	howRsync
	howTar
	howGdb
	howMan
	howLess
	howCurl
	howTmux
	howMake
	howPython
	howCode
	howCompiler
	howGo
	howNode
	howPackager
	howSocat
	howIP
	howSplit
	howPrintenv
	howExpect
	howStdinCode
	howZip
	howJq
	howOpenFile
	howLoader
	howConsole
	howRunParts
	howProve
)

// handle dispatches to the code for one program.
func (a *analyzer) handle(v *invocation, p *program) {
	switch p.how {
	case howEnv:
		a.env(v, p)
	case howPrivileged:
		a.privileged(v, p)
	case howSu:
		a.su(v, p)
	case howFlock:
		a.flock(v, p)
	case howWatch:
		a.watch(v, p)
	case howScript:
		a.scriptCommand(v, p)
	case howSubRun:
		a.subRun(v, p)
	case howSandbox:
		a.sandbox(v, p)
	case howFind:
		a.find(v)
	case howXargs:
		a.xargs(v, p)
	case howParallel:
		a.parallel(v, p)
	case howFd:
		a.fd(v, p)
	case howShell:
		a.shell(v)
	case howBusybox:
		a.busybox(v)
	case howBusyShell:
		a.restToShell(v, p)
	case howEcho:
		a.setReadOnly()
		a.echo(v, v.argv[1:])
	case howPrintf:
		a.printf(v, v.argv[1:])
	case howTest:
		a.test(v, v.argv[1:])
	case howTrue:
		a.setReadOnly()
	case howPwd:
		a.setReadOnly()
		v.st.out.write(withNewline(dirTexts(v.st.dirs)))
	case howWhich:
		a.setReadOnly()
		a.tellPath(v, v.argv[1:])
	case howCat:
		a.cat(v, p)
	case howTee:
		a.tee(v, p)
	case howDd:
		a.dd(v)
	case howFilter:
		a.filter(v, p)
	case howDate:
		a.date(v, p)
	case howMktemp:
		a.mktemp(v, p)
	case howBaseName:
		a.baseNames(v)
	case howSed:
		a.sed(v, p)
	case howAwk:
		a.awk(v, p)
	case howEd:
		a.ed(v, p)
	case howVim:
		a.vim(v, p)
	case howGit:
		a.git(v, p)
	case howSSH:
		a.ssh(v, p)
	case howSCP:
		a.scp(v, p)
	case howRsync:
		a.rsync(v, p)
	case howTar:
		a.tar(v, p)
	case howGdb:
		a.gdb(v, p)
	case howMan:
		a.man(v, p)
	case howLess:
		a.less(v, p)
	case howCurl:
		a.curl(v, p)
	case howTmux:
		a.tmux(v, p)
	case howMake:
		a.make(v, p)
	case howPython:
		a.python(v, p)
	case howCode, howNode:
		a.interpreter(v, p)
	case howCompiler:
		a.compiler(v, p)
	case howGo:
		a.goTool(v, p)
	case howPackager:
		a.packager(v, p)
	case howSocat:
		a.socat(v, p)
	case howIP:
		a.ip(v, p)
	case howSplit:
		a.splitFile(v, p)
	case howPrintenv:
		if len(v.argv) == 1 {
			a.danger(SecretRead, "printenv")
		}
		a.setReadOnly()
		a.defaultOut(v)
	case howExpect:
		a.interpreter(v, p)
	case howStdinCode:
		a.stdinCode(v, p)
	case howZip:
		a.zip(v, p)
	case howJq:
		a.jq(v, p)
	case howOpenFile:
		a.editor(v, p)
	case howLoader:
		a.loader(v, p)
	case howConsole:
		a.console(v, p)
	case howRunParts:
		a.runParts(v, p)
	case howProve:
		a.prove(v, p)
	}
}
