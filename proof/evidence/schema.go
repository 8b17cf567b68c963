package evidence

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

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
