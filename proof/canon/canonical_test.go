package canon_test

import (
	"bytes"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/reason"
)

func TestCanonicalizeWritesTheCanonicalForm(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"literal", " true\n", `true`},
		{"null", `null`, `null`},
		{"string", `"x"`, `"x"`},
		{"empty containers", ` { } `, `{}`},
		{"white space", "[ 1 ,\t2 ,\r\n3 ]", `[1,2,3]`},
		{"keys are sorted", `{"b":1,"a":2,"":3,"B":4,"ab":5}`, `{"":3,"B":4,"a":2,"ab":5,"b":1}`},
		{"keys are sorted at every depth", `{"z":{"d":1,"c":[{"f":1,"e":2}]},"a":{"k":1,"j":2}}`,
			`{"a":{"j":2,"k":1},"z":{"c":[{"e":2,"f":1}],"d":1}}`},
		{"keys are sorted unescaped", `{"]":1,"\\":2,"\"":3,"\u0001":4,"[":5,"a\nb":6,"a":7,"a b":8}`,
			`{"\u0001":4,"\"":3,"[":5,"\\":2,"]":1,"a":7,"a\nb":6,"a b":8}`},
		{"escaped keys", `{"\u0062":1,"\u0061":2}`, `{"a":2,"b":1}`},
		{"shortest escapes", `"\u0022\u005c\u0008\u000c\u000a\u000d\u0009\u0000\u001F\/\u003c"`,
			`"\"\\\b\f\n\r\t\u0000\u001f/<"`},
		{"nothing else is escaped", `"\u007f\u2028\u2029\u00e9\ud83d\ude00\uffff"`, "\"\x7f\u2028\u2029é😀\uffff\""},
		{"HTML stays", `"<a href='x'>&</a>"`, `"<a href='x'>&</a>"`},
		{"no Unicode normalization", `["\u0041\u030a","\u00c5"]`, "[\"A\u030a\",\"\u00c5\"]"},
		{"integers", `[0,1,-1,10,9007199254740991,-9007199254740991]`, `[0,1,-1,10,9007199254740991,-9007199254740991]`},
		{"decimals where they may be", `{"step_utility":-0.25,"final_confidence":0.5}`, `{"final_confidence":0.5,"step_utility":-0.25}`},
		{"decimal keys may hold integers", `{"final_confidence":1,"step_utility":-1}`, `{"final_confidence":1,"step_utility":-1}`},
		{"largest decimal", `{"step_utility":-9999999999999.99}`, `{"step_utility":-9999999999999.99}`},
		{"decimal key spelled with escapes", `{"\u0073tep_utility":0.5}`, `{"step_utility":0.5}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := canon.Canonicalize([]byte(test.in))
			if err != nil || string(got) != test.want {
				t.Fatalf("Canonicalize(%s) = %s, %v; want %s", test.in, got, err, test.want)
			}
			if err := canon.Check(got); err != nil {
				t.Errorf("the result does not pass Check: %v", err)
			}
			if test.in != test.want && canon.Check([]byte(test.in)) == nil {
				t.Errorf("Check accepts the text that Canonicalize changes")
			}
		})
	}
}

// Every text here would be hashed differently, or not at all, by some other
// program. field is the JSON pointer that the error has to name.
func TestCanonicalizeRefusesWhatIsOutsideTheSubset(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, field, message string }{
		{"empty", "", "", "text ends"},
		{"only white space", " \n", "", "text ends"},
		{"cut short", `{"a":[1,`, "/a", "unexpected EOF"},
		{"cut inside a string", `{"a":"b`, "/a", "unexpected EOF"},
		{"two values", `1 2`, "", "more than one value"},
		{"garbage after the value", `{} x`, "", "invalid character"},
		{"NUL after the value", "{}\x00", "", "invalid character"},
		{"byte order mark", "\ufeff{}", "", "invalid character"},
		{"duplicate key", `{"a":{"b":1,"b":1}}`, "/a/b", "duplicate"},
		{"duplicate key behind an escape", `{"a":1,"\u0061":1}`, "/a", "duplicate"},
		{"key is a number", `{1:2}`, "", "string"},
		{"key is an object", `{{}:2}`, "", "string"},
		{"key is not ASCII", `{"x":{"é":1}}`, `/x/\u00e9`, "not ASCII"},
		{"escaped key is not ASCII", `{"\u00e9":1}`, `/\u00e9`, "not ASCII"},
		{"invalid UTF-8", "[\"a\xff\"]", "/0", "UTF-8"},
		{"invalid UTF-8 in a key", "{\"a\xff\":1}", "", "UTF-8"},
		{"overlong UTF-8", "\"\xc0\xaf\"", "", "UTF-8"},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", "", "UTF-8"},
		{"half a surrogate pair", `["\ud800"]`, "/0", "surrogate"},
		{"wrong half of a surrogate pair", `"\udc00\ud800"`, "", "surrogate"},
		{"raw control character", "\"a\nb\"", "", "invalid character"},
		{"single quotes", `{'a':1}`, "", "invalid character"},
		{"trailing comma", `[1,]`, "", "invalid character"},
		{"comment", `[1/*x*/]`, "", "invalid character"},
		{"NaN", `NaN`, "", "invalid character"},
		{"Infinity", `[-Infinity]`, "/0", "invalid character"},
		{"leading zero", `01`, "", ""},
		{"plus sign", `+1`, "", "invalid character"},
		{"decimal", `{"a":[0,1.5]}`, "/a/1", "is a decimal"},
		{"decimal inside a decimal key", `{"step_utility":[0.5]}`, "/step_utility/0", "is a decimal"},
		{"decimal under a decimal key", `{"step_utility":{"x":0.5}}`, "/step_utility/x", "is a decimal"},
		{"whole number as a decimal", `{"final_confidence":1.0}`, "/final_confidence", "ends in a zero"},
		{"decimal that ends in zero", `{"final_confidence":0.50}`, "/final_confidence", "ends in a zero"},
		{"three places", `{"final_confidence":0.333}`, "/final_confidence", "two places"},
		{"large decimal", `{"step_utility":10000000000000.01}`, "/step_utility", "too many digits"},
		{"exponent", `1e2`, "", "exponent"},
		{"exponent, upper case", `{"step_utility":5E-1}`, "/step_utility", "exponent"},
		{"negative zero", `[-0]`, "/0", "negative zero"},
		{"negative zero as a decimal", `{"step_utility":-0.0}`, "/step_utility", "ends in a zero"},
		{"integer above the range", `9007199254740992`, "", "outside"},
		{"integer below the range", `{"final_confidence":-9007199254740992}`, "/final_confidence", "outside"},
		{"huge integer", `[` + strings.Repeat("9", 400) + `]`, "/0", "outside"},
		{"too deep", strings.Repeat("[", canon.MaxDepth+1) + strings.Repeat("]", canon.MaxDepth+1), strings.Repeat("/0", 40) + "…", "nested"},
		{"far too deep", strings.Repeat(`{"":`, 1_000_000), strings.Repeat("/", 80) + "…", "nested"},
		{"too large", strings.Repeat(" ", canon.MaxBytes) + "1", "", "more than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for name, do := range map[string]func([]byte) error{
				"Canonicalize": func(b []byte) error { _, err := canon.Canonicalize(b); return err },
				"Check":        canon.Check,
				"Decode":       func(b []byte) error { var v any; return canon.Decode(b, &v) },
			} {
				err := do([]byte(test.in))
				e, ok := err.(*reason.Error) //nolint:errorlint // the type itself is promised
				if !ok {
					t.Fatalf("%s: error is %v (%T), want a *reason.Error", name, err, err)
				}
				if e.Code != reason.NotCanonical || e.Field != test.field || !strings.Contains(e.Message, test.message) {
					t.Errorf("%s: %v\nwant code not_canonical, field %q, message with %q", name, e, test.field, test.message)
				}
				if len(e.Error()) > 1000 {
					t.Errorf("%s: error repeats %d bytes of hostile text", name, len(e.Error()))
				}
			}
		})
	}
}

