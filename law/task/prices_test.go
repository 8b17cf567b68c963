package task

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

func TestPrices(t *testing.T) {
	t.Parallel()
	want := ModelPrice{In: 2_500_000, CacheRead: 75_000, CacheWrite: 0, Out: 15_000_000, CacheWriteHour: 4_000_000, UpToInTokens: 272_000}
	for name, src := range map[string]string{
		"yaml": "# mine\nacme/org/large-1: {in: 2.50, cache_read: 0.075, cache_write: 0, out: 15, cache_write_hour: 4, up_to_in_tokens: 272000}\n",
		"json": `{"acme/org/large-1": {"in": 2.5, "cache_read": 0.075, "cache_write": 0, "out": 15, "cache_write_hour": 4.0, "up_to_in_tokens": 272000}}`,
	} {
		file := filepath.Join(t.TempDir(), "prices")
		if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LoadPrices(file)
		if err != nil || len(got) != 1 || got["acme/org/large-1"] != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := LoadPrices(filepath.Join(t.TempDir(), "none")); reason.CodeOf(err) != reason.ContractUnreadable {
		t.Error(err)
	}
}

func TestPricesRefuse(t *testing.T) {
	t.Parallel()
	const rest = ", cache_read: 0, cache_write: 0, out: 1}"
	for src, want := range map[string]string{
		"a/b: {in: 1, cache_read: 0, out: 1}":         "contract_missing_key 1 a/b.cache_write",
		"a/b: {}":                                     "contract_missing_key 1 a/b.in",
		"a/b: 3":                                      "contract_wrong_type 1 a/b",
		"a/b: {in: -1" + rest:                         "contract_invalid_value 1 a/b.in",
		"a/b: {in: 1e-3" + rest:                       "contract_wrong_type 1 a/b.in",
		"a/b: {in: 0.0000001" + rest:                  "contract_invalid_value 1 a/b.in",
		"a/b: {in: 10001" + rest:                      "contract_invalid_value 1 a/b.in",
		"a/b: {in: .nan" + rest:                       "contract_wrong_type 1 a/b.in",
		"a/b: {in: '1'" + rest:                        "contract_wrong_type 1 a/b.in",
		"a/b: {in: 1, input: 2" + rest:                "contract_unknown_key 1 a/b.input",
		"a/b: {in: 1, in: 2" + rest:                   "contract_duplicate_key 1 a/b.in",
		"b: {in: 1" + rest:                            "contract_invalid_value 1 b",
		"/b: {in: 1" + rest:                           "contract_invalid_value 1 /b",
		"a/: {in: 1" + rest:                           "contract_invalid_value 1 a/",
		"x/y: {in: 1" + rest + "\nx/y: {in: 2" + rest: "contract_duplicate_key 2 x/y",
		"[]":                                  "contract_syntax 1 ",
		"a/b: &x {in: 1" + rest:               "contract_syntax 1 ",
		strings.Repeat("#", MaxSourceBytes+1): "contract_too_large 0 ",
	} {
		if _, err := ParsePrices("prices.yaml", []byte(src)); !slices.Contains(problemTexts(err), want) {
			t.Errorf("%.60s: got %v, want %s", src, problemTexts(err), want)
		}
	}
}

// FuzzPrices: no table crashes the parser, and what it accepts is within the
// bounds that the gateway calculates with.
func FuzzPrices(f *testing.F) {
	f.Add([]byte("a/b: {in: 1, cache_read: 0, cache_write: 0, out: 1}"))
	f.Add([]byte(`{"a/b": {"in": 2.5}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		prices, err := ParsePrices("fuzz.yaml", src)
		if err != nil && reason.CodeOf(err) == "" {
			t.Fatalf("not a problem: %v", err)
		}
		for name, p := range prices {
			if !isPriceName(name) || min(p.In, p.CacheRead, p.CacheWrite, p.Out, p.CacheWriteHour, p.UpToInTokens) < 0 ||
				max(p.In, p.CacheRead, p.CacheWrite, p.Out, p.CacheWriteHour) > maxModelPrice {
				t.Fatalf("%q: %+v", name, p)
			}
		}
	})
}
