package agentloop

import (
	"path"
	"strings"
)

// homeSecrets are places below a home directory that are never granted by a
// default, and that keep a directory above them from being granted as a whole.
var homeSecrets = []string{
	".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/op", ".vault-token",
	".aws", ".azure", ".config/gcloud", ".config/doctl", ".config/hcloud", ".oci", ".bluemix", ".aliyun", ".s3cfg", ".boto",
	".kube", ".docker/config.json", ".docker/contexts", ".config/containers/auth.json", ".config/helm", ".config/rclone", ".minikube",
	".netrc", ".authinfo", ".authinfo.gpg", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub",
	".npmrc", ".yarnrc.yml", ".pypirc", ".config/pip/pip.conf", ".pip/pip.conf", ".gem/credentials", ".bundle/config", ".composer/auth.json",
	".config/composer/auth.json", ".cargo/credentials", ".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml",
	".gradle/gradle.properties", ".ivy2/.credentials", ".sbt/credentials", ".nuget/NuGet", ".config/NuGet", ".hex", ".config/pypoetry/auth.toml",
	".terraform.d/credentials.tfrc.json", ".terraformrc", ".config/pulumi", ".pulumi/credentials.json", ".ansible", ".vagrant.d/data",
	".pgpass", ".my.cnf", ".mylogin.cnf", ".mongorc.js", ".dbshell", ".rediscli_history", ".psql_history", ".mysql_history", ".sqlite_history",
	".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".local/share/fish/fish_history", ".histfile", ".lesshst", ".viminfo",
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/Slack", ".config/Signal",
	".config/sandboxd", ".local/state/sandboxd", ".cache/sandboxd",
	".claude", ".claude.json", ".codex", ".gemini", ".config/opencode", ".local/share/opencode", ".aider.conf.yml", ".cursor", ".config/github-copilot",
	".env", ".envrc", ".Xauthority", ".ICEauthority", ".config/systemd", ".config/autostart", ".huggingface", ".cache/huggingface/token",
}

// rootSecrets are names that hold a secret wherever they lie at the top of a
// tool's directory. They are hidden where the rest is granted.
var rootSecrets = []string{
	".env", ".env.*", ".envrc", ".netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".vault-token", ".htpasswd",
	"credentials", "credentials.*", "auth.json", "token", "token.*", "secrets", "secrets.*", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
	"*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.keystore", "service-account*.json",
}

// isRootSecret reports whether name is one of rootSecrets.
func isRootSecret(name string) bool {
	for _, pattern := range rootSecrets {
		if hit, err := path.Match(pattern, name); err == nil && hit {
			return true
		}
	}
	return false
}

// homeSecretWithin returns the first existing secret of home that lies within
// dir or holds it.
func homeSecretWithin(r *resolver, home, dir string) (string, bool) {
	if home == "" || !within(dir, home) && !within(home, dir) {
		return "", false
	}
	for _, rel := range homeSecrets {
		secret := home + "/" + rel
		if within(dir, secret) {
			return secret, true
		}
		if within(secret, dir) && r.lstat(secret).err == nil {
			return secret, true
		}
	}
	return "", false
}

// looksSecret reports whether a value carries a credential: a known token
// prefix, a private key, or a user and password in a URL. Prefixes are those
// their makers document for secret scanners.
func looksSecret(value string) bool {
	for _, prefix := range tokenPrefixes {
		if i := strings.Index(value, prefix); i >= 0 && (i == 0 || !wordByte(value[i-1])) && len(value)-i >= len(prefix)+8 {
			return true
		}
	}
	return strings.Contains(value, "PRIVATE KEY-----") || urlCredentials(value)
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

var tokenPrefixes = []string{
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glsoat-",
	"sk-", "sk_live_", "sk_test_", "rk_live_", "pk_live_", "whsec_", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-",
	"AKIA", "ASIA", "AIza", "ya29.", "GOCSPX-", "npm_", "pypi-", "dop_v1_", "doo_v1_", "hf_", "hvs.", "hvb.", "shpat_", "shpss_",
	"SG.", "dckr_pat_", "EAACEdEose0cBA", "AGE-SECRET-KEY-", "eyJhbGciOi", "tfp_", "atlasv1.", "lin_api_", "rubygems_",
}

// urlCredentials reports whether s holds scheme://user:password@ or
// scheme://token@.
func urlCredentials(s string) bool {
	for {
		_, rest, ok := strings.Cut(s, "://")
		if !ok {
			return false
		}
		authority := rest
		if end := strings.IndexAny(rest, "/?# \t\n,|;"); end >= 0 {
			authority = rest[:end]
		}
		if user, _, ok := strings.Cut(authority, "@"); ok && user != "" && user != "git" {
			return true
		}
		s = rest
	}
}

// bareCredentials reports whether a proxy variable holds user:password@host
// without a scheme, as curl(1) and others accept it.
func bareCredentials(name, value string) bool {
	return strings.HasSuffix(strings.ToUpper(name), "_PROXY") && strings.Contains(value, "@")
}
