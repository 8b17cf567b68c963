package store

import (
	"context"
	"fmt"

	"remit/proof/canon"
)

// maxProblems bounds the list: a store with more is lost as a whole.
const maxProblems = 100

// Integrity checks what the database promises and returns what it finds wrong,
// nothing for a sound store: the pages, indexes and references of a SQLite file
// (PostgreSQL holds its own), streams without a gap between floor and head, and
// the digest and canonical form of every event. The work is that of reading
// everything once. The books of the treasury have their own check.
func (s *Store) Integrity(ctx context.Context) ([]string, error) {
	var found problems
	err := s.View(ctx, func(tx *Tx) error {
		if tx.dialect == "sqlite" {
			if err := found.file(tx); err != nil {
				return err
			}
		}
		if err := found.streams(tx); err != nil {
			return err
		}
		return found.events(tx)
	})
	return found, err
}

type problems []string

func (p *problems) add(format string, args ...any) {
	if len(*p) < maxProblems {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

func (p *problems) file(tx *Tx) error {
	err := tx.rows("PRAGMA integrity_check", func(row scanner) error {
		var text string
		if err := row.Scan(&text); err != nil {
			return err
		}
		if text != "ok" {
			p.add("file: %s", text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return tx.rows(`SELECT "table", COALESCE(rowid, 0), parent FROM pragma_foreign_key_check`, func(row scanner) error {
		var child, parent string
		var id int64
		if err := row.Scan(&child, &id, &parent); err != nil {
			return err
		}
		p.add("table %s: row %d refers to a row of %s that does not exist", child, id, parent)
		return nil
	})
}

func (p *problems) streams(tx *Tx) error {
	err := tx.rows(`SELECT s.name, s.head, s.floor, COUNT(e.seq), COALESCE(MIN(e.seq), s.floor + 1), COALESCE(MAX(e.seq), s.floor)
		FROM stream s LEFT JOIN event e ON e.stream = s.name GROUP BY s.name, s.head, s.floor ORDER BY s.name`,
		func(row scanner) error {
			var name string
			var head, floor, count, first, last int64
			if err := row.Scan(&name, &head, &floor, &count, &first, &last); err != nil {
				return err
			}
			if count != head-floor || first != floor+1 || last != head {
				p.add("stream %q: %d events from %d to %d, want %d from %d to %d", name, count, first, last, head-floor, floor+1, head)
			}
			return nil
		})
	if err != nil {
		return err
	}
	return tx.rows(`SELECT DISTINCT e.stream FROM event e LEFT JOIN stream s ON s.name = e.stream WHERE s.name IS NULL ORDER BY 1`,
		func(row scanner) error {
			var name string
			if err := row.Scan(&name); err != nil {
				return err
			}
			p.add("stream %q: it has events and no head", name)
			return nil
		})
}

func (p *problems) events(tx *Tx) error {
	return tx.rows("SELECT "+eventColumns+" FROM event ORDER BY stream, seq", func(row scanner) error {
		e, err := scanEvent(row)
		if err != nil {
			return err
		}
		if canon.Digest(e.Payload) != e.PayloadSHA256 {
			p.add("stream %q: the payload of event %d does not have its digest", e.Stream, e.Seq)
		} else if err := canon.Check(e.Payload); err != nil {
			p.add("stream %q: the payload of event %d is not canonical: %v", e.Stream, e.Seq, err)
		}
		return nil
	})
}
