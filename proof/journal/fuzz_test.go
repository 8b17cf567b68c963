package journal_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"remit/proof/canon"
	"remit/proof/journal"
	"remit/proof/reason"
)

func rapidDuration() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(0, int64(time.Hour)), func(n int64) time.Duration { return time.Duration(n) })
}

// FuzzRead: whatever Read accepts is, byte for byte, what its entries encode
// to, followed by the torn bytes; and its head can be computed.
func FuzzRead(f *testing.F) {
	file := content(f)
	f.Add(file)
	f.Add(file[:len(file)-1])
	f.Add(file[:200])
	f.Add([]byte("{}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		log, err := journal.Read(bytes.NewReader(src))
		if err != nil {
			if code := reason.CodeOf(err); code != reason.JournalSyntax && code != reason.JournalChain {
				t.Fatalf("error without code: %v", err)
			}
			return
		}
		var again []byte
		for _, e := range log.Entries {
			line, err := canon.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			again = append(append(again, line...), '\n')
		}
		if !bytes.HasPrefix(src, again) || int64(len(src)-len(again)) != log.TornBytes {
			t.Fatalf("%q was read as %q and %d torn bytes", src, again, log.TornBytes)
		}
		if len(log.Entries) > 0 {
			if _, err := journal.HeadOf(log.Entries); err != nil {
				t.Fatal(err)
			}
		}
	})
}
