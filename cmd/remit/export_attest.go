package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"remit/proof/reason"
	"remit/work/session"
)

// exportAttestation adds the signed statements to the bundle, and writes them to a
// directory. One that has these very files already stays as it is.
func (a *app) exportAttestation(cmd *cobra.Command, f *exportFlags, s session.Session) error {
	envelopes, err := s.Attest()
	if err != nil {
		return err
	}
	dir := f.outOr(s.ID + ".attestations")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the attestations: %w", err)
	}
	var written []string
	for _, name := range slices.Sorted(maps.Keys(envelopes)) {
		path := filepath.Join(dir, name)
		write := func(w io.Writer) error {
			_, err := w.Write(envelopes[name])
			return err
		}
		if err := newFile(path, write); err != nil && (reason.CodeOf(err) != reason.OutputExists || !holds(path, write)) {
			return err
		}
		written = append(written, path)
	}
	if a.json {
		return printJSON(cmd.OutOrStdout(), map[string][]string{"written": written})
	}
	for _, path := range written {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
	}
	return err
}
