package bundle

// Profile says which rules a bundle is held to.
type Profile string

const (
	// ProfileBundle is a Verified Patch Bundle of Remit: all gates, ASCII
	// names, and a zip that is byte for byte what [WriteZip] writes.
	ProfileBundle Profile = "bundle"

	// ProfilePortable is any self-validating zip: gates 1–4, 9 and 10.
	// Deflate, timestamps, data descriptors, directory entries, the usual
	// extra fields and names with spaces or UTF-8 are allowed.
	ProfilePortable Profile = "portable"
)

// The files whose presence makes content a [ProfileBundle]; detection needs both.
const (
	receiptName = "RECEIPT.json"
	journalName = "journal.jsonl"
)

// ManifestName is the file that lists and hashes all the others.
const ManifestName = "manifest.txt"

// detect derives the profile from the names of the files.
func detect(files []*member) Profile {
	var receipt, journal bool
	for _, f := range files {
		receipt = receipt || f.name == receiptName
		journal = journal || f.name == journalName
	}
	if receipt && journal {
		return ProfileBundle
	}
	return ProfilePortable
}
