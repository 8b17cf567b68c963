package job_test

import (
	"strings"
	"testing"

	"remit/law/job"
)

// A name of an artifact is what people see of it, and no way out of its job.
func TestArtifactName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"stdout.0": true, "logs/out": true, "ärger.txt": true, "a b": true, strings.Repeat("x", 1024): true,
		"": false, ".": false, "..": false, "../x": false, "/x": false, "a/../b": false, "a//b": false, "a/": false, `a\b`: false,
		"a\nb": false, "a\x00": false, "\xff": false, "invoice\u202egpj.exe": false, "zero\u200bwidth": false, "line\u2028two": false,
		strings.Repeat("x", 1025): false,
	} {
		if job.ArtifactName(name) != ok {
			t.Errorf("%q: %v", name, !ok)
		}
	}
}
