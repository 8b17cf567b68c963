package bundle

import (
	"context"
	"io"
	"io/fs"

	"remit/proof/reason"
)

// The gates of an audit, in their order.
const (
	GateIntegrity   = "zip.integrity"
	GatePortability = "zip.portability"
	GateManifest    = "manifest.format"
	GateHashes      = "manifest.hashes"
	GateSchema      = "schema"
	GateJournal     = "journal.chain"
	GateProjections = "projections"
	GateSignatures  = "signatures"
	GateImports     = "imports"
	GateTests       = "tests"
)

// contentGates are the gates that [Options.Gates] supplies.
var contentGates = []string{GateSchema, GateJournal, GateProjections, GateSignatures}

// allGates are the names that no further gate may have.
var allGates = append([]string{GateIntegrity, GatePortability, GateManifest, GateHashes, GateImports, GateTests}, contentGates...)

// Options of an audit. The zero value checks what can be checked without help.
type Options struct {
	// Profile overrides the detected profile. A downgrade to ProfilePortable
	// leaves out gates 5–8, and the report shows it.
	Profile Profile

	// Gates are the checks of gates 5–8 (GateSchema … GateSignatures), which
	// know what the files mean. ProfileBundle blocks on each that is missing;
	// ProfilePortable has none of them.
	Gates []Gate

	// Further are gates of the caller's own for ProfileBundle, under names of
	// their own. They run behind gates 5–8, in their order, and count alike.
	Further []Gate

	// Checks are the import sanity commands of gate 9, Run the test commands
	// of gate 10. Without commands a gate is skipped.
	Checks []string
	Run    []string

	// Runner runs the commands. Without one, a gate with commands is blocked.
	Runner Runner

	// Extract, when set, is the directory that receives the deliverable:
	// exactly the listed files and the manifest, nothing that a command left
	// behind. It must be empty or not exist, and is written only when the
	// audit passes.
	Extract string

	// LogDir, when set, receives the complete stdout and stderr of every
	// command as raw files.
	LogDir string

	// TempDir holds the workspaces of gates 9 and 10 while they run;
	// "" means os.TempDir.
	TempDir string
}

// Gate checks the meaning of the files. Check sees exactly the audited
// regular files; reading one to its end fails if it is not what the manifest
// gate hashed. No finding means passed.
type Gate struct {
	Name  string
	Check func(ctx context.Context, files fs.FS) []reason.Finding
}

// Runner runs one command of gates 9 and 10 with dir as its working
// directory. An error means that the command could not be run or watched to
// its end, which blocks the gate; a command that ran and failed has an exit
// code other than 0 and no error.
type Runner interface {
	Run(ctx context.Context, dir, command string, stdout, stderr io.Writer) (exitCode int, err error)
}
