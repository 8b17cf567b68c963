package bundle

import (
	"bytes"
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"remit/proof/reason"
)

var update = flag.Bool("update", false, "rebuild the zips of vectors/zip from their recipes")

const vectorDir = "../../vectors/zip"

// vector is one file of vectors/zip.
type vector struct {
	name    string
	profile string // what is detected; "unknown" when the zip cannot be listed
	status  Status
	want    []string // sorted "gate code" of all findings
	recipe  string
	zip     []byte
}

// readVector parses a txtar file: comment lines "key: value", the recipe and
// the zip.
func readVector(t testing.TB, path string) vector {
	t.Helper()
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v := vector{name: strings.TrimSuffix(filepath.Base(path), ".txtar")}
	var gate string
	for line := range strings.Lines(string(ar.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "profile":
			v.profile = value
		case "status":
			v.status = Status(value)
		case "gate":
			gate = value
		case "code":
			v.want = append(v.want, gate+" "+value)
		case "also":
			v.want = append(v.want, value)
		default:
			if line != "\n" && !strings.HasPrefix(line, "#") {
				t.Fatalf("%s: unknown line %q", path, line)
			}
		}
	}
	slices.Sort(v.want)
	for _, f := range ar.Files {
		switch f.Name {
		case "recipe":
			v.recipe = string(f.Data)
		case "zip.base64":
			v.zip, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(string(f.Data), "\n", ""))
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
	return v
}

// rewrite puts a newly built zip into the vector.
func rewrite(t testing.TB, path string, zip []byte) {
	t.Helper()
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(zip)), 76) {
		text.WriteString(string(line) + "\n")
	}
	ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == "zip.base64" })
	ar.Files = append(ar.Files, txtar.File{Name: "zip.base64", Data: []byte(text.String())})
	if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
		t.Fatal(err)
	}
}

func vectorFiles(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(vectorDir + "/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors in %s: %v", vectorDir, err)
	}
	return paths
}

// passing supplies gates 5–8 that find nothing, so that only the gates of this
// package decide.
func passing() []Gate {
	var out []Gate
	for _, name := range contentGates {
		out = append(out, Gate{Name: name, Check: func(context.Context, fs.FS) []reason.Finding { return nil }})
	}
	return out
}

// auditBytes audits a zip in memory and finds that every gate is reported.
func auditBytes(t testing.TB, zip []byte, opt Options) *Report {
	t.Helper()
	r, err := newAudit("test.zip", opt).zip(t.Context(), bytes.NewReader(zip), int64(len(zip)))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Gates) != 10 {
		t.Fatalf("%d gates are reported, want 10", len(r.Gates))
	}
	return r
}

// found lists "gate code" of all findings, sorted and without repetition.
func found(r *Report) []string {
	var out []string
	for _, g := range r.Gates {
		for _, f := range g.Findings {
			out = append(out, f.Gate+" "+string(f.Code))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestZipVectors keeps the promise of every vector: the stated status, and
// exactly the stated findings.
func TestZipVectors(t *testing.T) {
	for _, path := range vectorFiles(t) {
		v := readVector(t, path)
		t.Run(v.name, func(t *testing.T) {
			built, err := buildZip(v.recipe)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				rewrite(t, path, built)
				v.zip = built
			}
			if string(v.zip) != string(built) {
				t.Error("the recipe does not give the zip in the file; run go test -run TestZipVectors -update")
			}
			r := auditBytes(t, v.zip, Options{Gates: passing()})
			profile := string(r.Profile)
			if profile == "" {
				profile = "unknown"
			}
			if r.Status != v.status || profile != v.profile || !slices.Equal(found(r), v.want) {
				t.Errorf("status %s, profile %s, findings\n\t%s\nwant %s, %s\n\t%s\n%s", r.Status, profile, strings.Join(found(r), "\n\t"),
					v.status, v.profile, strings.Join(v.want, "\n\t"), details(r))
			}
		})
	}
}

func details(r *Report) string {
	var b strings.Builder
	for _, g := range r.Gates {
		fmt.Fprintln(&b, g.Name, g.Status, g.Reason)
		for _, f := range g.Findings {
			fmt.Fprintln(&b, "   ", f)
		}
	}
	return b.String()
}
