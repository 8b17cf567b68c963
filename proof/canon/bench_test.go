//test:plain-package It only computes: there is one goroutine.

package canon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"unicode"

	"github.com/gowebpki/jcs"

	"remit/proof/canon"
)

var asciiTable = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0, Hi: 0x7f, Stride: 1}}, LatinOffset: 1}

// BenchmarkCanonicalize measures a list of tool calls in encoding/json's form.
func BenchmarkCanonicalize(b *testing.B) {
	type call struct {
		Tool   string            `json:"tool"`
		ID     string            `json:"id"`
		Params map[string]string `json:"params"`
		Hash   string            `json:"params_hash"`
		Took   int               `json:"latency_ms"`
	}
	var calls []call
	for i := range 200 {
		calls = append(calls, call{"write_file", fmt.Sprintf("call-%d", i),
			map[string]string{"path": "internal/app/main.go", "content": "package app\n\nfunc main() {\n\tprintln(\"x\")\n}\n"},
			canon.Digest([]byte{byte(i)}), i})
	}
	src, err := json.Marshal(calls)
	if err != nil {
		b.Fatal(err)
	}
	canonical, err := canon.Canonicalize(src)
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("canon", func() error { _, err := canon.Canonicalize(src); return err })
	run("check", func() error { return canon.Check(canonical) })
	run("jcs", func() error { _, err := jcs.Transform(src); return err })
	run("encoding-json", func() error { // what a round trip without canonical form costs
		d := json.NewDecoder(bytes.NewReader(src))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return err
		}
		_, err := json.Marshal(v)
		return err
	})
	run("marshal", func() error { _, err := canon.Marshal(calls); return err })
}
