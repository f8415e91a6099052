package agentloop

// binDirs are names of directories of programs whose parent is the tool's root.
var binDirs = []string{"bin", "sbin", "shims", "condabin", ".bin", "Scripts"}

// wideDirs are directories below a home that many unrelated things share: never
// a tool's root.
var wideDirs = []string{
	".local", ".local/share", ".local/state", ".config", ".cache", ".var", ".var/app", "snap",
	"Desktop", "Documents", "Downloads", "Music", "Pictures", "Public", "Templates", "Videos",
	"src", "code", "projects", "work", "dev", "git", "repos", "workspace", "go/src",
}

// toolStores are places below a home where version managers keep whole
// toolchains. A link that lies in the workspace may only lead there: a command
// could have made it, and must not choose what the next command reads.
var toolStores = []string{
	".pyenv/versions", ".local/share/uv/python", ".local/share/uv/tools", ".local/share/pipx/venvs", ".local/pipx/venvs", ".rye/py", ".rye/tools",
	".local/share/hatch/env", ".local/share/virtualenv", ".virtualenvs", ".cache/pypoetry/virtualenvs", ".local/share/virtualenvs",
	"miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda/envs", ".local/share/mamba",
	".nvm/versions", ".fnm/node-versions", ".local/share/fnm/node-versions", ".volta/tools", ".nodenv/versions", ".n/n/versions", ".bun", ".deno",
	".asdf/installs", ".local/share/mise/installs", ".rbenv/versions", ".rvm/rubies", ".rvm/gems", ".sdkman/candidates", ".jenv/versions", ".jabba/jdk", ".jdks",
	".rustup/toolchains", "sdk", ".go", ".gvm/gos", ".goenv/versions", ".ghcup", ".cabal/bin", ".opam", ".juliaup", ".swiftly", ".dotnet", ".phpenv/versions",
	".local/share/pnpm", ".config/yarn/global/node_modules", ".npm-global", ".linuxbrew",
}

// toolVars are variables that name a tool's root, and are passed on.
var toolVars = []string{
	"GOROOT", "JAVA_HOME", "JDK_HOME", "MAVEN_HOME", "M2_HOME", "GRADLE_HOME", "PYENV_ROOT", "RBENV_ROOT", "NODENV_ROOT", "ASDF_DIR", "ASDF_DATA_DIR",
	"MISE_DATA_DIR", "CONDA_PREFIX", "MAMBA_ROOT_PREFIX", "VIRTUAL_ENV", "NVM_BIN", "NVM_INC", "VOLTA_HOME", "FNM_MULTISHELL_PATH", "SDKMAN_DIR",
	"RUSTUP_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT", "DOTNET_ROOT", "FLUTTER_ROOT", "DENO_INSTALL", "BUN_INSTALL", "PNPM_HOME", "SCALA_HOME", "KOTLIN_HOME",
}

// companion is a directory that belongs to another one on PATH without a link
// that would show it.
type companion struct{ onPath, also, reason string }

var companions = []companion{
	{".local/bin", ".local/lib", "packages of the user's Python and Node"},
	{".cargo/bin", ".rustup", "toolchains of rustup"},
	{".juliaup/bin", ".julia/juliaup", "toolchains of juliaup"},
	{".ghcup/bin", ".ghcup", "toolchains of ghcup"},
}

// cargoParts are the parts of cargo's home that a build reads. The rest holds
// credentials, or is written.
var cargoParts = []struct{ name, reason string }{
	{"bin", "programs of cargo"},
	{"registry", "cargo's registry, for reading"},
	{"git", "cargo's git dependencies, for reading"},
	{"config.toml", "cargo's settings"},
	{"config", "cargo's settings"},
}
