package bundle

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
