//test:race An audit has several goroutines.

package evidence_test

import (
	"path/filepath"
	"testing"

	"remit/proof/bundle"
)

// TestAuditOfValidVectors: a valid session passes as a directory and as a zip.
func TestAuditOfValidVectors(t *testing.T) {
	t.Parallel()
	for _, dir := range vectorFiles(t, "evidence/valid/*") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			if rep := audit(t, dir); rep.Status != bundle.Pass {
				t.Errorf("directory: %s", findingsOf(rep))
			}
			if rep := audit(t, zipped(t, dir)); rep.Status != bundle.Pass {
				t.Errorf("zip: %s", findingsOf(rep))
			}
		})
	}
}
