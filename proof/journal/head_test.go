//go:build !race

package journal

import (
	"crypto/sha256"
	"encoding/json"
	"math/bits"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/reason"
)

// merkleRoot is RFC 6962, section 2.1, word for word.
func merkleRoot(leaves [][]byte) [sha256.Size]byte {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	default:
		k := 1 << (bits.Len(uint(n-1)) - 1) // the largest power of two smaller than n
		left, right := merkleRoot(leaves[:k]), merkleRoot(leaves[k:])
		return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
	}
}

// entries makes a valid chain without a file.
func entries(tb testing.TB, n int) []Entry {
	tb.Helper()
	var c chain
	list := make([]Entry, n)
	for i := range list {
		e := Entry{SessionID: "s", StepID: "step", Name: "name", Status: Completed, StartedAt: "2026-02-01T00:00:00.000Z",
			Inputs: json.RawMessage(`{"text":"é"}`), Outputs: json.RawMessage(`{}`)}
		if err := c.link(&e); err != nil {
			tb.Fatal(err)
		}
		if err := c.accept(&e); err != nil {
			tb.Fatal(err)
		}
		list[i] = e
	}
	return list
}

func TestHeadEqualsPlainRFC6962(t *testing.T) {
	t.Parallel()
	all := entries(t, 130)
	var leaves [][]byte
	for i, e := range all {
		line, err := canon.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, line)
		head, err := HeadOf(all[:i+1])
		if err != nil {
			t.Fatal(err)
		}
		want := Head{Entries: int64(i + 1), TreeSize: int64(i + 1), Head: e.EntryHash, Root: canon.DigestText(merkleRoot(leaves))}
		if head != want {
			t.Fatalf("head is %+v, want %+v", head, want)
		}
	}
}

func TestFrontierEqualsPlainRFC6962(t *testing.T) {
	t.Parallel()
	var f frontier
	var leaves [][]byte
	for i := range 520 {
		if root, err := f.root(); err != nil || root != canon.DigestText(merkleRoot(leaves)) {
			t.Fatalf("%d leaves: %s, %v", i, root, err)
		}
		leaf := []byte(strings.Repeat("x", i%70))
		if err := f.add(leaf); err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leaf)
	}
}

// The package comment promises that the chain can be checked without a JSON
// library: this is that check, on lines whose values look like keys.
func TestChainWithSHA256Alone(t *testing.T) {
	t.Parallel()
	const key = `"entry_hash":"`
	prev := "null"
	for _, e := range entries(t, 3) {
		e.Inputs = json.RawMessage(`{"entry_hash":"sha256:","x":"\"entry_hash\":\"y\","}`)
		c := chain{next: e.Seq, session: e.SessionID, last: strings.Trim(prev, `"`)}
		if err := c.link(&e); err != nil {
			t.Fatal(err)
		}
		line, err := canon.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		before, after, _ := strings.Cut(string(line), key)
		hash, rest, _ := strings.Cut(after, `",`)
		if hash != canon.Digest([]byte(before+rest)) || !strings.Contains(rest, `"prev_hash":`+prev) {
			t.Fatalf("line %s does not follow %s", line, prev)
		}
		prev = `"` + hash + `"`
	}
}

// A head is a promise about the entries: it is not given for changed ones.
func TestHeadOfRefusesChangedEntries(t *testing.T) {
	t.Parallel()
	other := "sha256:" + strings.Repeat("0", 64)
	for name, change := range map[string]func([]Entry) []Entry{
		"value":            func(l []Entry) []Entry { l[1].Outputs = json.RawMessage(`{"a":1}`); return l },
		"time":             func(l []Entry) []Entry { l[1].CompletedAt = &l[1].StartedAt; return l },
		"hash":             func(l []Entry) []Entry { l[1].EntryHash = other; return l },
		"link":             func(l []Entry) []Entry { l[1].PrevHash = &other; return l },
		"invalid UTF-8":    func(l []Entry) []Entry { l[1].EntryHash = "\xff"; return l },
		"dropped in front": func(l []Entry) []Entry { return l[1:] },
		"dropped inside":   func(l []Entry) []Entry { return append(l[:1], l[2]) },
		"zero entry":       func([]Entry) []Entry { return make([]Entry, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			head, err := HeadOf(change(entries(t, 3)))
			if code := reason.CodeOf(err); code != reason.JournalChain && code != reason.JournalSyntax {
				t.Errorf("HeadOf = %+v, %v", head, err)
			}
		})
	}
}
