package canon_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"remit/proof/canon"
	"remit/proof/reason"
)

type inner struct {
	Z int    `json:"z"`
	A string `json:"a,omitempty"`
}

type record struct {
	Name       string            `json:"name"`
	Inner      inner             `json:"inner"`
	Pointer    *string           `json:"pointer"`
	List       []string          `json:"list"`
	Labels     map[string]int    `json:"labels"`
	Raw        json.RawMessage   `json:"raw"`
	Confidence canon.Hundredths  `json:"final_confidence"`
	Utility    *canon.Hundredths `json:"step_utility,omitempty"`
}

func TestMarshalFollowsEncodingJSON(t *testing.T) {
	t.Parallel()
	half := canon.Hundredths(-50)
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"struct", record{Name: "<é>", Raw: json.RawMessage(` {"y":1, "x":[ ]} `), Confidence: 67, Utility: &half,
			Labels: map[string]int{"b": 1, "a": 2}, Inner: inner{Z: 1}, List: []string{}},
			`{"final_confidence":0.67,"inner":{"z":1},"labels":{"a":2,"b":1},"list":[],"name":"<é>","pointer":null,` +
				`"raw":{"x":[],"y":1},"step_utility":-0.5}`},
		{"map", map[string]any{"b": []int{2, 1}, "a": nil, "n": json.Number("12")}, `{"a":null,"b":[2,1],"n":12}`},
		{"raw message", json.RawMessage(`{"b":1,"a":2}`), `{"a":2,"b":1}`},
		{"nil raw message", json.RawMessage(nil), `null`},
		{"bytes are base64", []byte{1, 2, 3}, `"AQID"`},
		{"time", time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), `"2026-02-01T00:00:00Z"`},
		{"whole float", map[string]float64{"x": 3}, `{"x":3}`},
		{"float at a decimal key", map[string]float64{"final_confidence": 0.25}, `{"final_confidence":0.25}`},
		{"nil", nil, `null`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := canon.Marshal(test.in)
			if err != nil || string(got) != test.want {
				t.Fatalf("Marshal = %s, %v; want %s", got, err, test.want)
			}
			plain, err := json.Marshal(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if same, err := canon.Canonicalize(plain); err != nil || string(same) != test.want {
				t.Errorf("encoding/json gives %s, %v", same, err)
			}
		})
	}
}

func TestMarshalHasOneFormOfEmpty(t *testing.T) {
	t.Parallel()
	type lists struct {
		A []int           `json:"a"`
		B map[string]int  `json:"b"`
		C *int            `json:"c"`
		D json.RawMessage `json:"d"`
		E []int           `json:"e,omitempty"`
	}
	got, err := canon.Marshal(lists{})
	if want := `{"a":[],"b":{},"c":null,"d":null}`; err != nil || string(got) != want {
		t.Errorf("Marshal = %s, %v; want %s", got, err, want)
	}
	again, err := canon.Marshal(lists{A: []int{}, B: map[string]int{}, E: []int{}})
	if err != nil || string(again) != string(got) {
		t.Errorf("empty lists give %s, %v; nil lists %s", again, err, got)
	}
}

