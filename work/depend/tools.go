package depend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"remit/proof/atomicfile"
	"remit/proof/canon"
	"remit/proof/reason"
)

// programs is a sandbox that can say which file of the host a command starts.
type programs interface{ Program(name string) string }

// toolFile remembers digests of programs, which are large.
const toolFile = "tools.json"

// tool names a program by the digest of its file. A script is a package with many
// files: of one that lies in such, the package's own manifest counts as well.
func (s *Store) tool(at programs, name string) (Tool, error) {
	file := at.Program(name)
	if file == "" {
		return Tool{}, reason.Errorf(reason.EnvironmentUnavailable, "the program %s is not on the sandbox's search path", name).
			WithHint("install %s below /usr, or lend the sandbox a directory that has it: --toolchain DIR", name)
	}
	sum, err := s.digest(file)
	if err != nil {
		return Tool{}, reason.Errorf(reason.EnvironmentUnavailable, "the program %s cannot be read: %w", name, err)
	}
	if manifest := filepath.Join(filepath.Dir(filepath.Dir(file)), npmPackage); strings.Contains(file, "/"+npmModules+"/") {
		of, err := s.digest(manifest)
		if err != nil {
			return Tool{}, reason.Errorf(reason.EnvironmentUnavailable, "the program %s has no manifest: %w", name, err)
		}
		sum = canon.Digest([]byte(sum + " " + of))
	}
	return Tool{name, sum}, nil
}

// digest is the digest of a file's content, remembered for as long as stat says
// the same of it.
func (s *Store) digest(file string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: file, Err: err}
	}
	id := fmt.Sprintf("%s %d %d %d %d %d", file, st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
	known := map[string]string{}
	memory := filepath.Join(s.dir, toolFile)
	if text, err := readBounded(memory, 1<<20); err == nil {
		_ = json.Unmarshal(text, &known) // what cannot be read is not remembered
	}
	if sum, ok := known[id]; ok && canon.ValidDigest(sum) {
		return sum, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, _, err := canon.DigestReader(f)
	if err != nil {
		return "", err
	}
	if known == nil || len(known) > 200 {
		known = map[string]string{}
	}
	known[id] = sum
	if text, err := json.Marshal(known); err == nil {
		_ = atomicfile.Replace(memory, text, 0o600) // it is only slower without
	}
	return sum, nil
}
