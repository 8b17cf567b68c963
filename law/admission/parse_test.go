package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"remit/proof/reason"
)

func text(t testing.TB, rec interface{ Encode() ([]byte, error) }) string {
	t.Helper()
	b, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRecordsComeBack(t *testing.T) {
	t.Parallel()
	s := source(t, source(t, source(t, nil, Admitted), Rejected), Admitted)
	if got, err := ParseSource("f", []byte(text(t, s))); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, %v", got, err)
	}
	m := model(t, model(t, nil, Rejected), Admitted)
	if got, err := ParseModel("f", []byte(text(t, m))); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("got %+v, %v", got, err)
	}
	if s.Revision != 3 || *s.PreviousID != s.History[1].ID || *s.History[1].PreviousID != s.History[0].ID || s.History[0].PreviousID != nil {
		t.Errorf("history %+v", s)
	}
}

// A history is as long as it is kept, and taking back is always possible.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	rec := source(t, nil, Admitted)
	for range MaxHistory + 4 { // as NextSource does, which would check each of them
		next := rec.SourceDecision
		history, err := follow(&next, &rec.SourceDecision, rec.History)
		if err != nil {
			t.Fatal(err)
		}
		rec = &Source{Schema: SourceSchema, SourceDecision: next, History: history}
	}
	rec = source(t, rec, Rejected)
	if len(rec.History) != MaxHistory || rec.Revision != MaxHistory+6 || rec.History[0].Revision != 6 {
		t.Errorf("%d kept of %d, from %d", len(rec.History), rec.Revision, rec.History[0].Revision)
	}
	if got, err := ParseSource("f", []byte(text(t, rec))); err != nil || CheckSource(got, build).Status != StatusNotAdmitted {
		t.Errorf("%v", err)
	}
	rec.History = rec.History[1:]
	if err := rec.Check(); reason.CodeOf(err) != reason.InvalidAdmission {
		t.Errorf("a shortened history: %v", err)
	}
}

func TestDamagedText(t *testing.T) {
	t.Parallel()
	good := text(t, source(t, source(t, nil, Rejected), Admitted))
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(good), "", "  "); err != nil {
		t.Fatal(err)
	}
	// replaced is a text with something else in it, which must be there.
	replaced := func(in, old, with string) string {
		if !strings.Contains(in, old) {
			t.Fatalf("%q is not in %s", old, in)
		}
		return strings.Replace(in, old, with, 1)
	}
	for _, test := range []struct {
		name, text string
		line       int
		message    string
	}{
		{"empty", "", 1, "ends before"},
		{"blank", "\n", 1, "ends before"},
		{"null", "null\n", 1, "schema"},
		{"list", "[]\n", 1, ""},
		{"cut off", good[:len(good)/2], 1, ""},
		{"no line end", strings.TrimSuffix(good, "\n"), 1, "does not end"},
		{"two line ends", good + "\n", 1, "canonical"},
		{"two records", good + good, 2, ""},
		{"text after it", good + "admitted\n", 2, ""},
		{"indented", indented.String(), 1, "canonical"},
		{"broken on its fourth line", strings.Join(strings.SplitAfterN(indented.String(), "\n", 4)[:3], "") + "  oops\n", 4, ""},
		{"CRLF", strings.TrimSuffix(good, "\n") + "\r\n", 1, "canonical"},
		{"byte order mark", "\ufeff" + good, 1, ""},
		{"duplicate key", replaced(good, `{"admission`, `{"decision":"admitted","admission`), 1, "duplicate"},
		{"unknown key", replaced(good, `,"source_name"`, `,"signed":true,"source_name"`), 1, ""},
		{"key in other case", replaced(good, `"revision"`, `"Revision"`), 1, ""},
		{"key missing", replaced(good, `"license_note":"",`, ""), 1, "key is missing"},
		{"wrong type", replaced(good, `"revision":1`, `"revision":"1"`), 1, ""},
		{"edited decision", replaced(good, `"decision":"admitted"`, `"decision":"rejected"`), 1, "made from"},
		{"edited history", replaced(good, `"decision":"rejected"`, `"decision":"admitted"`), 1, "made from"},
		{"other schema", replaced(good, SourceSchema, ModelSchema), 1, "schema"},
		{"NUL", replaced(good, "read it", "read\\u0000it"), 1, "invisible"},
		{"not UTF-8", replaced(good, "read it", "read\xffit"), 1, ""},
		{"too large", good + strings.Repeat(" ", MaxBytes), 1, "more than"},
		{"too deep", strings.Repeat("[", 200), 1, "deep"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rec, err := ParseSource("a/codex.json", []byte(test.text))
			if rec != nil || reason.CodeOf(err) != reason.InvalidAdmission {
				t.Fatalf("got %+v, %v", rec, err)
			}
			if want := fmt.Sprintf("a/codex.json:%d: ", test.line); !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), test.message) {
				t.Errorf("%v; want %s… %s", err, want, test.message)
			}
		})
	}
}

// A history that is put together from true parts of others is refused.
func TestForgedHistory(t *testing.T) {
	t.Parallel()
	first := source(t, nil, Rejected)
	for name, forge := range map[string]func(*Source){
		"dropped":          func(s *Source) { s.History = s.History[1:] },
		"emptied":          func(s *Source) { s.History = nil },
		"swapped":          func(s *Source) { s.History[0], s.History[1] = s.History[1], s.History[0] },
		"repeated":         func(s *Source) { s.History[1] = s.History[0] },
		"older on top":     func(s *Source) { s.SourceDecision = s.History[0] },
		"renumbered":       func(s *Source) { s.Revision = 1 },
		"revision zero":    func(s *Source) { s.Revision, s.History = 0, nil },
		"negative":         func(s *Source) { s.Revision, s.History = -1, nil },
		"cut at the chain": func(s *Source) { s.PreviousID = nil },
		"another engine": func(s *Source) {
			other, err := NextSource(nil, SourceDecision{Ruling: ruling(Rejected), Engine: "pi"})
			if err != nil {
				t.Fatal(err)
			}
			s.History[0] = other.SourceDecision
		},
	} {
		rec := source(t, source(t, first, Admitted), Admitted)
		forge(rec)
		if err := rec.Check(); reason.CodeOf(err) != reason.InvalidAdmission {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := rec.Encode(); err == nil {
			t.Errorf("%s: it can be written", name)
		}
	}
}

// What is read as a record is written as the same bytes, and never panics.
func FuzzParse(f *testing.F) {
	for _, d := range Decisions() {
		s, err := NextSource(nil, SourceDecision{Ruling: ruling(d), Engine: build.Name, Version: build.Version, SHA256: build.SHA256})
		if err != nil {
			f.Fatal(err)
		}
		m, err := NextModel(nil, ModelDecision{Ruling: ruling(d), Provider: "p", Model: "m", Class: Local})
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(text(f, s)))
		f.Add([]byte(text(f, m)))
	}
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := ParseSource("f", in)
		judge(t, in, s != nil, err)
		if s != nil && text(t, s) != string(in) {
			t.Errorf("%q is written as %q", in, text(t, s))
		}
		m, err := ParseModel("f", in)
		judge(t, in, m != nil, err)
		if m != nil && text(t, m) != string(in) {
			t.Errorf("%q is written as %q", in, text(t, m))
		}
	})
}

func judge(t *testing.T, in []byte, read bool, err error) {
	t.Helper()
	if read == (err != nil) || err != nil && reason.CodeOf(err) != reason.InvalidAdmission {
		t.Errorf("%q: %v", in, err)
	}
}