func TestMarshalRefuses(t *testing.T) {
	t.Parallel()
	tenth, fifth := 0.1, 0.2 // their sum is 0.30000000000000004
	tests := []struct {
		name  string
		in    any
		field string
	}{
		{"invalid UTF-8", map[string]any{"a": []string{"x\xff"}}, "/a/0"},
		{"invalid UTF-8 in a key", map[string]int{"\xff": 1}, ""},
		{"invalid UTF-8 in a raw message", map[string]any{"a": json.RawMessage("\"\xff\"")}, "/a"},
		{"duplicate key in a raw message", json.RawMessage(`{"a":1,"a":2}`), ""},
		{"NaN", map[string]float64{"a": math.NaN()}, "/a"},
		{"infinity", math.Inf(1), ""},
		{"fraction", map[string]float64{"a": 0.5}, "/a"},
		{"inexact fraction", map[string]float64{"step_utility": tenth + fifth}, "/step_utility"},
		{"negative zero", map[string]float64{"step_utility": math.Copysign(0, -1)}, "/step_utility"},
		{"large float", 1e21, ""},
		{"large integer", int64(1) << 53, ""},
		{"number with an exponent", json.Number("1e3"), ""},
		{"number that is none", json.Number(`1,"b":2`), ""},
		{"key is not ASCII", map[string]int{"ä": 1}, `/\u00e4`},
		{"channel", make(chan int), ""},
		{"hundredths out of range", canon.Hundredths(1_000_000_000_000_000), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := canon.Marshal(test.in)
			e, ok := err.(*reason.Error) //nolint:errorlint // the type itself is promised
			if !ok || e.Code != reason.NotCanonical {
				t.Fatalf("Marshal = %s, %v; want not_canonical", got, err)
			}
			if e.Field != test.field {
				t.Errorf("field is %q, want %q: %v", e.Field, test.field, e)
			}
		})
	}
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	var got record
	text := `{"final_confidence":0.67,"inner":{"z":1},"list":["a"],"name":"n"}`
	if err := canon.Decode([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := record{Confidence: 67, Inner: inner{Z: 1}, List: []string{"a"}, Name: "n"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Decode = %+v, want %+v", got, want)
	}
	for name, text := range map[string]string{
		"unknown key":             `{"nane":"n"}`,
		"key in other case":       `{"Name":"n"}`,
		"nested unknown key":      `{"inner":{"y":1}}`,
		"not canonical":           `{"name": "n"}`,
		"wrong kind":              `{"name":1}`,
		"decimal for an integer":  `{"inner":{"z":1.5}}`,
		"null for hundredths":     `{"final_confidence":null}`,
		"string for hundredths":   `{"final_confidence":"0.5"}`,
		"more than one value":     `{}{}`,
		"not JSON":                `{`,
		"trailing LF":             "{}\n",
		"integer that overflows":  `{"labels":{"a":9007199254740992}}`,
		"list where struct is":    `{"inner":[]}`,
		"duplicate of a known":    `{"name":"a","name":"b"}`,
		"both cases of one field": `{"Name":"a","name":"b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r record
			if err := canon.Decode([]byte(text), &r); reason.CodeOf(err) != reason.NotCanonical {
				t.Errorf("Decode(%s) = %v, want not_canonical", text, err)
			}
		})
	}
}

func TestHundredths(t *testing.T) {
	t.Parallel()
	for n, want := range map[canon.Hundredths]string{
		0: "0", 1: "0.01", 5: "0.05", 10: "0.1", 50: "0.5", 99: "0.99", 100: "1", 101: "1.01", 110: "1.1",
		1000: "10", 12345: "123.45", -1: "-0.01", -50: "-0.5", -100: "-1", -205: "-2.05",
		999_999_999_999_999: "9999999999999.99", -999_999_999_999_999: "-9999999999999.99",
	} {
		got, err := canon.Marshal(map[string]canon.Hundredths{"step_utility": n})
		if err != nil || string(got) != `{"step_utility":`+want+`}` {
			t.Errorf("%d is written as %s, %v; want %s", int(n), got, err, want)
		}
		var back canon.Hundredths
		if err := json.Unmarshal([]byte(want), &back); err != nil || back != n {
			t.Errorf("%s is read as %d, %v; want %d", want, int(back), err, int(n))
		}
	}
	for _, text := range []string{"1.0", "0.50", "-0", "0.333", "1e0", `"1"`, "null", "true", "1000000000000000", "10000000000000", "-0.0", "[1]"} {
		var h canon.Hundredths
		if err := json.Unmarshal([]byte(text), &h); text != "10000000000000" && err == nil {
			t.Errorf("%s is read as %d", text, int(h))
		}
	}
}

func TestDigests(t *testing.T) {
	t.Parallel()
	const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := canon.Digest(nil); got != empty {
		t.Errorf("Digest(nil) = %s", got)
	}
	got, err := canon.DigestOf(map[string]int{"b": 1, "a": 2})
	if want := canon.Digest([]byte(`{"a":2,"b":1}`)); err != nil || got != want {
		t.Errorf("DigestOf = %s, %v; want %s", got, err, want)
	}
	got, n, err := canon.DigestReader(strings.NewReader("abc"))
	if want := canon.Digest([]byte("abc")); err != nil || n != 3 || got != want {
		t.Errorf("DigestReader = %s, %d, %v; want %s", got, n, err, want)
	}
	for text, want := range map[string]bool{
		empty:                                  true,
		"":                                     false,
		"sha256:":                              false,
		empty[:70]:                             false,
		empty + "0":                            false,
		strings.ToUpper(empty):                 false,
		"sha256:" + strings.ToUpper(empty[7:]): false,
		empty[7:]:                              false,
		"sha512:" + empty[7:]:                  false,
		"sha256:" + strings.Repeat("g", 64):    false,
		"sha256:" + strings.Repeat("é", 32):    false,
		empty[:70] + "\n":                      false,
	} {
		if got := canon.ValidDigest(text); got != want {
			t.Errorf("ValidDigest(%q) = %v", text, got)
		}
	}
}
