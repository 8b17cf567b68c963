package task

import (
	"fmt"
	"slices"
	"strings"

	"remit/proof/canon"
	"remit/proof/reason"
)

// MaxInstructionsFrom bounds the file of the base commit that is given to the agent.
const MaxInstructionsFrom = 64 << 10

// InstructionsFrom is a file of the base commit, such as AGENTS.md, whose text an
// engine is given beside the instructions.
type InstructionsFrom struct {
	Path   string `json:"path"`   // relative to the tree
	SHA256 string `json:"sha256"` // of its content; "" until [Contract.BindInstructions]
}

// BindInstructions is the contract with the digest of the file's content. One that
// has a digest already keeps to it.
func (c *Contract) BindInstructions(content []byte) (*Contract, error) {
	from := *c.InstructionsFrom
	if _, err := from.quoted(content); err != nil {
		return nil, err
	}
	digest := canon.Digest(content)
	if from.SHA256 != "" && from.SHA256 != digest {
		r := newReport(from.Path)
		r.add(place{}, "instructions_from", reason.ContractValue, "the base commit is another one than the contract was written for", "the file is %s, the contract says %s", digest, from.SHA256)
		return nil, r.err()
	}
	from.SHA256 = digest
	out := c.clone()
	out.InstructionsFrom = &from
	return out, nil
}

// Assignment is what an engine is told: the instructions and, where the contract names
// a file, its content. Each line of that is quoted, so that a repository's words
// cannot pass for the task's.
func (c *Contract) Assignment(content []byte) (string, error) {
	if c.InstructionsFrom == nil {
		return c.Instructions, nil
	}
	text, err := c.InstructionsFrom.quoted(content)
	if err != nil {
		return "", err
	}
	if canon.Digest(content) != c.InstructionsFrom.SHA256 {
		return "", reason.Errorf(reason.ContractValue, "%s is not the file that the contract names", c.InstructionsFrom.Path)
	}
	return strings.TrimRight(c.Instructions, "\n") + "\n\n" +
		fmt.Sprintf("What this repository tells agents, from %s of the base commit (%s), quoted:\n\n", c.InstructionsFrom.Path, c.InstructionsFrom.SHA256) + text, nil
}

func (i InstructionsFrom) quoted(content []byte) (string, error) {
	r := newReport(i.Path + " of the base commit")
	text := strings.TrimRight(strings.ReplaceAll(strings.TrimPrefix(string(content), "\ufeff"), "\r\n", "\n"), "\n")
	switch {
	case len(content) > MaxInstructionsFrom:
		r.add(place{}, "instructions_from", reason.ContractTooLarge, "name a shorter file in "+PolicyFile, "%d bytes, at most %d", len(content), MaxInstructionsFrom)
	case strings.TrimSpace(text) == "":
		r.add(place{}, "instructions_from", reason.ContractMissingKey, "write the file, or take instructions_from out of "+PolicyFile, "it says nothing")
	default:
		checkText(r, "instructions_from", text, true)
	}
	return quote(text), r.err()
}

// checkInstructionsFrom holds the name of the file to the form of a path.
func checkInstructionsFrom(r *report, i *InstructionsFrom) {
	if i == nil {
		return
	}
	const field = "instructions_from"
	code, why := badName(i.Path)
	switch {
	case code != "" || strings.Contains(i.Path, `\`):
		r.field(field, reason.ContractValue, "a relative, slash-separated file name, as in AGENTS.md", "%q: %s", i.Path, why)
	case slices.Contains(strings.Split(fold(i.Path), "/"), ".git"):
		r.field(field, reason.ContractValue, "a file of the tree, as in AGENTS.md", "%q is git's own data", i.Path)
	}
	checkText(r, field, i.Path, false)
	if i.SHA256 != "" && !canon.ValidDigest(i.SHA256) {
		r.field(field, reason.ContractValue, "sha256: and 64 lower-case hex digits", "%q is not a digest", i.SHA256)
	}
}
