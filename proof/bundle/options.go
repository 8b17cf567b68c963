package bundle

import (
	"context"
	"io"
	"io/fs"

	"remit/proof/attest"
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
	// of gate 10. Without commands a gate is made with those that a portable
	// bundle names itself, if Named allows that; else it is skipped, and the
	// report says that it was not made.
	Checks []string
	Run    []string

	// Named has the commands run that the bundle names ([CommandsName],
	// [PytestName]). They are as hostile as the bundle: it is for a Runner that
	// confines what it runs.
	Named bool

	// Strict blocks on a gate of commands that was not made.
	Strict bool

	// Runner runs the commands. Without one, a gate with commands is blocked.
	Runner Runner

	// Extract, when set, is the directory that receives the deliverable:
	// exactly the listed files and the manifest, nothing that a command left
	// behind. It must be empty or not exist, and is written only when the
	// audit passes.
	Extract string

	// RunStatus, when set, reads from the files how the run ended that the bundle
	// records. It is asked in ProfileBundle, when every gate has passed.
	RunStatus func(files fs.FS) string

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
//
// State, when set, is asked in the place of Check by a gate that has more to say:
// that it was skipped since what it looks for is not there, and why it was
// skipped or passed. With findings neither counts. by are the keys whose signatures it
// has verified, trusted or not, in any case. When files is the content of
// a zip or of a sealed directory, it has the method ZipSHA256, see [fileSet].
type Gate struct {
	Name  string
	Check func(ctx context.Context, files fs.FS) []reason.Finding
	State func(ctx context.Context, files fs.FS) (found []reason.Finding, skipped bool, why string, by []attest.Vouched)
}

// Runner runs one command of gates 9 and 10 with dir as its working
// directory. An error means that the command could not be run or watched to
// its end, which blocks the gate; a command that ran and failed has an exit
// code other than 0 and no error.
type Runner interface {
	Run(ctx context.Context, dir, command string, stdout, stderr io.Writer) (exitCode int, err error)
}

// Limits of what is written and read. A bundle is hostile until audited, and
// a limit that the writer does not share would let it seal what no auditor can
// open, so both sides use the same constants.
const (
	// MaxEntries bounds the files (and directory entries) of a bundle. It
	// keeps the directory in memory small and stays clear of 65,535, the
	// value that means zip64.
	MaxEntries = 50_000

	// MaxEntryBytes is the largest file: one less than 0xFFFFFFFF, the value
	// that means zip64.
	MaxEntryBytes = 1<<32 - 2

	// MaxTotalBytes bounds all files together after decompression, a few
	// seconds of hashing.
	MaxTotalBytes = 8 << 30

	// MaxRatio bounds size ÷ compressed size of an entry of at least
	// RatioFloor bytes. Logs reach 50, source code 10; Deflate ends at 1,032,
	// where bombs live.
	MaxRatio = 200

	// RatioFloor exempts small entries from MaxRatio: a megabyte does
	// no harm, and a small file of one repeated byte is common.
	RatioFloor = 1 << 20

	// MaxDirectoryBytes bounds the central directory, which is held in memory.
	MaxDirectoryBytes = 16 << 20

	// MaxManifestBytes bounds manifest.txt, which is held in memory.
	MaxManifestBytes = 16 << 20

	// MaxNameBytes bounds a name in ProfileBundle. With an extraction
	// directory before it, it stays below the 260 of older Windows.
	MaxNameBytes = 200

	// MaxPortableNameBytes bounds a name in ProfilePortable.
	MaxPortableNameBytes = 1000

	// MaxSegmentBytes bounds one segment of a name: the NAME_MAX of common
	// file systems.
	MaxSegmentBytes = 255

	// MaxDepth bounds the segments of a name: every one but the last is a
	// directory to be made.
	MaxDepth = 32

	// MaxFindings bounds the findings listed for one gate. What is beyond is
	// counted.
	MaxFindings = 1000

	// MaxOutputBytes bounds the output of a command that is kept in a report,
	// for each stream: the first and the last half of it. Raw logs have all.
	MaxOutputBytes = 1 << 20
)

// zip64Value16 and zip64Value32 mean that the real value is in a zip64 record.
const (
	zip64Value16 = 1<<16 - 1
	zip64Value32 = 1<<32 - 1
)

// limits are the bounds of one reading; tests lower them.
type limits struct {
	entries    int
	entryBytes int64
	totalBytes int64
	ratio      int64
	ratioFloor int64
}

var defaultLimits = limits{
	entries:    MaxEntries,
	entryBytes: MaxEntryBytes,
	totalBytes: MaxTotalBytes,
	ratio:      MaxRatio,
	ratioFloor: RatioFloor,
}
