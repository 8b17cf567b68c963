package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"testing"
)

// read lists the hashed files of a zip.
func read(t testing.TB, src []byte) []*member {
	t.Helper()
	c, _ := scanZip(bytes.NewReader(src), int64(len(src)), defaultLimits)
	if err := hashAll(context.Background(), c.hashable); err != nil {
		t.Fatal(err)
	}
	return c.files
}

// digests maps the files of a zip to their SHA-256, as this package reads it.
func digests(t testing.TB, src []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range read(t, src) {
		out[f.name] = fmt.Sprintf("%x", f.sum)
	}
	return out
}

// readByGo is what archive/zip makes of a zip.
func readByGo(t testing.TB, src []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(src), int64(len(src)))
	if err != nil {
		t.Fatalf("archive/zip: %v", err)
	}
	out := map[string]string{}
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		if _, twice := out[f.Name]; twice || !f.Mode().IsRegular() {
			t.Fatalf("archive/zip: %q is not one regular file", f.Name)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatalf("archive/zip: %v", err)
		}
		h := sha256.New()
		if _, err := io.Copy(h, r); err != nil {
			t.Fatalf("archive/zip: %q: %v", f.Name, err)
		}
		out[f.Name] = fmt.Sprintf("%x", h.Sum(nil))
	}
	return out
}

// pythonReader prints what zipfile reads from each zip after its own test:
// zip → file → sha256.
const pythonReader = `
import base64, hashlib, io, json, sys, zipfile
def read(src):
    z = zipfile.ZipFile(io.BytesIO(base64.b64decode(src)))
    assert z.testzip() is None
    assert len(z.namelist()) == len(set(z.namelist()))
    return {i.filename: hashlib.sha256(z.read(i)).hexdigest() for i in z.infolist() if not i.is_dir()}
print(json.dumps({name: read(src) for name, src in json.load(sys.stdin).items()}))
`

func readByPython(t testing.TB, zips map[string][]byte) map[string]map[string]string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Log("WITHOUT python3: compared with archive/zip alone")
		return nil
	}
	input, err := json.Marshal(zips)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-c", pythonReader)
	cmd.Stdin = bytes.NewReader(input)
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3 zipfile: %v", err)
	}
	var out map[string]map[string]string
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAcceptedZipsReadAlike keeps the promise that an audited zip has one
// meaning: whatever passes gates 1 and 2 is the same to other readers.
func TestAcceptedZipsReadAlike(t *testing.T) {
	t.Parallel()
	accepted := map[string][]byte{"written": sealedZip(t, sealed(t, session))}
	for _, path := range vectorFiles(t) {
		v := readVector(t, path)
		if r := auditBytes(t, v.zip, Options{Gates: passing()}); r.Gates[0].Status == Pass && r.Gates[1].Status == Pass {
			accepted[v.name] = v.zip
		}
	}
	if len(accepted) < 10 {
		t.Fatalf("only %d zips are accepted", len(accepted))
	}
	python := readByPython(t, accepted)
	for name, src := range accepted {
		ours := digests(t, src)
		if theirs := readByGo(t, src); !maps.Equal(ours, theirs) {
			t.Errorf("%s: we read %v, archive/zip %v", name, ours, theirs)
		}
		if theirs := python[name]; python != nil && !maps.Equal(ours, theirs) {
			t.Errorf("%s: we read %v, python3 %v", name, ours, theirs)
		}
	}
}
