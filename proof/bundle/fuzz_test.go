package bundle

import (
	"maps"
	"testing"
)

// FuzzZip: whatever the bytes are, the auditor ends with a report, and what it
// lets through gates 1 and 2 has the same files for archive/zip.
func FuzzZip(f *testing.F) {
	for _, path := range vectorFiles(f) {
		f.Add(readVector(f, path).zip)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r := auditBytes(t, src, Options{Gates: passing()})
		if r.Gates[0].Status != Pass || r.Gates[1].Status != Pass {
			if r.Status == Pass {
				t.Fatal("the audit passes without its gates")
			}
			return
		}
		if ours, theirs := digests(t, src), readByGo(t, src); !maps.Equal(ours, theirs) {
			t.Errorf("we read %v, archive/zip %v", ours, theirs)
		}
	})
}
