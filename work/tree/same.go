package tree

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// unchanged compares one name that is not a directory in head.
func unchanged(l level, name string, head, base fs.FileInfo) (bool, error) {
	const kind = fs.ModeType | fs.ModeSetuid | fs.ModeSetgid
	if base == nil || head.Mode()&kind != base.Mode()&kind {
		return false, nil
	}
	switch mode := head.Mode(); {
	case mode&fs.ModeSymlink != 0:
		h, err := l.head.Readlink(name)
		if err != nil {
			return false, err
		}
		b, err := l.base.Readlink(name)
		return h == b, err
	case !mode.IsRegular():
		return true, nil // two FIFOs are alike; device numbers need privileges to set
	}
	if head.Size() != base.Size() || executable(head) != executable(base) {
		return false, nil
	}
	return sameContent(l, name, head, base)
}

func sameContent(l level, name string, head, base fs.FileInfo) (bool, error) {
	if os.SameFile(head, base) {
		return true, nil
	}
	h, err := openFile(l.head, name, head)
	if err != nil {
		return false, err
	}
	defer h.Close()
	b, err := openFile(l.base, name, base)
	if err != nil {
		return false, err
	}
	defer b.Close()
	var hb, bb [32 << 10]byte
	for {
		n, herr := io.ReadFull(h, hb[:])
		m, berr := io.ReadFull(b, bb[:])
		if !bytes.Equal(hb[:n], bb[:m]) {
			return false, nil
		}
		if herr != nil || berr != nil {
			return ended(herr) && ended(berr), firstReal(herr, berr)
		}
	}
}

func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func firstReal(errs ...error) error {
	for _, err := range errs {
		if err != nil && !ended(err) {
			return err
		}
	}
	return nil
}
