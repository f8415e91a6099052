package policy

import "sync"

// commandRisk is what is said about a program, or a program and its
// sub-command.
type commandRisk struct {
	level riskLevel
	does  string
	risk  string
}

// commandRisks is the table of the heuristic explainer, for people only. It is
// made when it is first needed: most programs that link this package explain
// nothing.
var commandRisks = sync.OnceValue(func() map[string]commandRisk {
	return map[string]commandRisk{
		"ls":         {lowRisk, "lists files", "none beyond what is read"},
		"cat":        {lowRisk, "prints files", "what is read becomes part of the conversation"},
		"echo":       {lowRisk, "prints text", "none by itself"},
		"pwd":        {lowRisk, "prints the directory", "none"},
		"cd":         {lowRisk, "changes the directory", "none by itself"},
		"grep":       {lowRisk, "searches text", "what is found becomes part of the conversation"},
		"rg":         {lowRisk, "searches text", "what is found becomes part of the conversation"},
		"rm":         {mediumRisk, "removes files", "what was not committed is lost"},
		"rmdir":      {mediumRisk, "removes empty directories", "a directory that is needed is missing"},
		"mv":         {mediumRisk, "moves files", "a file at the target is replaced"},
		"cp":         {mediumRisk, "copies files", "a file at the target is replaced"},
		"mkdir":      {mediumRisk, "makes directories", "clutter"},
		"touch":      {mediumRisk, "makes files or changes their times", "clutter"},
		"ln":         {mediumRisk, "makes links", "a name leads somewhere unexpected"},
		"chmod":      {mediumRisk, "changes permissions", "others may read or run the file"},
		"chown":      {highRisk, "changes the owner", "others own the file"},
		"dd":         {highRisk, "copies blocks", "a device or file is overwritten"},
		"curl":       {mediumRisk, "talks to a server", "data leaves the machine or hostile data comes in"},
		"wget":       {mediumRisk, "downloads files", "hostile data comes in"},
		"ssh":        {highRisk, "runs commands on another machine", "nothing here confines what happens there"},
		"scp":        {highRisk, "copies files to or from another machine", "data leaves the machine"},
		"rsync":      {mediumRisk, "copies trees of files", "files at the target are replaced or removed"},
		"sudo":       {highRisk, "runs a command as another user", "it has all rights of that user"},
		"su":         {highRisk, "becomes another user", "it has all rights of that user"},
		"doas":       {highRisk, "runs a command as another user", "it has all rights of that user"},
		"eval":       {highRisk, "runs text as commands", "commands that nobody saw may run"},
		"source":     {mediumRisk, "runs a file in this shell", "the file may have changed"},
		"bash":       {mediumRisk, "runs shell code", "the code may do anything"},
		"sh":         {mediumRisk, "runs shell code", "the code may do anything"},
		"python":     {mediumRisk, "runs Python code", "the code may do anything"},
		"python3":    {mediumRisk, "runs Python code", "the code may do anything"},
		"node":       {mediumRisk, "runs JavaScript", "the code may do anything"},
		"perl":       {mediumRisk, "runs Perl code", "the code may do anything"},
		"ruby":       {mediumRisk, "runs Ruby code", "the code may do anything"},
		"make":       {mediumRisk, "runs the rules of a Makefile", "the Makefile may run anything"},
		"kill":       {mediumRisk, "ends processes", "work in them is lost"},
		"pkill":      {highRisk, "ends processes by name", "the wrong processes end"},
		"killall":    {highRisk, "ends processes by name", "the wrong processes end"},
		"nc":         {highRisk, "opens raw connections", "data leaves the machine"},
		"socat":      {highRisk, "connects anything with anything", "data leaves the machine"},
		"docker":     {highRisk, "controls containers", "a container can own the host"},
		"podman":     {mediumRisk, "controls containers", "a container can see granted files"},
		"kubectl":    {highRisk, "controls a cluster", "services of others are changed"},
		"terraform":  {highRisk, "changes infrastructure", "services are changed or removed"},
		"crontab":    {highRisk, "changes jobs that run later", "commands run when nobody looks"},
		"systemctl":  {highRisk, "controls services", "a service stops"},
		"apt":        {highRisk, "installs system packages", "the system changes"},
		"apt-get":    {highRisk, "installs system packages", "the system changes"},
		"git push":   {mediumRisk, "publishes commits", "others see them, and history may be replaced"},
		"git reset":  {mediumRisk, "moves the branch, and with --hard the files", "work that was not committed is lost"},
		"git clean":  {highRisk, "removes files that git does not know", "they cannot be restored"},
		"git commit": {mediumRisk, "records a commit and runs hooks", "the commit may hold what should not be in it"},
		"git checkout": {mediumRisk, "switches branches or restores files",
			"changes in restored files are lost"},
		"git clone":     {mediumRisk, "downloads a repository", "hostile data comes in"},
		"git pull":      {mediumRisk, "downloads and merges commits", "the files change"},
		"git rebase":    {mediumRisk, "rewrites commits", "history changes"},
		"git status":    {lowRisk, "shows the state", "none"},
		"git log":       {lowRisk, "shows commits", "none"},
		"git diff":      {lowRisk, "shows changes", "none"},
		"git show":      {lowRisk, "shows a commit", "none"},
		"git add":       {mediumRisk, "stages files", "a secret may be staged"},
		"npm install":   {mediumRisk, "downloads packages and runs their install scripts", "code of strangers runs"},
		"npm ci":        {mediumRisk, "downloads packages and runs their install scripts", "code of strangers runs"},
		"npm publish":   {highRisk, "publishes a package", "it cannot be taken back"},
		"npm run":       {mediumRisk, "runs a script of the project", "the script may do anything"},
		"npm test":      {mediumRisk, "runs the tests of the project", "the tests may do anything"},
		"pip install":   {mediumRisk, "downloads packages and may run their set-up", "code of strangers runs"},
		"cargo build":   {mediumRisk, "builds the project and runs build scripts", "build scripts may do anything"},
		"cargo test":    {mediumRisk, "builds and runs the tests", "the tests may do anything"},
		"cargo publish": {highRisk, "publishes a package", "it cannot be taken back"},
		"go build":      {mediumRisk, "builds the project", "it may download modules"},
		"go test":       {mediumRisk, "builds and runs the tests", "the tests may do anything"},
		"go run":        {mediumRisk, "builds and runs a program", "the program may do anything"},
		"go vet":        {lowRisk, "looks for mistakes", "none"},
		"gh pr":         {mediumRisk, "works with pull requests", "others see the result"},
	}
})
