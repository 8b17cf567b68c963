package verify

import "testing"

// TestTitles: an identity is that of one test, or of none: by its file and title,
// by its title alone, and with parts of the title that are computed.
func TestTitles(t *testing.T) {
	t.Parallel()
	s := &suite{}
	for p, src := range map[string]string{
		"test/a.test.js":        "describe('g', () => { it('one # x', f); it(`row ${n} of`, f); it(name, f) })\ndescribe('h', () => { it(`row ${n} of`, f) })\ntest('both', f)\ntest('outer', f)\ntest('same', f)\ntest('same', f)\ndescribe('i', () => { it(`${a} == ${b} ${c}`, f) })\n",
		"pkg/a/test/c.test.ts":  "test('built', f)\n",
		"pkg/b/test/c.test.mts": "test('built', f)\n",
		"pkg/b/test/d.test.tsx": "test('built', f)\n",
		"pkg/a/src/d.test.ts":   "test('built', f)\n",
		"b.test.ts":             "test('both', f)\ntest(`anything ${n}`, f)\ntest(name, f)\n",
	} {
		f := &suiteFile{path: p, lang: langJavaScript, src: []byte(src)}
		if err := f.parse(); err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, f)
	}
	s.index()
	for id, want := range map[string]string{
		"test/a.test.js > g > one # x":      "test/a.test.js: g > one # x",
		"g > one \\# x":                     "test/a.test.js: g > one # x",
		"test/a.test.js > g > row 3 of":     "", // which of the two computed ones it is cannot be said
		"test/a.test.js > h > row 3 of":     "test/a.test.js: h > row * of",
		"h > row 3 of":                      "test/a.test.js: h > row * of",
		"test/a.test.js > g > whatever":     "test/a.test.js: g > *",
		"both":                              "", // of two files
		"b.test.ts > both":                  "b.test.ts: both",
		"test/a.test.js > both":             "test/a.test.js: both",
		"test/a.test.js > outer > inner":    "test/a.test.js: outer",
		"test/a.test.js > i > /a == /a/ ":   "test/a.test.js: i > * == * *",
		"test/a.test.js > i > /a == /a/":    "test/a.test.js: i > * == * *",
		"test/a.test.js > i > /a == /a/ {}": "test/a.test.js: i > * == * *",
		"test/a.test.js > same":             "test/a.test.js: same", // the first of two
		"test/a.test.js > same (2)":         "test/a.test.js: same (2)",
		"test/a.test.js > same (3)":         "",                // the file has only two
		"b.test.ts > both (2)":              "b.test.ts: both", // one that runs more than once
		"test/a.test.js > same > inner":     "",
		"g":                                 "",
		"b.test.ts > computed as a whole":   "b.test.ts: *",
		"example.com/calc.TestAdd":          "",
		"tests/test_calc.py::Calc::test_it": "",
		"anything goes":                     "b.test.ts: anything *",
		"c.test.ts > both":                  "",
		"pkg/a/dist/test/c.test.js > built": "pkg/a/test/c.test.ts: built",
		"./dist/b/c.test.mjs > built":       "pkg/b/test/c.test.mts: built",
		"dist/d.test.js > built":            "", // of two files
		"pkg/b/dist/d.test.js > built":      "pkg/b/test/d.test.tsx: built",
		"dist/b.test.js > both":             "b.test.ts: both",
		"dist/b.test.py > both":             "",
	} {
		got := ""
		if test := s.test(id); test != nil {
			got = test.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	for p, want := range map[string]bool{
		"a.test.js": true, "src/__tests__/a.tsx": true, "test/a.mjs": true, "spec/helper.js": true, "test-a.cjs": true, "aSpec.ts": true, "test.js": true,
		"src/a.js": false, "node_modules/x/a.test.js": false, "a.test.d.ts": false, "test/a.json": false, "latest.js": false, "a_test.go": false,
	} {
		if got := javaScriptTestFile(p); got != want {
			t.Errorf("%s: %t", p, got)
		}
	}
}
