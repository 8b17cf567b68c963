package bundle

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// gigabyte is the artifact of BenchmarkAudit1GB: not compressible, not sparse.
const gigabyte = 1 << 30

// largeZip makes a sealed bundle with one artifact of a gigabyte.
func largeZip(b *testing.B) (dir, zip string) {
	b.Helper()
	dir = writeFiles(b, session)
	f, err := os.Create(filepath.Join(dir, "artifact.bin"))
	if err != nil {
		b.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for i := range gigabyte / len(block) {
		for k := 0; k < len(block); k += 64 {
			block[k], block[k+1], block[k+2] = byte(i), byte(k>>6), byte(k>>14)
		}
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	if err := Seal(dir); err != nil {
		b.Fatal(err)
	}
	zip = filepath.Join(b.TempDir(), "large.zip")
	out, err := os.Create(zip)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(out)
	if err := WriteZip(w, dir); err != nil {
		b.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := out.Close(); err != nil {
		b.Fatal(err)
	}
	return dir, zip
}

// BenchmarkAudit1GB compares an audit with a plain SHA-256 over the same bytes,
// and fails when memory grows with the artifact.
func BenchmarkAudit1GB(b *testing.B) {
	if testing.Short() {
		b.Skip("writes two gigabytes")
	}
	dir, zip := largeZip(b)
	b.Run("sha256", func(b *testing.B) {
		b.SetBytes(gigabyte)
		block := make([]byte, readBlock)
		for b.Loop() {
			f, err := os.Open(zip)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.CopyBuffer(struct{ io.Writer }{sha256.New()}, struct{ io.Reader }{f}, block); err != nil {
				b.Fatal(err)
			}
			_ = f.Close()
		}
	})
	for name, path := range map[string]string{"zip": zip, "directory": dir} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(gigabyte)
			for b.Loop() {
				if r := auditPath(b, path, Options{Gates: passing()}); r.Status != Pass {
					b.Fatal(details(r))
				}
			}
			if peak := peakRSS(b); peak > 0 {
				b.ReportMetric(float64(peak)/(1<<20), "peak-MB")
				if peak > 100<<20 {
					b.Errorf("%d bytes of memory at the peak, the limit is 100 MB", peak)
				}
			}
		})
	}
}

// peakRSS is the largest resident set of this process so far, 0 where the
// system does not tell.
func peakRSS(b *testing.B) int64 {
	b.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := strings.CutPrefix(string(line), "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	return 0
}
