package job

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/reason"
)

// Limits of a request. The first group is the wire contract; the second only
// keeps hostile input small.
const (
	MaxMemoryMB    = 8192
	MaxCPUs        = Cores(8)
	MaxTimeoutSecs = 300
	MaxCommands    = 20
	MaxCmdBytes    = 4096
	MaxEnv         = 32

	MaxRequestBytes = 256 << 10
	MaxDiskMB       = 1 << 20
	minCPUs         = Cores(0.01) // below it, the printed form would need an exponent
	maxPathBytes    = 1024
	maxWordBytes    = 256
	maxEnvName      = 256
	maxEnvValue     = 32 << 10
)

// Validate checks every limit of the request. The error names the first field
// that breaks one.
func (r SandboxRunRequest) Validate() error {
	for _, err := range []*reason.Error{
		r.Sandbox.validate(), r.Repo.validate(), validateCommands(r.Commands), validateEnv(r.Env), r.Verification.validate(), r.Environment.validate(),
	} {
		if err != nil {
			return err
		}
	}
	if len(r.Canonical()) > MaxRequestBytes {
		return invalid("", "is larger than %d bytes", MaxRequestBytes)
	}
	return nil
}

func (s Sandbox) validate() *reason.Error {
	res := s.Resources
	switch {
	case !word(s.Provider):
		return invalid("sandbox.provider", "must be 1 to %d printable ASCII characters", maxWordBytes)
	case !word(s.ImageDigest):
		return invalid("sandbox.image_digest", "is required: 1 to %d printable ASCII characters", maxWordBytes)
	case s.NetworkPolicy == "localhost" || s.NetworkPolicy == "full":
		return invalid("sandbox.network_policy", "is %q; only %q is offered", s.NetworkPolicy, NetworkNone)
	case s.NetworkPolicy != NetworkNone:
		return invalid("sandbox.network_policy", "is not one of none, localhost, full")
	case res.MemoryMB < 1 || res.MemoryMB > MaxMemoryMB:
		return invalid("sandbox.resources.memory_mb", "is %d, must be 1 to %d", res.MemoryMB, MaxMemoryMB)
	case !(res.CPUs >= minCPUs && res.CPUs <= MaxCPUs): // the negation also catches NaN
		return invalid("sandbox.resources.cpus", "is %v, must be %v to %v", float32(res.CPUs), float32(minCPUs), float32(MaxCPUs))
	case res.TimeoutSecs < 1 || res.TimeoutSecs > MaxTimeoutSecs:
		return invalid("sandbox.resources.timeout_secs", "is %d, must be 1 to %d", res.TimeoutSecs, MaxTimeoutSecs)
	case res.DiskMB != nil && (*res.DiskMB < 1 || *res.DiskMB > MaxDiskMB):
		return invalid("sandbox.resources.disk_mb", "is %d, must be 1 to %d", *res.DiskMB, MaxDiskMB)
	}
	return nil
}

func (r Repo) validate() *reason.Error {
	switch {
	case len(r.Source) > MaxCmdBytes || !clean(r.Source):
		return invalid("repo.source", "must be at most %d bytes of text without control characters", MaxCmdBytes)
	// A program that is handed the value must never read it as an option.
	case strings.HasPrefix(r.Source, "-"):
		return invalid("repo.source", "must not begin with a dash")
	case r.GitRef != nil && (!word(*r.GitRef) || strings.HasPrefix(*r.GitRef, "-")):
		return invalid("repo.git_ref", "must be 1 to %d printable ASCII characters and not begin with a dash", maxWordBytes)
	case len(r.MountPath) > maxPathBytes || !clean(r.MountPath) || !path.IsAbs(r.MountPath) || path.Clean(r.MountPath) != r.MountPath || r.MountPath == "/":
		return invalid("repo.mount_path", "must be a clean absolute path other than /")
	}
	return nil
}

func validateCommands(commands []Command) *reason.Error {
	if len(commands) < 1 || len(commands) > MaxCommands {
		return invalid("commands", "has %d entries, must have 1 to %d", len(commands), MaxCommands)
	}
	for i, c := range commands {
		field := fmt.Sprintf("commands[%d]", i)
		switch {
		case strings.TrimSpace(c.Cmd) == "" || len(c.Cmd) > MaxCmdBytes || strings.ContainsRune(c.Cmd, 0):
			return invalid(field+".cmd", "must be 1 to %d bytes without NUL", MaxCmdBytes)
		case c.Workdir != nil && !inside(*c.Workdir):
			return invalid(field+".workdir", "must be a relative path that stays inside the repository")
		}
	}
	return nil
}

func validateEnv(env map[string]string) *reason.Error {
	if len(env) > MaxEnv {
		return invalid("env", "has %d entries, may have %d", len(env), MaxEnv)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !envName(name) {
			return invalid("env", "the name %.64q is not a letter or _ followed by letters, digits and _", name)
		}
		if len(env[name]) > maxEnvValue || strings.ContainsRune(env[name], 0) {
			return invalid("env."+name, "must be at most %d bytes without NUL", maxEnvValue)
		}
	}
	return nil
}

func (v Verification) validate() *reason.Error {
	switch {
	case v.Mode != Objective:
		return invalid("verification.mode", "is %.32q; only %q is offered", v.Mode, Objective)
	case v.Redundancy != defaultRedundancy:
		return invalid("verification.redundancy", "is %d; only 1 is offered", v.Redundancy)
	case v.Adjudication != NoAdjudicate:
		return invalid("verification.adjudication", "is %.32q; only %q is offered", v.Adjudication, NoAdjudicate)
	case v.JudgeModel != nil:
		return invalid("verification.judge_model", "is given, but an objective job has no judge")
	}
	return nil
}

func invalid(field, format string, args ...any) *reason.Error {
	e := reason.Errorf(reason.JobInvalid, format, args...)
	e.Field = field
	return e
}

// word reports whether s is short, visible ASCII without spaces.
func word(s string) bool {
	return s != "" && len(s) <= maxWordBytes && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// clean reports whether s has no control characters.
func clean(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// inside reports whether a path stays below the directory it is relative to.
func inside(p string) bool {
	if p == "" || len(p) > maxPathBytes || !clean(p) || path.IsAbs(p) || strings.Contains(p, `\`) {
		return false
	}
	c := path.Clean(p)
	return c != ".." && !strings.HasPrefix(c, "../")
}

// ArtifactName reports whether an artifact may have a name: a clean relative path
// of printable runes. Control and format characters, such as those that turn the
// direction of what follows, would show people another name, or none.
func ArtifactName(p string) bool {
	return len(p) <= maxArtifactPathBytes && p != "." && inside(p) && path.Clean(p) == p &&
		utf8.ValidString(p) && !strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) })
}

func envName(s string) bool {
	if s == "" || len(s) > maxEnvName || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	return strings.Trim(s, "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}
