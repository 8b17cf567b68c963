package store

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"remit/proof/canon"
)

// A backup is a text file of one JSON value a line, the same for both
// databases, so that it is also the way from one to the other:
//
//	{"format":"remit.store/1","source":"sqlite","created_at":…,"migrations":[{"version":1,"name":"core","sha256":"…"}]}
//	{"table":"event","columns":["stream","seq",…]}
//	["run:1:events",1,…]
//	…
//	{"rows":1234,"sha256":"sha256:…"}
//
// Tables are ordered by name and rows by primary key, so two stores with the
// same content differ in the first line only. Bytes are {"b":"<base64>"}. The
// digest in the last line covers every byte before that line.
const backupFormat = "remit.store/1"

type backupHeader struct {
	Format     string            `json:"format"`
	Source     string            `json:"source"`
	CreatedAt  int64             `json:"created_at"`
	Migrations []backupMigration `json:"migrations"`
}

type backupMigration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`
}

type backupTable struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

type backupTrailer struct {
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

type backupBytes struct {
	B []byte `json:"b"`
}

// Backup writes one snapshot of everything to a new file, readable by its owner
// only. The store goes on working meanwhile. The file holds digests of tokens
// and no secret of one, and all else that the authority knows.
func (s *Store) Backup(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("backup: %w", err), os.Remove(path))
		}
	}()
	w := newBackupWriter(f)
	err = s.View(ctx, func(tx *Tx) error { return w.everything(tx) })
	if err == nil {
		err = w.finish()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

type backupWriter struct {
	out  *bufio.Writer
	sum  hash.Hash
	rows int64
}

func newBackupWriter(w io.Writer) *backupWriter {
	sum := sha256.New()
	return &backupWriter{out: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16), sum: sum}
}

func (w *backupWriter) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(text, '\n'))
	return err
}

func (w *backupWriter) everything(tx *Tx) error {
	applied, err := tx.applied()
	if err != nil {
		return err
	}
	header := backupHeader{Format: backupFormat, Source: tx.dialect, CreatedAt: tx.Now()}
	for _, m := range applied {
		header.Migrations = append(header.Migrations, backupMigration{m.version, m.name, m.sha256})
	}
	if err := w.line(header); err != nil {
		return err
	}
	tables, err := tx.tables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		if derived(t.name) {
			continue
		}
		if err := w.table(tx, t); err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	return nil
}

func (w *backupWriter) table(tx *Tx, t table) error {
	if err := w.line(backupTable{t.name, t.columns}); err != nil {
		return err
	}
	values := make([]any, len(t.columns))
	targets := make([]any, len(t.columns))
	for i := range values {
		targets[i] = &values[i]
	}
	return tx.rows(t.selectAll(), func(row scanner) error {
		if err := row.Scan(targets...); err != nil {
			return err
		}
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				values[i] = backupBytes{b}
			}
		}
		w.rows++
		return w.line(values)
	})
}

func (w *backupWriter) finish() error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	var sum [sha256.Size]byte
	w.sum.Sum(sum[:0])
	if err := w.line(backupTrailer{w.rows, canon.DigestText(sum)}); err != nil {
		return err
	}
	return w.out.Flush()
}
