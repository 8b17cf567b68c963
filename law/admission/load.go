package admission

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// Dir is the directory of all records, below REMIT_HOME. The kinds are the
// directories in it.
const (
	Dir       = "admissions"
	sourceDir = Dir + "/source"
	modelDir  = Dir + "/model"
)

// maxRecords bounds a listing.
const maxRecords = 10_000

// plainName is a name that a file can have as it is.
var plainName = form.Lazy(`^[a-z0-9]([a-z0-9.-]{0,78}[a-z0-9])?$`)

// SourceFile is the path of an engine's record, relative to REMIT_HOME, with
// slashes.
func SourceFile(engine string) string { return path.Join(sourceDir, fileName(engine)) }

// ModelFile is the path of a pair's record, relative to REMIT_HOME, with
// slashes.
func ModelFile(provider, model string) string {
	return path.Join(modelDir, fileName(provider, model))
}

// fileName has a '+' between plain names and a '=' in a digest: no plain name
// has either, so no two subjects share a file.
func fileName(names ...string) string {
	plain := !slices.ContainsFunc(names, func(n string) bool { return !plainName().MatchString(n) })
	if plain {
		return strings.Join(names, "+") + ".json"
	}
	var all []byte // each with its length, so that no two lists are the same text
	for _, n := range names {
		all = fmt.Appendf(all, "%d:%s,", len(n), n)
	}
	return "sha256=" + strings.TrimPrefix(canon.Digest(all), canon.DigestPrefix) + ".json"
}

// SourceRecord reads the record of an engine; nil without an error is none. A
// file that is there and is no record is a *reason.Error with
// invalid_admission.
func SourceRecord(home, engine string) (*Source, error) {
	return read(home, SourceFile(engine), ParseSource)
}

// ModelRecord reads the record of a pair; nil without an error is none. A file
// that is there and is no record is a *reason.Error with invalid_admission.
func ModelRecord(home, provider, model string) (*Model, error) {
	return read(home, ModelFile(provider, model), ParseModel)
}

func read[T any](home, name string, parse func(string, []byte) (*T, error)) (*T, error) {
	text, err := readFile(home, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, unreadable(home, name, err)
	}
	return parse(filepath.Join(home, filepath.FromSlash(name)), text)
}

func unreadable(home, name string, err error) *reason.Error {
	var inside *fs.PathError
	if errors.As(err, &inside) {
		err = inside.Err // the place is in File
	}
	return &reason.Error{Code: reason.InvalidAdmission, Message: "the record cannot be read: " + err.Error(),
		File: filepath.Join(home, filepath.FromSlash(name)), Err: err}
}

// errLink keeps a link that leads nowhere from looking as if there were no
// record.
var errLink = errors.New("it is no regular file")

func readFile(home, name string) ([]byte, error) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errLink
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("others than its owner can write it (mode %#o)", info.Mode().Perm())
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// Records are all that is kept. Damaged has the files that are no records.
type Records struct {
	Sources []*Source
	Models  []*Model
	Damaged []*reason.Error
}

// Load reads every record below REMIT_HOME, in the order of their names. A
// damaged one does not hide the others. A record that stands in the file of
// another subject is damaged.
func Load(home string) (*Records, error) {
	all := &Records{}
	err := each(home, sourceDir, func(name string) error {
		rec, err := read(home, name, ParseSource)
		if err == nil && rec != nil {
			err = inPlace(home, name, SourceFile(rec.Engine))
		}
		if err == nil && rec != nil {
			all.Sources = append(all.Sources, rec)
		}
		return all.damage(err)
	})
	if err != nil {
		return nil, err
	}
	err = each(home, modelDir, func(name string) error {
		rec, err := read(home, name, ParseModel)
		if err == nil && rec != nil {
			err = inPlace(home, name, ModelFile(rec.Provider, rec.Model))
		}
		if err == nil && rec != nil {
			all.Models = append(all.Models, rec)
		}
		return all.damage(err)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all.Sources, func(a, b *Source) int { return cmp.Compare(a.Engine, b.Engine) })
	slices.SortFunc(all.Models, func(a, b *Model) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return all, nil
}

func (all *Records) damage(err error) error {
	var damaged *reason.Error
	if errors.As(err, &damaged) {
		all.Damaged = append(all.Damaged, damaged)
		return nil
	}
	return err
}

func inPlace(home, name, want string) error {
	if name == want {
		return nil
	}
	e := invalid("", "it is the record of another subject, whose place is %s", want)
	e.File, e.Line = filepath.Join(home, filepath.FromSlash(name)), 1
	return e
}

// each calls do with the path of every file of a kind.
func each(home, dir string, do func(name string) error) error {
	entries, err := os.ReadDir(filepath.Join(home, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unreadable(home, dir, err)
	}
	if len(entries) > maxRecords {
		return unreadable(home, dir, fmt.Errorf("it has more than %d files", maxRecords))
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), ".json") {
			continue // being written
		}
		if err := do(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
