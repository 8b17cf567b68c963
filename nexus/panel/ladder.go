package panel

import (
	"fmt"
	"net/http"

	"remit/law/ladder"
	"remit/nexus/api"
)

// ladderPage is how far each engine has come on the machine of the nexus.
type ladderPage struct {
	*ladder.Control
	Stages  []ladder.Stage
	Engines []ladder.EngineStatus // for their failure matrices
	Rows    []ladderRow
}

// ladderRow is an engine with a pair of provider and model.
type ladderRow struct {
	ladder.Lane
	Far   string
	Cells []ladderCell
}

// ladderCell is one stage of it. No cell is empty.
type ladderCell struct {
	ladder.LaneStage
	Class, Mark, Word string
}

// ladderWords say the state of a stage: class of the cell, mark and word.
var ladderWords = map[ladder.State][3]string{ladder.Proven: {"proven", "pass", "Proven"}, ladder.Stale: {"stale", "block", "Stale"},
	ladder.Blocked: {"blocked", "block", "Blocked"}, ladder.NotYet: {"open", "none", "Not proven"}}

// caseMark is the mark of a case of the failure matrix. One that this machine cannot
// bring about, and one that was not tried, say nothing of the engine.
func caseMark(verdict string) string {
	switch verdict {
	case "held":
		return "pass"
	case "broken":
		return "fail"
	}
	return "none"
}

func (p *Panel) ladder(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	status, err := ofMachine[ladder.Status](r, v, api.GetControlSummary, "remit ladder status")
	if err != nil {
		return nil, err
	}
	d := ladderPage{Control: status.Control, Stages: status.Stages, Engines: status.Engines}
	if d.Control == nil {
		d.Control = new(ladder.Control)
	}
	for _, l := range d.Lanes {
		row := ladderRow{Lane: l, Far: "nothing"}
		for _, s := range l.Stages {
			words, known := ladderWords[s.State]
			if !known {
				words = [3]string{"open", "none", string(s.State)}
			}
			row.Cells = append(row.Cells, ladderCell{s, words[0], words[1], words[2]})
			if s.Stage == l.ProvenStage {
				row.Far = fmt.Sprintf("stage %d, %s", s.Stage, s.Name)
			}
		}
		d.Rows = append(d.Rows, row)
	}
	return &page{name: "ladder", Title: "Ladder", Nav: "ladder", Data: d}, nil
}
