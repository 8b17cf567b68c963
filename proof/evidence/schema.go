package evidence

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"remit/proof/canon"
	"remit/proof/reason"
)

// schemaFiles are the JSON Schemas (2020-12) of everything that a session
// holds as JSON. The same files are published below schemas/.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// document is one JSON file of a session and the schema that it obeys.
type document struct {
	file   string
	schema string
	lines  bool // one object a line, each with the schema
	absent bool // a session need not have it
}

// documents returns the JSON files of a session, but for those below proofs/,
// which obey proofSchema.
func documents() []document {
	return []document{
		{JournalFile, "journal-entry", true, false},
		{ContractFile, "contract", false, false},
		{EligibilityFile, "eligibility", false, false},
		{ContextFile, "context", false, false},
		{ReportFile, "report", false, false},
		{EventsFile, "event", true, false},
		{TraceFile, "trace", true, false},
		{ReceiptFile, "receipt", false, false},
		{ReplayFile, "replay", true, false},
		{TestResultsFile, "test-result", true, true},
	}
}

const proofSchema = "proof"

// ladderProofSchema is of documents that lie beside sessions, not in them.
const ladderProofSchema = "ladder-proof"

// LadderProofDefects says where the canonical text of a proof of the ladder
// breaks its schema.
func LadderProofDefects(text []byte) []string { return violations(ladderProofSchema, text) }

// texts returns the other files that every session has.
func texts() []string { return []string{ReportMDFile, SummaryFile, PatchFile, TestLogFile} }

// schemas makes the rules of the embedded schemas, once. They are part of the
// program: one that cannot be understood is a broken invariant.
var schemas = sync.OnceValue(func() map[string]*rule {
	entries, err := schemaFiles.ReadDir("schemas")
	if err != nil {
		panic(fmt.Sprintf("evidence: listing the embedded schemas: %v", err))
	}
	rules := make(map[string]*rule, len(entries))
	for _, e := range entries {
		raw, err := schemaFiles.ReadFile("schemas/" + e.Name())
		if err != nil {
			panic(fmt.Sprintf("evidence: reading schema %s: %v", e.Name(), err))
		}
		name := schemaName(e.Name())
		if rules[name], err = makeRule(raw); err != nil {
			panic(fmt.Sprintf("evidence: schema %s: %v", e.Name(), err))
		}
	}
	return rules
})

// contractV2 is the schema of contracts that say so; all others obey "contract".
const contractV2 = "contract.v2"

// schemaName is the name of the schema in a file: without the version if that is
// the first one.
func schemaName(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(file, ".json"), ".v1")
}

// versioned is a schema's name with its version.
func versioned(name string) string {
	if name == contractV2 {
		return name
	}
	return name + ".v1"
}

// schemaFile is where a schema is, and schemaURN its $id.
func schemaFile(name string) string { return "schemas/" + versioned(name) + ".json" }
func schemaURN(name string) string {
	return "urn:remit:schema:" + strings.ReplaceAll(versioned(name), ".", ":")
}

// formOf is the schema that a document obeys, which it names itself where there
// is more than one.
func formOf(name string, value any) string {
	if object, ok := value.(map[string]any); ok && name == "contract" && object["schema"] == "remit.contract.v2" {
		return contractV2
	}
	return name
}

const (
	// maxViolations bounds what is reported of one document, maxDetail how much of
	// its text a finding repeats: both are hostile.
	maxViolations = 20
	maxDetail     = 300
)

// violations says where a text breaks its schema, as "at POINTER: why" with a
// JSON pointer (RFC 6901). The text must be canonical: the numbers and the
// depth of anything else are not safe to look at.
func violations(name string, text []byte) []string {
	value, err := decodeAny(text)
	if err != nil {
		return []string{bounded(err.Error())}
	}
	return schemas()[formOf(name, value)].defects(value)
}

func decodeAny(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// checkText checks one canonical text against its schema.
func checkText(name string, text []byte, report func(code reason.Code, detail string)) bool {
	if err := canon.Check(text); err != nil {
		report(reason.NotCanonical, bounded(err.Error()))
		return false
	}
	problems := violations(name, text)
	for _, p := range problems {
		report(reason.SchemaInvalid, p)
	}
	return len(problems) == 0
}

// readAtMost reads a whole file that may not be longer than limit.
func readAtMost(r io.Reader, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = reason.Errorf(reason.SchemaInvalid, "is larger than %d bytes", limit)
	}
	return b, err
}

// bounded makes a message about hostile text safe to print.
func bounded(s string) string {
	if len(s) > maxDetail {
		s = s[:maxDetail] + "…"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "…"))
}

const (
	// batchLines and batchBytes bound what is held of a file at once.
	batchLines = 1024
	batchBytes = 8 << 20
)

// batch is some lines of one JSONL file. Each line is checked by itself, so a
// batch is checked on all processors; its findings keep the order of the file.
type batch struct {
	c     *schemaCheck
	d     document
	lines [][]byte
	bytes int
	read  int // lines of the file so far
	done  bool
}

// add takes a copy of a line.
func (b *batch) add(line []byte) {
	b.lines = append(b.lines, bytes.Clone(line))
	b.bytes += len(line)
	b.read++
}

func (b *batch) full() bool { return len(b.lines) == batchLines || b.bytes >= batchBytes }

// check checks the lines of the batch and empties it. It returns false when
// the rest of the file is not worth reading: the audit was cancelled, or there
// are limit findings in all.
func (b *batch) check(limit int) bool {
	if b.done || b.c.cancelled(b.d.file) {
		b.done = true
		return false
	}
	found := make([][]reason.Finding, len(b.lines))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(b.lines)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(b.lines); i = int(next.Add(1)) - 1 {
				line := b.read - len(b.lines) + i + 1
				checkText(b.d.schema, b.lines[i], func(code reason.Code, detail string) {
					found[i] = append(found[i], reason.Finding{Code: code, Path: b.d.file, Line: line, Detail: detail})
				})
			}
		})
	}
	workers.Wait()
	b.lines, b.bytes = b.lines[:0], 0
	for _, f := range found {
		b.c.found = append(b.c.found, f...)
	}
	if over := len(b.c.found) - limit; over > 0 {
		b.c.found = b.c.found[:limit]
		b.c.add(reason.SchemaInvalid, b.d.file, 0, fmt.Sprintf("has more defects; only the first %d are listed", maxFileFindings))
		b.done = true
	}
	return !b.done
}

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
