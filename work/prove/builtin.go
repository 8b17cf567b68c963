package prove

import (
	"embed"
	"encoding/json"
	"path"

	"remit/law/ladder"
	"remit/proof/canon"
)

// The proofs of the engines that are built in come with the program: `make
// proofs` makes them, one directory for each engine and sandbox driver, and a
// test says when they have to be made again. The sessions that they name are not
// embedded.
//
//go:embed all:builtin
var embedded embed.FS

const builtInDir = "builtin"

// BuiltIn are the proofs of an engine that come with the program, none for one
// that is not built in. They are a part of the program, which a test holds to the
// rules that [ladder.ParseProof] has: it takes longer than a run may be kept waiting.
func BuiltIn(engine string) []ladder.Recorded {
	dirs, err := embedded.ReadDir(path.Join(builtInDir, engine))
	if err != nil {
		return nil // there are none
	}
	var out []ladder.Recorded
	for _, d := range dirs {
		for stage := 1; stage <= len(ladder.Stages()); stage++ {
			name := path.Join(builtInDir, engine, d.Name(), ladder.ProofFile(stage))
			text, err := embedded.ReadFile(name)
			if err != nil {
				continue
			}
			r := ladder.Recorded{Path: name, Stage: stage, SHA256: canon.Digest(text), BuiltIn: true, Proof: new(ladder.Proof)}
			if err := json.Unmarshal(text, r.Proof); err != nil {
				r.Proof, r.Fault = nil, err.Error()
			}
			out = append(out, r)
		}
	}
	return out
}
