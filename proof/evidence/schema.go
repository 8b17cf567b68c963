package evidence

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

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

// texts returns the other files that every session has.
func texts() []string { return []string{ReportMDFile, SummaryFile, PatchFile, TestLogFile} }

// offline refuses to load anything: the embedded schemas are all there is.
type offline struct{}

func (offline) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is not one of the embedded schemas", url)
}

// schemas compiles the embedded schemas, once. They are part of the program:
// one that does not compile is a broken invariant.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(offline{})
	entries, err := schemaFiles.ReadDir("schemas")
	if err != nil {
		panic(fmt.Sprintf("evidence: listing the embedded schemas: %v", err))
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		raw, err := schemaFiles.ReadFile("schemas/" + e.Name())
		if err != nil {
			panic(fmt.Sprintf("evidence: reading schema %s: %v", e.Name(), err))
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			panic(fmt.Sprintf("evidence: parsing schema %s: %v", e.Name(), err))
		}
		name := strings.TrimSuffix(e.Name(), ".v1.json")
		if err := compiler.AddResource(schemaURN(name), doc); err != nil {
			panic(fmt.Sprintf("evidence: adding schema %s: %v", e.Name(), err))
		}
		names = append(names, name)
	}
	compiled := make(map[string]*jsonschema.Schema, len(names))
	for _, name := range names {
		compiled[name] = compiler.MustCompile(schemaURN(name))
	}
	return compiled
})

// schemaURN is the $id of a schema.
func schemaURN(name string) string { return "urn:remit:schema:" + name + ":v1" }

const (
	// maxViolations bounds what is told of one document, maxDetail how much of
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
	err = schemas()[name].Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []string{bounded(err.Error())}
	}
	var out []string
	leaves(invalid, func(leaf *jsonschema.ValidationError) bool {
		unit := leaf.BasicOutput()
		out = append(out, bounded(fmt.Sprintf("at %q: %s", unit.InstanceLocation, unit.Error)))
		return len(out) < maxViolations
	})
	return out
}

// leaves visits the errors that have no further cause; those above them only
// say which part of the schema led there.
func leaves(e *jsonschema.ValidationError, visit func(*jsonschema.ValidationError) bool) bool {
	if len(e.Causes) == 0 {
		return visit(e)
	}
	for _, cause := range e.Causes {
		if !leaves(cause, visit) {
			return false
		}
	}
	return true
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
