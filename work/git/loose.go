package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the checksum of an index is SHA-1 where the repository says so
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"remit/proof/reason"
)

// Loose objects and small indexes are plain files of a few bytes. To write and read them here saves a process each,
// which costs more than the work. It is done in directories of ours only.

// looseKind is the only kind of object that is written and read this way.
const looseKind = "blob"

func (d Dir) loosePath(id string) string { return filepath.Join(d.ObjectsDir(), id[:2], id[2:]) }

// WriteBlob stores a blob of exactly size bytes, whose id must come out as id.
func (d Dir) WriteBlob(id string, size int64, content io.Reader) error {
	if !d.Format.IsID(id) {
		return fmt.Errorf("writing an object: %q is not an object id", id)
	}
	name := d.loosePath(id)
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err != nil {
		return reason.Errorf(reason.InfrastructureFault, "writing an object: %w", err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return reason.Errorf(reason.InfrastructureFault, "writing an object: %w", err)
	}
	h := d.Format.NewHash(looseKind, size)
	z, err := zlib.NewWriterLevel(f, zlib.BestSpeed)
	if err == nil {
		_, err = fmt.Fprintf(z, "%s %d\x00", looseKind, size)
	}
	if err == nil {
		_, err = io.CopyN(io.MultiWriter(z, h), content, size)
		err = errors.Join(unexpectedOrSame(err), z.Close())
	}
	if err = errors.Join(err, f.Close()); err == nil && hexOf(h) != id {
		err = errors.New("it is not the content that the id promises")
	}
	if err != nil {
		_ = os.Remove(name) // half an object; the directory is thrown away anyway
		return fmt.Errorf("writing object %s: %w", id, err)
	}
	return nil
}

func unexpectedOrSame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// OpenBlob opens a loose blob of d. The reader ends with an error if the content is not what the id promises.
func (d Dir) OpenBlob(id string) (size int64, content io.ReadCloser, err error) {
	if !d.Format.IsID(id) {
		return 0, nil, fmt.Errorf("reading an object: %q is not an object id", id)
	}
	f, err := os.Open(d.loosePath(id))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil, missing(id)
	}
	if err != nil {
		return 0, nil, reason.Errorf(reason.InfrastructureFault, "reading object %s: %w", id, err)
	}
	z, err := zlib.NewReader(bufio.NewReader(f))
	if err != nil {
		f.Close()
		return 0, nil, broken(id, err)
	}
	r := bufio.NewReader(z)
	head, err := r.ReadSlice(0) // at most what r buffers
	text, ok := strings.CutPrefix(strings.TrimSuffix(string(head), "\x00"), looseKind+" ")
	if err == nil {
		size, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || !ok || size < 0 {
		f.Close()
		return 0, nil, broken(id, fmt.Errorf("header %.40q", head))
	}
	return size, &looseBlob{file: f, id: id, body: hashed{r: io.LimitedReader{R: r, N: size}, h: d.Format.NewHash(looseKind, size)}}, nil
}

func broken(id string, err error) error {
	return reason.Errorf(reason.RepositoryInvalid, "reading object %s: %w", id, err)
}

// looseBlob checks the content at its end.
type looseBlob struct {
	file *os.File
	id   string
	body hashed
}

func (b *looseBlob) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	switch {
	case err == nil || !errors.Is(err, io.EOF):
	case b.body.r.N > 0:
		err = broken(b.id, io.ErrUnexpectedEOF)
	case hexOf(b.body.h) != b.id:
		err = broken(b.id, errors.New("it is not the content that the id promises"))
	}
	return n, err
}

func (b *looseBlob) Close() error { return b.file.Close() }

// WriteIndex makes d's index of these entries, which must be in bytewise path order, each path once. Nothing is
// known of any file: what looks at the index sees objects only.
func (d Dir) WriteIndex(entries []IndexEntry) error {
	var b bytes.Buffer
	b.WriteString("DIRC")
	word := func(n uint32) { b.Write(binary.BigEndian.AppendUint32(nil, n)) }
	word(2)
	word(uint32(len(entries)))
	for _, e := range entries {
		mode, err := strconv.ParseUint(e.Mode, 8, 32)
		id, idErr := hex.DecodeString(e.ID)
		if err != nil || idErr != nil || !d.Format.IsID(e.ID) || e.Path == "" || strings.ContainsRune(e.Path, 0) {
			return fmt.Errorf("writing an index: entry %q %q %q", e.Mode, e.ID, e.Path)
		}
		begin := b.Len()
		b.Write(make([]byte, 24)) // times, device, inode
		word(uint32(mode))
		b.Write(make([]byte, 12)) // owner, group, size
		b.Write(id)
		b.Write(binary.BigEndian.AppendUint16(nil, uint16(min(len(e.Path), 0xfff))))
		b.WriteString(e.Path)
		b.Write(make([]byte, 8-(b.Len()-begin)%8))
	}
	sum := sha1.New() //nolint:gosec // see the import
	if d.Format == SHA256 {
		sum = sha256.New()
	}
	sum.Write(b.Bytes())
	if err := os.WriteFile(d.index(), sum.Sum(b.Bytes()), 0o600); err != nil {
		return reason.Errorf(reason.InfrastructureFault, "writing an index: %w", err)
	}
	return nil
}

// ReadIndex returns the bytes of d's index, nil if there is none.
func (d Dir) ReadIndex() ([]byte, error) {
	b, err := os.ReadFile(d.index())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "reading an index: %w", err)
	}
	return b, nil
}
