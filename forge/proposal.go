package forge

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/forge/nip34"
	"remit/proof/evidence"
)

// Proposal is the change as NIP-34 has it, without what became of it and where it can
// be fetched. The commit of a request that is signed is another one than that which
// git am makes of the patch, so the request must have been prepared without a signature.
func (r *Request) Proposal(summary string) (*nip34.Change, error) {
	at, err := r.change.completed()
	if err != nil {
		return nil, err
	}
	var mail bounded
	if err := r.change.mail(&mail, r.Commit, unfit); err != nil && !errors.Is(err, errFull) {
		return nil, err
	}
	name, address, _ := strings.Cut(strings.TrimSuffix(evidence.CommitAuthor, ">"), " <")
	return &nip34.Change{Title: fit(r.Title), Summary: fit(summary), Patch: mail.String(),
		Commit: r.Commit, Parent: string(r.change.receipt.BaselineCommit),
		Committer: []string{name, address, strconv.FormatInt(at.Unix(), 10), "0"}, At: at.Unix(), Meta: r.Meta}, nil
}

// bounded takes a little more than an event may have, and no more.
type bounded struct{ strings.Builder }

var errFull = errors.New("the patch is larger than an event")

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len() > nip34.MaxEvent {
		return 0, errFull
	}
	return b.Builder.Write(p)
}

// unfit reports whether a patch has bytes that events have no one form for, or that git
// am takes out of a plain mail: control characters, and what is no UTF-8.
func unfit(f io.ReadSeeker) (found bool, err error) {
	in := bufio.NewReader(f)
	for !found && err == nil {
		var r rune
		var size int
		if r, size, err = in.ReadRune(); err == nil {
			found = r == utf8.RuneError && size == 1 || r != '\n' && r != '\t' && (r < ' ' || r == 0x7f)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return found, err
}

// fit takes out of a text what events have no one form for.
func fit(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
