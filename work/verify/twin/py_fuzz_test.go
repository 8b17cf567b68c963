package twin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"unicode/utf8"
)

// FuzzReadPython: whatever a process writes, reading it and binding it to a text
// ends, and what is bound can be edited.
func FuzzReadPython(f *testing.F) {
	const src = "def test_a(): assert x == 3\nclass A:\n    def test_b(self):\n        self.assertEqual(f(), 'é')\n\n"
	f.Add([]byte(`{"path":"a.py","sha256":"","error":"","helpers":96,"tests":[{"name":"test_a","at":0,"why":"","end":true,"sites":[`+
		`{"kind":"flip","form":"cond","start":21,"end":27,"negative":false},{"kind":"expect","form":"value","start":26,"end":27},`+
		`{"kind":"fail","form":"after","place":"end","start":27,"end":27,"self":""}]},`+
		`{"name":"A.test_b","at":41,"why":"","end":true,"sites":[{"kind":"flip","form":"call","start":67,"end":83},`+
		`{"kind":"fail","form":"before","place":"cleanup","start":67,"end":67,"self":"self"},`+
		`{"kind":"fail","form":"newline","place":"end","start":94,"end":94,"self":"","indent":[59,67]}]}]}`), []byte(src))
	f.Add([]byte(`{"path":"a.py","error":"not a regular file"}`), []byte(""))
	f.Add([]byte(`{"path":"a.py","helpers":0,"tests":[{"name":"doctest:__doc__","at":0,"why":"a doctest"}]}`), []byte("\r\n"))
	f.Fuzz(func(t *testing.T, line, src []byte) {
		found, err := ReadPython(bytes.NewReader(line))
		if err != nil {
			return
		}
		for _, p := range found {
			sum := sha256.Sum256(src)
			p.digest = hex.EncodeToString(sum[:])
			file, err := p.Bind(src)
			if err != nil {
				continue
			}
			o := Orders{Trace: "/tmp/x", Key: "k", Sabotage: map[string]Order{}}
			for _, test := range file.Tests() {
				if (len(test.Sites) == 0) == (test.Why == "") {
					t.Fatalf("test %q has neither sites nor a reason", test.Name)
				}
				for _, s := range test.Sites {
					o.Sabotage[test.Name] = Order{Site: s.ID}
				}
			}
			text, err := file.Edit(o)
			if err != nil || !utf8.Valid(text) || len(text) < len(src) {
				t.Fatalf("edit: %v: %q", err, text)
			}
		}
	})
}