func TestCanonicalizeAcceptsTheLimits(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", canon.MaxDepth) + strings.Repeat("]", canon.MaxDepth)
	if err := canon.Check([]byte(deep)); err != nil {
		t.Errorf("depth %d: %v", canon.MaxDepth, err)
	}
}

func TestCheckNamesTheFirstDifference(t *testing.T) {
	t.Parallel()
	err := canon.Check([]byte(`{"a": 1}`))
	if reason.CodeOf(err) != reason.NotCanonical || !strings.Contains(err.Error(), "byte 5") {
		t.Errorf("got %v, want not_canonical at byte 5", err)
	}
}

func TestInputIsNeitherChangedNorKept(t *testing.T) {
	t.Parallel()
	src := []byte(`{"b":"\u0041","a":[{"d":1,"c":2}]}`)
	before := bytes.Clone(src)
	first, err := canon.Canonicalize(src)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(src, before) {
		t.Fatalf("input became %s", src)
	}
	want := string(first)
	clear(src)
	for range 100 { // reuses pooled buffers
		if _, err := canon.Canonicalize([]byte(`{"y":"overwritten","x":["overwritten"]}`)); err != nil {
			t.Fatal(err)
		}
	}
	if string(first) != want {
		t.Errorf("result became %s", first)
	}
}
