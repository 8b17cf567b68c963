package verify

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"remit/proof/canon"
)

// The verifier is identified by its own source: a verdict names the rules that
// made it, and two builds with the same digest judge alike. A test keeps the
// list complete.
//
//go:embed classify.go config.go control.go digest.go judge.go judge_control.go judge_run.go log.go overlay.go paths.go phase.go plant.go
//go:embed record.go result.go rewrite.go run.go stream.go transitions.go verify.go
//go:embed results/augment.go results/detect.go results/gotest.go results/gotext.go results/junit.go results/lines.go
//go:embed results/pytest.go results/results.go results/tap.go results/unittest.go results/words.go
var source embed.FS

// Digest is "sha256:…" over name, version and source of the verifier.
func Digest() string { return digest() }

var digest = sync.OnceValue(func() string {
	var names []string
	_ = fs.WalkDir(source, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, p)
		}
		return err
	})
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(Name + " " + Version + "\n")
	for _, name := range names {
		text, err := source.ReadFile(name)
		if err != nil {
			panic("verify: an embedded file cannot be read: " + err.Error())
		}
		b.WriteString(canon.Digest(text) + "  " + name + "\n")
	}
	return canon.Digest([]byte(b.String()))
})
