package journal

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Head names a journal: who knows it can tell that journal from any other.
type Head struct {
	Entries  int64  `json:"entries"`   // number of entries
	Head     string `json:"head"`      // entry_hash of the last one
	TreeSize int64  `json:"tree_size"` // leaves of the Merkle tree, equal to Entries
	Root     string `json:"root"`      // RFC 6962 root over the lines without LF
}

// HeadOf returns the head of a journal. It checks the entries and their chain
// again, so a head is never computed over entries that were changed in memory.
// A journal without entries has no head; that is an error (journal_syntax).
func HeadOf(entries []Entry) (Head, error) {
	var (
		chain chain
		tree  frontier
		line  []byte
	)
	for i := range entries {
		if err := chain.accept(&entries[i]); err != nil {
			return Head{}, err
		}
		var err error
		if line, err = entries[i].appendLine(line[:0], true); err != nil {
			return Head{}, chain.fail(reason.JournalSyntax, "%w", err)
		}
		if err := tree.add(line); err != nil {
			return Head{}, err
		}
	}
	if len(entries) == 0 {
		return Head{}, reason.Errorf(reason.JournalSyntax, "journal has no entries and therefore no head")
	}
	root, err := tree.root()
	if err != nil {
		return Head{}, err
	}
	return Head{Entries: chain.next, Head: chain.last, TreeSize: tree.size, Root: root}, nil
}

// frontier computes an RFC 6962 root leaf by leaf in O(log n) memory. It keeps
// the newest complete subtree of every height, which is all that adding a leaf
// or taking the root ever asks for.
type frontier struct {
	size   int64
	newest [64]subtree
}

type subtree struct {
	index int64 // the index-th subtree of its height
	hash  tlog.Hash
}

func (f *frontier) add(leaf []byte) error {
	hashes, err := tlog.StoredHashes(f.size, leaf, f)
	if err != nil {
		return fmt.Errorf("add leaf %d to the journal's tree: %w", f.size, err)
	}
	for height, hash := range hashes {
		f.newest[height] = subtree{index: f.size >> height, hash: hash}
	}
	f.size++
	return nil
}

func (f *frontier) root() (string, error) {
	hash, err := tlog.TreeHash(f.size, f)
	if err != nil {
		return "", fmt.Errorf("root of the journal's tree: %w", err)
	}
	return canon.DigestText(hash), nil
}

// ReadHashes implements [tlog.HashReader].
func (f *frontier) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		height, n := tlog.SplitStoredHashIndex(index)
		if f.newest[height].index != n {
			return nil, fmt.Errorf("subtree %d of height %d is no longer kept", n, height)
		}
		hashes[i] = f.newest[height].hash
	}
	return hashes, nil
}
