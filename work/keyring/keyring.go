package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remit/proof/attest"
	"remit/proof/reason"
)

// File names in the directory.
const (
	PrivateFile = "id_ed25519"
	PublicFile  = "id_ed25519.pub"
	SignersFile = "allowed_signers"
	RevokedFile = "revoked_keys"
)

// maxKeyFile bounds what is read as a key, in bytes.
const maxKeyFile = 16 << 10

// comment stands behind the key in its files. It names no user and no machine:
// a public key travels.
const comment = "remit"

// Ring is the directory.
type Ring struct{ Dir string }

// PrivatePath is where the private key lies.
func (r Ring) PrivatePath() string { return filepath.Join(r.Dir, PrivateFile) }

// Key is the signing key; it is made if there is none. Two processes that make
// it at once get the same one.
func (r Ring) Key() (*attest.PrivateKey, error) {
	key, err := r.Load()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if _, err := r.New(); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return r.Load()
}

// Load reads the signing key. The error wraps [fs.ErrNotExist] when there is
// none.
func (r Ring) Load() (*attest.PrivateKey, error) {
	if _, err := os.Lstat(r.PrivatePath()); errors.Is(err, fs.ErrNotExist) {
		return nil, r.fault(err)
	}
	if err := r.checkDir(); err != nil {
		return nil, err
	}
	text, err := readOwn(r.PrivatePath(), 0o077, maxKeyFile)
	if err != nil {
		return nil, r.fault(err)
	}
	key, err := attest.ParsePrivateKey(text)
	if err != nil {
		return nil, r.fault(err)
	}
	return key, nil
}

// New makes a signing key. The error wraps [fs.ErrExist] when there is one.
func (r Ring) New() (*attest.PrivateKey, error) {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, r.fault(err)
	}
	if err := r.checkDir(); err != nil {
		return nil, err
	}
	key, err := attest.NewPrivateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := key.MarshalOpenSSH(comment, rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := r.place(PrivateFile, private, 0o600); err != nil {
		return nil, err
	}
	public := []byte(key.Public().String() + " " + comment + "\n")
	if err := r.place(PublicFile, public, 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return key, nil
}

// Replace makes a new signing key and keeps the files of the old one beside it,
// under names with the time. What the old key signed stays signed.
func (r Ring) Replace(now time.Time) (*attest.PrivateKey, error) {
	suffix := "." + now.UTC().Format("20060102T150405.000Z")
	for _, name := range []string{PrivateFile, PublicFile} {
		path := filepath.Join(r.Dir, name)
		if err := os.Rename(path, path+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, r.fault(err)
		}
	}
	return r.New()
}

// place writes a file whole or not at all, and never over another one.
func (r Ring) place(name string, content []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(r.Dir, ".new-*") // mode 0600
	if err != nil {
		return r.fault(err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // only its other name stays
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), filepath.Join(r.Dir, name))
	}
	if err != nil {
		return r.fault(err)
	}
	return nil
}

// checkDir refuses a directory in which others could exchange the key, or that
// they could exchange as a whole.
func (r Ring) checkDir() error {
	info, err := os.Stat(r.Dir)
	if err == nil {
		err = owned(info, 0o077)
	}
	if err == nil {
		err = r.checkHome()
	}
	if err != nil {
		return r.fault(err)
	}
	return nil
}

// checkHome refuses a home directory in which another user could put a directory
// of keys of their own in the place of this one.
func (r Ring) checkHome() error {
	home, err := filepath.Abs(filepath.Dir(r.Dir))
	if err != nil {
		return err
	}
	info, err := os.Stat(home)
	if err != nil {
		return err
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
		return fmt.Errorf("%s has mode %04o: others can exchange the directory of keys (chmod go-w %s)", home, mode.Perm(), home)
	}
	return nil
}

// fault is the error of a key that cannot be used.
func (r Ring) fault(err error) error {
	e := reason.Errorf(reason.HomeUnusable, "the signing key cannot be used: %w", err)
	e.File = r.Dir
	return e.WithHint("it must be yours, with mode 0600, in a directory of mode 0700 below a home that only you can write to; `remit keys new` makes one")
}

// readOwn reads a file of the user that no other user has the denied rights to.
func readOwn(path string, denied fs.FileMode, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe does not hold us up
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if err := owned(info, denied); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return text, err
}

// owned refuses what belongs to another user, or gives others a denied right.
func owned(info fs.FileInfo, denied fs.FileMode) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", info.Name())
	}
	if mode := info.Mode().Perm(); mode&denied != 0 {
		return fmt.Errorf("%s has mode %04o, which gives rights to others", info.Name(), mode)
	}
	return nil
}
