//test:plain-package It only computes: there is one goroutine.

package job_test

import (
	"testing"

	"remit/law/job"
)

// TestBundleEntries: a seal has one name, and only such a name is a seal.
func TestBundleEntries(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 9, 10, 4096} {
		if got, ok := job.BundleEntries(job.ResealedBundle(n)); !ok || got != n || !job.ArtifactName(job.ResealedBundle(n)) {
			t.Errorf("%d: %d, %t", n, got, ok)
		}
	}
	if got, ok := job.BundleEntries(job.BundleZip); !ok || got != 0 {
		t.Errorf("the first seal: %d, %t", got, ok)
	}
	for _, name := range []string{"", "bundle", "bundle..zip", "bundle.0.zip", "bundle.-1.zip", "bundle.+1.zip", "bundle.01.zip", "bundle.1.zip.zip", "x/bundle.1.zip",
		"bundle.99999999999999999999.zip", "source.pack"} {
		if n, ok := job.BundleEntries(name); ok {
			t.Errorf("%q is seal %d", name, n)
		}
	}
}
