package test

// A room is a directory with Go files.
type room struct {
	// imports are the rooms of ours it may use. "*" means any.
	imports []string
	// owns are prefixes of outside import paths that only this room (and others
	// that name them too) may use outside test files.
	owns []string
	// cgo allows import "C".
	cgo bool
}

const (
	goLandlock = "github.com/landlock-lsm/go-landlock"
	libseccomp = "github.com/seccomp/libseccomp-golang"
	shellParse = "mvdan.cc/sh"
	tomlReader = "github.com/pelletier/go-toml"
	osExec     = "os/exec"
	mcpSDK     = "github.com/modelcontextprotocol/go-sdk"
	cliLib     = "github.com/urfave/cli"
	sqlDriver  = "modernc.org/sqlite"
	anthropic  = "github.com/anthropics/anthropic-sdk-go"
	openAI     = "github.com/openai/openai-go"
)

// plan is the house: every room, what it may import of ours and which outside
// dependencies it owns. A new room is added here first.
var plan = map[string]room{
	"landlock":               {owns: []string{goLandlock}},
	"seccomp":                {owns: []string{libseccomp}},
	"exec":                   {imports: []string{"landlock", "seccomp", "exec/child"}, owns: []string{osExec}},
	"exec/child":             {imports: []string{"landlock", "seccomp"}, cgo: true},
	"policy/bash":            {owns: []string{shellParse}},
	"policy/path":            {},
	"policy":                 {imports: []string{"policy/bash", "policy/path"}},
	"policy/settings":        {imports: []string{"policy", "policy/path"}, owns: []string{tomlReader}},
	"agentloop":              {imports: []string{"policy", "policy/path", "exec", "landlock", "seccomp"}},
	"agentloop/tools/files":  {},
	"agentloop/tools":        {imports: []string{"agentloop", "agentloop/tools/files", "policy", "policy/path", "exec"}, owns: []string{mcpSDK}},
	"agentloop/provider":     {imports: []string{"agentloop", "policy"}, owns: []string{anthropic, openAI}},
	"agentloop/sqlite":       {imports: []string{"agentloop", "policy"}, owns: []string{"database/sql", sqlDriver}},
	"cmd/sandboxd/api":       {imports: []string{"agentloop", "policy", "exec"}}, // exec: for the words of a result
	"cmd/sandboxd/mcp":       {imports: []string{"agentloop", "policy"}, owns: []string{mcpSDK}},
	"cmd/sandboxd/dashboard": {},
	"cmd/sandboxd":           {imports: []string{"*"}, owns: []string{cliLib}},
	"cmd/sbx":                {imports: []string{"*"}, owns: []string{cliLib}},
	"test":                   {},
	testRoom:                 {},
	modelRoom:                {imports: []string{"agentloop"}},
}

// testRoom says what tests need of their host. Tests of every room may import it.
const testRoom = "test/require"

// modelRoom plays a model for tests, which may import it, too.
const modelRoom = "test/model"

// topLevel names what may stand in the root of the tree besides the rooms. The
// last two are what go build leaves there.
var topLevel = []string{
	".ci", ".git", ".gitignore", "bin", "docs", "go.mod", "go.sum", "LICENSE", "Makefile", "README.md",
	"sbx", "sandboxd",
}
