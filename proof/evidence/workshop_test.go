//go:build !race

package evidence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
)

// workshop is where the steps of a vector are carried out.
type workshop struct {
	testing.TB
	files map[string][]byte
	file  string // that the next steps change
	line  int    // to which replace is held, 0 for the whole file
}

func (w *workshop) step(s vectorStep) {
	w.Helper()
	text := w.files[w.file]
	switch s.op {
	case "file":
		if _, ok := w.files[s.arg]; !ok {
			w.Fatalf("there is no file %s", s.arg)
		}
		w.file, w.line = s.arg, 0
	case "line":
		w.line = number(w, s.arg)
	case "replace":
		w.replace(s.arg)
	case "flip":
		offset, mask, _ := strings.Cut(s.arg, " ")
		at := number(w, offset)
		if at < 0 {
			at += len(text)
		}
		text = bytes.Clone(text)
		text[at] ^= byte(number(w, mask))
		w.files[w.file] = text
	case "append":
		var more string
		if err := json.Unmarshal([]byte(s.arg), &more); err != nil {
			w.Fatal(err)
		}
		w.files[w.file] = append(bytes.Clone(text), more...)
	case "truncate":
		w.files[w.file] = text[:len(text)-number(w, s.arg)]
	case "delete-line", "repeat-line", "swap-lines":
		w.lines(s)
	case "delete-file":
		delete(w.files, s.arg)
	case "add-file":
		w.file, w.line = s.arg, 0
		w.files[s.arg] = nil
	case "resign":
		w.resign(s.arg)
	default:
		w.Fatalf("unknown step %q", s.op)
	}
}

func (w *workshop) replace(arg string) {
	w.Helper()
	before, after, ok := strings.Cut(arg, " → ")
	if !ok {
		w.Fatalf("replace %q has no arrow", arg)
	}
	lines := bytes.SplitAfter(w.files[w.file], []byte("\n"))
	scope := w.files[w.file]
	at := w.line
	if at < 0 {
		at += len(lines) // the text ends in LF, so the last part is empty
	}
	if at > 0 {
		scope = lines[at-1]
	}
	if n := bytes.Count(scope, []byte(before)); n != 1 {
		w.Fatalf("%s: %q occurs %d times, want once", w.file, before, n)
	}
	scope = bytes.Replace(scope, []byte(before), []byte(after), 1)
	if at > 0 {
		lines[at-1] = scope
		scope = bytes.Join(lines, nil)
	}
	w.files[w.file] = scope
}

func (w *workshop) lines(s vectorStep) {
	w.Helper()
	lines := bytes.SplitAfter(w.files[w.file], []byte("\n"))
	lines = lines[:len(lines)-1]
	first, second, _ := strings.Cut(s.arg, " ")
	at := number(w, first)
	if at < 0 {
		at += len(lines) + 1
	}
	at--
	switch s.op {
	case "delete-line":
		lines = slices.Delete(lines, at, at+1)
	case "repeat-line":
		lines = slices.Insert(lines, at, lines[at])
	case "swap-lines":
		other := number(w, second) - 1
		lines[at], lines[other] = lines[other], lines[at]
	}
	w.files[w.file] = bytes.Join(lines, nil)
}

// resign makes one kind of digest right again, so that only a deeper look can
// see what was changed.
func (w *workshop) resign(what string) {
	w.Helper()
	switch what {
	case "seq", "chain":
		w.resignJournal(what)
	case "receipt":
		receipt := w.object(w.files[evidence.ReceiptFile])
		log, err := journal.Read(bytes.NewReader(w.files[evidence.JournalFile]))
		w.must(err)
		head, err := journal.HeadOf(log.Entries)
		w.must(err)
		receipt["journal"] = head
		delete(receipt, "canonical_json_sha256")
		signature := receipt["signature"]
		delete(receipt, "signature")
		receipt["canonical_json_sha256"] = w.digest(receipt)
		receipt["signature"] = signature
		w.files[evidence.ReceiptFile] = w.document(receipt)
	case "report":
		report := w.object(w.files[evidence.ReportFile])
		digests := report["artifact_digests"].(map[string]any)
		for name := range digests {
			if text, ok := w.files[name]; ok {
				digests[name] = canon.Digest(text)
			}
		}
		digests[evidence.ReportFile] = ""
		digests[evidence.ReportFile] = w.digest(report)
		w.files[evidence.ReportFile] = w.document(report)
	case "manifest":
		delete(w.files, evidence.ManifestFile)
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(w.files)) {
			fmt.Fprintf(&text, "%s  %s\n", strings.TrimPrefix(canon.Digest(w.files[name]), "sha256:"), name)
		}
		w.files[evidence.ManifestFile] = []byte(text.String())
	default:
		w.Fatalf("unknown signature %q", what)
	}
}

func (w *workshop) resignJournal(what string) {
	w.Helper()
	name := w.file
	if _, session := w.files[evidence.JournalFile]; session {
		name = evidence.JournalFile
	}
	var out []byte
	var prev any
	for i, line := range bytes.Split(bytes.TrimSuffix(w.files[name], []byte("\n")), []byte("\n")) {
		e := w.object(line)
		if what == "seq" {
			e["seq"] = i
		} else {
			delete(e, "entry_hash")
			e["prev_hash"] = prev
			prev = w.digest(e)
			e["entry_hash"] = prev
		}
		out = append(out, w.document(e)...)
	}
	w.files[name] = out
}

func (w *workshop) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *workshop) object(text []byte) map[string]any {
	w.Helper()
	m := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	w.must(dec.Decode(&m))
	return m
}

func (w *workshop) digest(v any) string {
	w.Helper()
	d, err := canon.DigestOf(v)
	w.must(err)
	return d
}

func (w *workshop) document(v any) []byte {
	w.Helper()
	text, err := canon.Marshal(v)
	w.must(err)
	return append(text, '\n')
}
