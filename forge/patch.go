package forge

import (
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"time"

	"remit/proof/evidence"
)

// author stands in the From line: the machine, not a person.
const author = "Remit <remit@localhost>"

// Patch writes the change of the session in dir as a mail that git am takes.
func Patch(w io.Writer, dir string) error {
	c, err := open(dir)
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, c.receipt.CompletedAt)
	if err != nil {
		return fmt.Errorf("reading the receipt: %w", err)
	}
	patch, err := os.Open(filepath.Join(dir, evidence.PatchFile))
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	defer patch.Close()
	// The first line is the mark by which git knows a mail patch; its date is
	// the constant that git format-patch writes.
	_, err = fmt.Fprintf(w, "From %s Mon Sep 17 00:00:00 2001\nFrom: %s\nDate: %s\nSubject: [PATCH] %s\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n%s---\n\n",
		c.receipt.BaselineCommit, author, at.UTC().Format(time.RFC1123Z), mime.QEncoding.Encode("UTF-8", c.subject()), c.body())
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, patch); err != nil {
		return fmt.Errorf("copying the patch: %w", err)
	}
	_, err = io.WriteString(w, "-- \nremit\n")
	return err
}
