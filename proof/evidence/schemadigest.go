package evidence

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"remit/proof/canon"
	"remit/proof/reason"
)

// receiptDigest checks canonical_json_sha256 of RECEIPT.json.
func (c *schemaCheck) receiptDigest() {
	text, ok := c.valid[ReceiptFile]
	if !ok {
		return
	}
	var stated struct {
		Digest string `json:"canonical_json_sha256"`
	}
	digest, err := receiptDigest(text)
	if err == nil {
		err = json.Unmarshal(text, &stated)
	}
	switch {
	case err != nil:
		c.fail(ReceiptFile, err)
	case digest != stated.Digest:
		c.add(reason.ArtifactDigest, ReceiptFile, 1, fmt.Sprintf("canonical_json_sha256 is %s, the receipt has %s", stated.Digest, digest))
	}
}

// reportDigest is the digest of a report with its own digest in
// artifact_digests empty: a file cannot hold the digest of its own bytes.
func reportDigest(text []byte) (string, error) {
	var rep, digests map[string]json.RawMessage
	if err := json.Unmarshal(text, &rep); err != nil {
		return "", err
	}
	if err := json.Unmarshal(rep["artifact_digests"], &digests); err != nil {
		return "", err
	}
	digests[ReportFile] = json.RawMessage(`""`)
	var err error
	if rep["artifact_digests"], err = canon.Marshal(digests); err != nil {
		return "", err
	}
	return canon.DigestOf(rep)
}

// report checks what report.json says of the artifacts.
func (c *schemaCheck) report() {
	text, ok := c.valid[ReportFile]
	if !ok {
		return
	}
	rep, err := ReadReport(text)
	if err != nil {
		c.fail(ReportFile, err)
		return
	}
	c.listed(rep)
	digest, err := reportDigest(text)
	switch {
	case err != nil:
		c.fail(ReportFile, err)
	case digest != rep.ArtifactDigests[ReportFile]:
		c.add(reason.ArtifactDigest, ReportFile, 1, fmt.Sprintf("states %s of itself and has %s", rep.ArtifactDigests[ReportFile], digest))
	}
	for _, name := range slices.Sorted(maps.Keys(rep.ArtifactDigests)) {
		if name == ReportFile || c.cancelled(name) {
			continue
		}
		digest, _, err := hashFile(c.files, name)
		switch {
		case err != nil:
			c.fail(name, err)
		case digest != rep.ArtifactDigests[name]:
			c.add(reason.ArtifactDigest, name, 0, fmt.Sprintf("has %s, %s says %s", digest, ReportFile, rep.ArtifactDigests[name]))
		}
	}
}

// listed checks that the three lists of a report name the same artifacts, that
// each document is among them, and that none is older than the run.
func (c *schemaCheck) listed(rep *Report) {
	paths := slices.Sorted(slices.Values(rep.ArtifactPaths))
	if !slices.Equal(paths, slices.Sorted(maps.Keys(rep.ArtifactDigests))) {
		c.add(reason.SchemaInvalid, ReportFile, 1, `at "/artifact_digests": does not name the same files as artifact_paths`)
	}
	if !slices.Equal(paths, slices.Sorted(maps.Keys(rep.Freshness))) {
		c.add(reason.SchemaInvalid, ReportFile, 1, `at "/freshness": does not name the same files as artifact_paths`)
	}
	for _, d := range documents() {
		if _, found := slices.BinarySearch(paths, d.file); !found && !d.absent && d.file != JournalFile {
			c.add(reason.SchemaInvalid, ReportFile, 1, fmt.Sprintf(`at "/artifact_paths": %s is not listed`, d.file))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rep.Freshness)) {
		s := rep.Freshness[name]
		// The form is fixed, so text order is the order of time.
		if s.WrittenAt < rep.RunStartedAt || s.CheckedAt < s.WrittenAt {
			c.add(reason.ArtifactStale, name, 0, fmt.Sprintf("was written at %s and checked at %s; the run began at %s", s.WrittenAt, s.CheckedAt, rep.RunStartedAt))
		}
	}
	if rep.RunFinishedAt == "" && rep.NotApplicable["run_finished_at"] == "" {
		c.add(reason.SchemaInvalid, ReportFile, 1, `at "/run_finished_at": is empty and not_applicable does not say why`)
	}
}
