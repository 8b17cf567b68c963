package admission

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/proof/canon"
)

// table returns the cells of a table of docs/policy.md, without marks.
func table(t *testing.T, name string) [][]string { return tableOf(t, "policy.md", name) }

func tableOf(t *testing.T, document, name string) [][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", document))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "<!-- table: "+name+" -->\n")
	if !ok {
		t.Fatalf("docs/%s has no table %q", document, name)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			cells = append(cells, strings.Trim(strings.TrimSpace(cell), "`"))
		}
		rows = append(rows, cells)
	}
	return rows[2:]
}

func TestDocumentedKeysAreTheKeys(t *testing.T) {
	t.Parallel()
	resting := model(t, nil, Admitted)
	resting.ProviderDecisionID = canon.Digest(nil)
	rested, err := NextModel(nil, resting.ModelDecision)
	if err != nil {
		t.Fatal(err)
	}
	for kind, rec := range map[string]string{"source": text(t, source(t, nil, Admitted)), "model": text(t, rested)} {
		var keys map[string]any
		if err := json.Unmarshal([]byte(rec), &keys); err != nil {
			t.Fatal(err)
		}
		var documented []string
		for _, row := range table(t, "admission keys") {
			if row[1] == kind || row[1] == "both" {
				documented = append(documented, row[0])
			}
		}
		slices.Sort(documented)
		if real := slices.Sorted(maps.Keys(keys)); !slices.Equal(documented, real) {
			t.Errorf("%s: documented\n%q\nreal\n%q", kind, documented, real)
		}
	}
}

func TestDocumentedStatesAreTheStates(t *testing.T) {
	t.Parallel()
	other, edited, editedModel := build, source(t, nil, Rejected), model(t, nil, Rejected)
	other.Version, edited.Decision, editedModel.Decision = "0", Admitted, Admitted
	builtin := other
	builtin.Name = "fake"
	sources := []Result{CheckSource(source(t, nil, Admitted), build), CheckSource(nil, build), CheckSource(source(t, nil, Admitted), other),
		CheckSource(edited, build), CheckSource(source(t, nil, Rejected), build), CheckSource(nil, builtin)}
	models := []Result{CheckModel(model(t, nil, Admitted), "openai", "gpt-5.5"), CheckModel(nil, "openai", "gpt-5.5"),
		CheckModel(model(t, nil, Admitted), "openai", "gpt-6"), CheckModel(editedModel, "openai", "gpt-5.5"),
		CheckModel(model(t, nil, Rejected), "openai", "gpt-5.5"), CheckModel(nil, "", "")}
	rows := table(t, "admission states")
	if len(rows) != len(sources) {
		t.Fatalf("%d rows", len(rows))
	}
	for i, row := range rows {
		for k, r := range []Result{sources[i], models[i]} {
			if code := row[2+k]; string(r.Status) != row[0] || string(r.Code) != strings.TrimPrefix(code, "–") {
				t.Errorf("documented %q, real %s %q", row, r.Status, r.Code)
			}
		}
	}
}

// TestDocumentedTargetGates: the gates of the page are the gates of the code, with their fields and codes.
func TestDocumentedTargetGates(t *testing.T) {
	t.Parallel()
	none := TargetDecision{}
	rows := tableOf(t, "records.md", "target gates")[1:] // the first is about no record at all
	gates := none.Gates()
	if len(gates) != len(rows) {
		t.Fatalf("%d rows, %d gates", len(rows), len(gates))
	}
	for i, g := range gates {
		if rows[i][0] != g.Field || rows[i][2] != string(g.Code) {
			t.Errorf("documented %q, real %s %s", rows[i], g.Field, g.Code)
		}
	}
}

func TestDocumentedTriggers(t *testing.T) {
	t.Parallel()
	var documented []string
	for _, row := range tableOf(t, "records.md", "review triggers") {
		documented = append(documented, row[0])
	}
	if !slices.Equal(documented, texts(Triggers())) {
		t.Errorf("documented %q, real %q", documented, Triggers())
	}
}
