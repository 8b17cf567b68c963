package journal_test

import (
	"bytes"
	"testing"

	"remit/proof/canon"
	"remit/proof/journal"
)

func typicalStep() journal.Step {
	s := steps()[2]
	s.Inputs = map[string]any{"tool": "write_file", "params_hash": canon.Digest(nil), "call": 17}
	return s
}

func BenchmarkAppend(b *testing.B) {
	for name, sync := range map[string]bool{"buffered": false, "sync": true} {
		b.Run(name, func(b *testing.B) {
			w, _ := create(b)
			s := typicalStep()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Append(s); err != nil {
					b.Fatal(err)
				}
				if sync {
					if err := w.Sync(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	var file bytes.Buffer
	w, path := create(b)
	for range 2000 {
		if _, err := w.Append(typicalStep()); err != nil {
			b.Fatal(err)
		}
	}
	log, err := journal.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range log.Entries {
		line, err := canon.Marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		file.Write(append(line, '\n'))
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := journal.Read(bytes.NewReader(file.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("head", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := journal.HeadOf(log.Entries); err != nil {
				b.Fatal(err)
			}
		}
	})
}
