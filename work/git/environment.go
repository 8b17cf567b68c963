package git

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"remit/proof/reason"
)

const (
	// nowhere does not exist, so nothing can be read from it.
	nowhere        = "/nonexistent"
	versionTimeout = 10 * time.Second
)

// environment is the whole environment of a call. It starts from empty: anything that is not in this list
// (GIT_TRACE, GIT_TEMPLATE_DIR, GIT_EXEC_PATH, GIT_CONFIG_COUNT, LD_PRELOAD, …) does not exist for git.
func environment(d Dir) []string {
	env := []string{
		"PATH=/usr/bin:/bin",
		"HOME=" + nowhere,
		"XDG_CONFIG_HOME=" + nowhere,
		"LC_ALL=C",
		"TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=/bin/false",
		"SSH_ASKPASS=/bin/false",
		"GIT_EDITOR=:",
		"GIT_SEQUENCE_EDITOR=:",
		"GIT_PAGER=cat",
		"GIT_SSH_COMMAND=/bin/false",
		"GIT_PROTOCOL_FROM_USER=0",
		"GIT_ALLOW_PROTOCOL=none",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_CEILING_DIRECTORIES=/",
		"GIT_AUTHOR_NAME=" + authorName, "GIT_AUTHOR_EMAIL=" + authorMail, "GIT_AUTHOR_DATE=@0 +0000",
		"GIT_COMMITTER_NAME=" + authorName, "GIT_COMMITTER_EMAIL=" + authorMail, "GIT_COMMITTER_DATE=@0 +0000",
		"GIT_DIR=" + d.Path,
		"GIT_INDEX_FILE=" + d.index(),
	}
	if d.Objects != "" {
		env = append(env, "GIT_OBJECT_DIRECTORY="+d.Objects)
	}
	if d.WorkTree != "" {
		env = append(env, "GIT_WORK_TREE="+d.WorkTree)
	}
	if len(d.Alternates) > 0 {
		env = append(env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoteAlternates(d.Alternates))
	}
	return env
}

func (d Dir) index() string {
	if d.Index != "" {
		return d.Index
	}
	return filepath.Join(d.Path, "index")
}

// quoteAlternates writes a colon-separated list that holds any path: every element is quoted in the C style
// that git understands, so colons, quotes and newlines survive. (The file objects/info/alternates could not
// hold a newline.)
func quoteAlternates(dirs []string) string {
	quoted := make([]string, len(dirs))
	for i, dir := range dirs {
		quoted[i] = quoteC(dir)
	}
	return strings.Join(quoted, ":")
}

// quoteC quotes a string as git's C-style quoting does. Bytes beyond ASCII stay as they are.
func quoteC(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// settings beat the configuration of any repository, and of none: most are the defaults said aloud, so that a
// new git with a new default changes nothing. diff.external is missing on purpose: an empty value makes
// diff fail, so the flag --no-ext-diff does it.
var settings = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.attributesFile=/dev/null",
	"core.excludesFile=/dev/null",
	"core.sshCommand=/bin/false",
	"core.askPass=/bin/false",
	"core.editor=:",
	"core.pager=cat",
	"core.gitProxy=",
	"core.alternateRefsCommand=true",
	"core.autocrlf=false",
	"core.symlinks=true",
	"core.ignoreCase=false",
	"core.precomposeUnicode=false",
	"core.quotePath=true",
	"core.protectHFS=true",
	"core.protectNTFS=true",
	"core.commitGraph=false",
	"core.multiPackIndex=false", // it names packs by paths, "../" included
	"core.splitIndex=false",
	"core.untrackedCache=false",
	"core.logAllRefUpdates=false",
	"index.sparse=false",
	"credential.helper=",
	"protocol.allow=never",
	"protocol.ext.allow=never",
	"protocol.file.allow=never",
	"gpg.program=/bin/false",
	"gpg.ssh.program=/bin/false",
	"gpg.x509.program=/bin/false",
	"commit.gpgSign=false",
	"tag.gpgSign=false",
	"log.showSignature=false",
	"submodule.recurse=false",
	"fetch.recurseSubmodules=false",
	"diff.ignoreSubmodules=all",
	"diff.noprefix=false",
	"diff.mnemonicPrefix=false",
	"diff.orderFile=/dev/null",
	"diff.algorithm=myers",
	"diff.indentHeuristic=true",
	"diff.suppressBlankEmpty=false",
	"diff.context=3",
	"diff.interHunkContext=0",
	"status.submoduleSummary=false",
	"gc.auto=0",
	"maintenance.auto=false",
	"fastimport.unpackLimit=0",
	"pack.threads=1",
	"pack.compression=1",
	"transfer.fsckObjects=true",
	"fetch.fsckObjects=true",
	"safe.bareRepository=explicit",
}

const literalPathspecs = "--literal-pathspecs"

// globals come before the subcommand of every call.
var globals = func() []string {
	args := []string{"--no-pager", "--no-optional-locks", "--no-replace-objects", literalPathspecs}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return args
}()

// Attributes is the content of info/attributes in a directory of ours. It beats every .gitattributes: no filter,
// no driver and no conversion of bytes is ever in effect. diff is unspecified rather than unset, because
// unset would mean "binary".
const Attributes = "* -filter !diff -merge -text -ident -eol -working-tree-encoding -export-subst -export-ignore\n"

// trustedDirs are the only places where git is looked for. The caller's PATH is not: a directory that the
// user's shell happens to search may be writable by others, or be a checkout.
var trustedDirs = []string{
	"/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin",
}

// MinVersion is the oldest git that understands everything this package says.
var MinVersion = [2]int{2, 31}

// Binary is the git that was found.
type Binary struct {
	Path    string `json:"path"`
	Version string `json:"version"` // as it reports itself, without "git version "
}

var find = sync.OnceValues(func() (Binary, error) { return findIn(trustedDirs) })

// Find returns the git binary that this process uses. It is looked up once.
func Find() (Binary, error) { return find() }

func findIn(dirs []string) (Binary, error) {
	hint := "install git " + fmt.Sprintf("%d.%d", MinVersion[0], MinVersion[1]) + " or newer in one of " + strings.Join(dirs, ", ")
	for _, dir := range dirs {
		path := filepath.Join(dir, "git")
		info, err := os.Stat(path)
		if err != nil || !trustworthy(info) {
			continue
		}
		version, err := versionOf(path)
		if err != nil {
			return Binary{}, reason.Errorf(reason.ProviderUnavailable, "asking %q for its version: %w", path, err).WithHint("%s", hint)
		}
		if !atLeast(version, MinVersion) {
			return Binary{}, reason.Errorf(reason.ProviderUnavailable, "git %q at %q is too old", version, path).WithHint("%s", hint)
		}
		return Binary{Path: path, Version: version}, nil
	}
	return Binary{}, reason.Errorf(reason.ProviderUnavailable, "no git binary").WithHint("%s", hint)
}

// trustworthy refuses a program that another user could have replaced.
func trustworthy(info os.FileInfo) bool {
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

func versionOf(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = environment(Dir{Path: nowhere})
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	version, ok := bytes.CutPrefix(bytes.TrimSpace(out), []byte("git version "))
	if !ok || len(version) > 100 {
		return "", fmt.Errorf("unexpected answer %.40q", out)
	}
	return string(version), nil
}

func atLeast(version string, least [2]int) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > least[0] || major == least[0] && minor >= least[1]
}
