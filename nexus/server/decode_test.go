package server

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"remit/nexus/api"
	"remit/proof/reason"
)

// TestDecodeIsStrict sends bodies that encoding/json alone would take.
func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body, field string // field "" and ok: taken
		ok                bool
	}{
		{name: "plain", body: `{"repo_ref":"r"}`, ok: true},
		{name: "with metadata", body: `{"repo_ref":"r","metadata":{"a":"b"}}`, ok: true},
		{name: "spaces around", body: " {\"repo_ref\":\"r\"}\n", ok: true},
		{name: "empty", body: ``},
		{name: "cut off", body: `{"repo_ref":"r"`},
		{name: "trailing value", body: `{"repo_ref":"r"} {}`},
		{name: "trailing garbage", body: `{"repo_ref":"r"}x`},
		{name: "unknown key", body: `{"repo_ref":"r","nope":1}`, field: "nope"},
		{name: "other letter case", body: `{"Repo_Ref":"r"}`, field: "Repo_Ref"},
		{name: "key twice", body: `{"repo_ref":"r","repo_ref":"s"}`, field: "repo_ref"},
		{name: "key twice, escaped", body: `{"repo_ref":"r","repo\u005fref":"s"}`, field: "repo_ref"},
		{name: "key twice inside", body: `{"repo_ref":"r","metadata":{"a":"1","a":"2"}}`, field: "metadata.a"},
		{name: "missing", body: `{}`, field: "repo_ref"},
		{name: "null", body: `{"repo_ref":null}`, field: "repo_ref"},
		{name: "null inside", body: `{"repo_ref":"r","metadata":{"a":null}}`, field: "metadata.a"},
		{name: "wrong type", body: `{"repo_ref":7}`, field: "repo_ref"},
		{name: "object for text", body: `{"repo_ref":{}}`, field: "repo_ref"},
		{name: "array for object", body: `[]`},
		{name: "text for object", body: `{"repo_ref":"r","metadata":"x"}`, field: "metadata"},
		{name: "not UTF-8", body: "{\"repo_ref\":\"\xff\"}"},
		{name: "too deep", body: `{"repo_ref":"r","metadata":` + strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100) + `}`, field: "metadata.a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var v api.RunRequest
			err := decode("application/json; charset=utf-8", []byte(test.body), &v)
			coded, _ := errors.AsType[*reason.Error](err)
			if test.ok != (err == nil) || err != nil && (coded.Code != reason.RequestInvalid || coded.Field != test.field) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestDecodeKnowsDocumentsAndWords looks at the parts that are not plain.
func TestDecodeKnowsDocumentsAndWords(t *testing.T) {
	t.Parallel()
	field := func(v any, body string) string {
		err := decode("application/json", []byte(body), v)
		if err == nil {
			return "taken"
		}
		coded, _ := errors.AsType[*reason.Error](err)
		return coded.Field
	}
	for _, test := range []struct {
		name string
		into any
		body string
		want string
	}{
		{"a document with null inside", new(api.EventRequest), `{"event_type":"x","payload":{"a":null}}`, "taken"},
		{"a document that is null", new(api.EventRequest), `{"event_type":"x","payload":null}`, "payload"},
		{"a document that is a list", new(api.EventRequest), `{"event_type":"x","payload":[1]}`, "payload"},
		{"a key twice in a document", new(api.EventRequest), `{"event_type":"x","payload":{"a":{"b":1,"b":2}}}`, "payload.a.b"},
		{"a fraction for an integer", new(api.FundRequest), `{"account_id":"a","amount":1.5}`, "amount"},
		{"too large an integer", new(api.FundRequest), `{"account_id":"a","amount":99999999999999999999}`, "amount"},
		{"a number as text", new(api.FundRequest), `{"account_id":"a","amount":"1"}`, "amount"},
		{"a word", new(api.FinishRequest), `{"status":"succeeded"}`, "taken"},
		{"no such word", new(api.FinishRequest), `{"status":"done"}`, "status"},
		{"no such word in a list", new(api.TokenRequest), `{"kind":"user","scopes":["read","root"]}`, "scopes[1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := field(test.into, test.body); got != test.want {
				t.Errorf("field %q, want %q", got, test.want)
			}
		})
	}
	for _, media := range []string{"", "text/plain", "application/json; charset=latin1", "application/x-www-form-urlencoded", "application/json;;"} {
		if err := decode(media, []byte(`{"repo_ref":"r"}`), new(api.RunRequest)); reason.CodeOf(err) != reason.ContentTypeRefused {
			t.Errorf("content type %q: %v", media, err)
		}
	}
}

// FuzzDecode holds that what is taken means the same when it is written again,
// and that refusals have a code.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"kind":"user","scopes":["read"]}`, `{"kind":"user","kind":"user"}`, `{"kind":null}`, `{"kind":"user"}{}`, `[[[`, `{"expires_in_seconds":1e2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var v api.TokenRequest
		if err := decode("application/json", body, &v); err != nil {
			if reason.CodeOf(err) != reason.RequestInvalid {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		text, err := encode(v)
		if err != nil {
			t.Fatal(err)
		}
		var again api.TokenRequest
		if err := decode("application/json", text, &again); err != nil || !reflect.DeepEqual(v, again) {
			t.Fatalf("%q became %q: %v", body, text, err)
		}
	})
}

// FuzzCursor holds that only our own cursors open.
func FuzzCursor(f *testing.F) {
	f.Add("list", "item", cursor("list", "item"))
	f.Add("list", "", "")
	f.Fuzz(func(t *testing.T, list, item, text string) {
		if item != "" {
			if got, ok := openCursor(list, cursor(list, item)); !ok || got != item {
				t.Fatalf("%q: %q %v", item, got, ok)
			}
			if _, ok := openCursor(list+"x", cursor(list, item)); ok {
				t.Fatalf("the cursor of %q opens another list", list)
			}
		}
		if got, ok := openCursor(list, text); ok && cursor(list, got) != text {
			t.Fatalf("%q opens as %q", text, got)
		}
	})
}
