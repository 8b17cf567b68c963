package task

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"remit/proof/canon"
	"remit/proof/reason"
)

// Load reads the task file at path and binds its held-out tests. The error is
// Problems, or a *reason.Error when the file cannot be read.
func Load(path string) (*Contract, error) {
	src, err := readRegular(path, MaxSourceBytes)
	if err != nil {
		return nil, err
	}
	c, err := Parse(path, src)
	if err != nil {
		return nil, err
	}
	return c, c.BindHeldOut(filepath.Dir(path))
}

// Parse reads a task file. The name is used in messages only. The error is
// always Problems: everything that is wrong, in source order.
func Parse(file string, src []byte) (*Contract, error) {
	r := newReport(file)
	c := defaults()
	// A task file must say itself what is forbidden and allowed.
	c.bounded = true
	top := r.document(src)
	if top == nil {
		return nil, r.err()
	}
	object(contractKeys(c))(r, "", top)
	if c.Title == "" {
		c.Title = c.TaskID
	}
	_, stated := r.places["mutation_mode"]
	c.anyMode = !stated
	check(r, c)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// BindHeldOut ties the held-out tests to the content of their sources below
// dir: a digest that the contract states must match, one that it leaves out is
// filled in. The files are read once and never follow a link out of dir.
func (c *Contract) BindHeldOut(dir string) error {
	c.Dir = dir
	if len(c.HeldOutTests) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	defer root.Close()
	r := newReport("")
	for i := range c.HeldOutTests {
		h := &c.HeldOutTests[i]
		field := fmt.Sprintf("held_out_tests[%d]", i)
		content, err := readFrom(root.Open, h.Source, maxHeldOutBytes)
		if err != nil {
			r.file = filepath.Join(dir, h.Source)
			r.add(place{}, field+".source", reason.ContractUnreadable, "the path is relative to the task file and stays below it",
				"cannot read held-out test: %w", err)
			continue
		}
		digest := canon.Digest(content)
		if h.SHA256 != "" && h.SHA256 != digest {
			r.file = filepath.Join(dir, h.Source)
			r.add(place{}, field+".sha256", reason.ContractValue, "the file has changed since the contract was written",
				"the file is %s, the contract says %s", digest, h.SHA256)
			continue
		}
		h.SHA256 = digest
	}
	return r.err()
}

// maxHeldOutBytes bounds one held-out test file.
const maxHeldOutBytes = 16 << 20

// readRegular reads a file of at most limit bytes.
func readRegular(path string, limit int64) ([]byte, error) {
	// A FIFO would block the open: look before.
	if info, err := os.Stat(path); err != nil {
		return nil, unreadable(path, err)
	} else if !info.Mode().IsRegular() {
		return nil, unreadable(path, errors.New("not a regular file"))
	}
	content, err := readFrom(os.Open, path, limit)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return content, nil
}

func readFrom(open func(string) (*os.File, error), name string, limit int64) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = reason.Errorf(reason.ContractTooLarge, "more than %d bytes", limit)
	}
	return content, err
}

func unreadable(path string, err error) error {
	code := reason.ContractUnreadable
	if inner := reason.CodeOf(err); inner != "" {
		code = inner
	}
	e := reason.Errorf(code, "cannot read: %w", err)
	e.File = path
	return e
}
