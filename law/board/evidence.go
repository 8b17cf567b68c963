package board

import (
	"bytes"
	"encoding/json"
	"io"
	"path"
	"path/filepath"
	"strings"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
)

// shown is what the evidence of an item shows.
type shown struct {
	records map[string]bool // records that a validated item names
	backed  map[string]bool // records that an item with a pass report names
}

// pointers resolves every evidence pointer and holds its digest, and holds the
// claims of items against the reports behind them.
func (b *workboard) pointers(f *folder, out *findings) shown {
	s := shown{records: map[string]bool{}, backed: map[string]bool{}}
	for _, i := range b.items {
		passed := false
		for _, p := range i.Evidence {
			pass, ok := p.resolve(f, i.ID, out)
			passed = passed || ok && pass
			if ok && !pass && p.Claims == "pass" {
				out.add(WorkboardFile, p.line, "evidence.pass", reason.PassWithoutReport, "item %s claims that %s is a pass, and it is no report that says so", i.ID, p.Path)
			}
		}
		for _, p := range i.Evidence {
			s.records[p.Path] = s.records[p.Path] || i.Status == validated
			s.backed[p.Path] = s.backed[p.Path] || passed
		}
		if i.Status == validated && !passed {
			out.add(WorkboardFile, max(i.lines["status"], i.line), "workboard.pass", reason.PassWithoutReport,
				"item %s is validated, and none of its evidence is a report of Remit that says pass", i.ID)
		}
	}
	return s
}

// resolve finds the file of a pointer and compares its digest. pass reports
// whether it is a report that says pass; ok is false after a finding.
func (p *Pointer) resolve(f *folder, item string, out *findings) (pass, ok bool) {
	bad := func(code reason.Code, format string, args ...any) (bool, bool) {
		out.add(WorkboardFile, p.line, "evidence.pointer", code, "item %s: %s "+format, append([]any{item, p.Path}, args...)...)
		return false, false
	}
	switch {
	case p.Path == "" || p.SHA256 == "":
		return false, false // said already
	case path.Clean(p.Path) != p.Path || !filepath.IsLocal(filepath.FromSlash(p.Path)) || strings.Contains(p.Path, `\`):
		return bad(reason.EvidenceMissing, "is no path inside of the folder")
	}
	if _, there := f.sizes[p.Path]; !there {
		return bad(reason.EvidenceMissing, "is no file of the folder")
	}
	file, err := f.open(p.Path)
	if err != nil {
		return bad(reason.EvidenceMissing, "cannot be read")
	}
	defer file.Close()
	var small bytes.Buffer
	digest, size, err := canon.DigestReader(io.TeeReader(io.LimitReader(file, MaxFileBytes+1), &head{to: &small}))
	switch {
	case err != nil || size > MaxFileBytes:
		return bad(reason.EvidenceMissing, "cannot be read")
	case digest != p.SHA256:
		return bad(reason.EvidenceChanged, "has %s, and the pointer names %s", digest, p.SHA256)
	}
	if !strings.HasSuffix(p.Path, ".json") || size > maxReport {
		return false, true
	}
	if name := secretKey(small.Bytes()); name != "" {
		out.add(p.Path, 0, "secret.key", reason.SecretLeak, "has a key %q, which is named like a credential, with a value", name)
	}
	return saysPass(small.Bytes()), true
}

// maxReport bounds a report that is read, and not only hashed.
const maxReport = 8 << 20

// head keeps the first bytes of what is written to it.
type head struct{ to *bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.to.Write(p[:min(len(p), max(0, maxReport-h.to.Len()))])
	return len(p), nil
}

// The reports that can say pass.
const (
	matrixSchema   = "remit.matrix.v1"
	proofSchema    = "remit.ladder.proof.v1"
	auditSchema    = "remit.audit.v1"
	recordsSchema  = Schema
	refreshSchema  = "remit.ladder.refresh.v1"
	healthSchema   = "remit.health.v1"
	evidenceReport = evidence.ReportSchema
)

// saysPass reports whether a text is a report of Remit whose verdict is pass.
func saysPass(text []byte) bool {
	if _, err := canon.Canonicalize(text); err != nil {
		return false // a key that stands there twice, among others
	}
	var fields map[string]json.RawMessage // encoding/json matches keys of a map by their letters
	if json.Unmarshal(text, &fields) != nil {
		return false
	}
	is := func(key, want string) bool { return string(bytes.TrimSpace(fields[key])) == want }
	passed := is("status", `"pass"`)
	switch schema := string(bytes.Trim(fields["schema"], ` "`)); schema {
	case evidenceReport:
		return passed && is("blockers", "[]")
	case matrixSchema:
		return passed && is("complete", "true")
	case proofSchema, recordsSchema, refreshSchema, healthSchema:
		return passed && is("ok", "true")
	case auditSchema:
		return passed
	}
	return false
}

// secretName is the name of a key that holds a credential.
var secretName = form.Lazy(`(?i)(?:^|[_-])(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|bearer|credential)$`)

// secretKey returns the first key of a JSON text that is named like a credential
// and has a text as its value.
func secretKey(text []byte) string {
	dec := json.NewDecoder(bytes.NewReader(text))
	type level struct {
		object bool
		key    string
		value  bool // the next token is the value of key
	}
	var levels []level
	for {
		t, err := dec.Token()
		if err != nil {
			return "" // the end, or a text that is no JSON
		}
		top := &level{}
		if len(levels) > 0 {
			top = &levels[len(levels)-1]
		}
		switch v := t.(type) {
		case json.Delim:
			top.value = false
			switch v {
			case '{', '[':
				if len(levels) > canon.MaxDepth {
					return ""
				}
				levels = append(levels, level{object: v == '{'})
			default:
				levels = levels[:len(levels)-1]
			}
		case string:
			if top.object && !top.value {
				top.key, top.value = v, true
				continue
			}
			if top.value && v != "" && secretName().MatchString(top.key) {
				return top.key
			}
			top.value = false
		default:
			top.value = false
		}
	}
}
