package settings

import "sandboxd/policy"

// importSRT reads the settings of sandbox-runtime (srt): only paths and hosts.
// Its files say nothing about questions.
func importSRT(source policy.Source, data []byte) (*Policy, []Imported, error) {
	i := newImporter(source)
	root, err := i.settingsObject(data)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range root.members {
		var err error
		switch m.key {
		case "network":
			err = i.sandboxNetwork(m.value)
		case "filesystem":
			err = i.sandboxFilesystem(m.value)
			if m.value.get("disabled").isTrue() {
				i.note(m.line, "filesystem.disabled", Refused, "the file system is always confined")
			}
		case "enableWeakerNestedSandbox", "enableWeakerNetworkIsolation", "allowAppleEvents":
			i.note(m.line, m.key, Refused, "the sandbox is not weakened by a file")
		case "ignoreViolations", "mandatoryDenySearchDepth", "javaAgentJarPath", "ripgrep", "seccomp", "allowPty":
			i.note(m.line, m.key, Skipped, "not part of a policy")
		default:
			i.note(m.line, m.key, Skipped, "unknown to this importer; it permits nothing here")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	i.srtWorkspace()
	return i.result()
}

// srtWorkspace: nothing is writable there that is not named, here the workspace
// is. So it is protected unless it was named.
func (i *importer) srtWorkspace() {
	for _, g := range i.p.Paths {
		if g.Access == policy.GrantWrite && lexical(g.Path) == lexical(".") {
			return
		}
	}
	i.p.Paths = append(i.p.Paths, policy.PathGrant{Path: ".", Access: policy.GrantProtect, Source: i.p.Source})
	i.note(0, "no allowWrite for the workspace", Kept, "", "filesystem protect .")
}
