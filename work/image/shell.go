package image

import "os"

// shellDir holds a file for each image in which a shell was seen to run.
const shellDir = "shell"

// HasShell reports whether KeepShell was told of the image.
func (s *Store) HasShell(digest string) bool {
	info, err := os.Lstat(s.record(shellDir, digest))
	return err == nil && info.Mode().IsRegular()
}

// KeepShell remembers that a shell runs in the image.
func (s *Store) KeepShell(digest string) error {
	f, err := os.OpenFile(s.record(shellDir, digest), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}
