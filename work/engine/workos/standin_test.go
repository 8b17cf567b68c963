package workos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stand is a program that does to an engine what Case does: the same command
// line, files, events, exit codes and defects, around agents that are as simple
// as can be. The real program is not published, so most tests drive this one.
type stand struct {
	repo, task string
	events     *os.File
	sequence   int
	config     struct {
		Projects string
		Models   map[string]struct{ Provider, Model string }
	}
	providers map[string]struct {
		BaseURL string
		Models  []struct{ ID string }
	}
}

// standIn is `ca ARGS`. What agents call it for changes nothing here.
func standIn(args []string) int {
	if len(args) == 0 || args[0] != "run" {
		return 0
	}
	s := &stand{}
	if err := s.open(args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ca:", err)
		return 1
	}
	fmt.Println("Running the pipeline") // for people
	if err := s.pipeline(); err != nil {
		fmt.Fprintln(os.Stderr, "ca:", err)
		return 1
	}
	return 0
}

func (s *stand) open(args []string) error {
	if len(args) != 4 || args[0] != "--task" || args[2] != "--mode" || args[3] != "unattended" || !filepath.IsAbs(args[1]) {
		return fmt.Errorf("arguments %q", args)
	}
	var task struct{ ID, Status, Created, Repo, Profile string }
	if err := readJSON(args[1], &task); err != nil {
		return err
	}
	if _, err := time.Parse(time.RFC3339, task.Created); err != nil {
		return err
	}
	s.task = strings.TrimSuffix(args[1], ".task.json")
	s.repo = filepath.Join(filepath.Dir(args[1]), "../../..")
	data := os.Getenv("CASE_DATA_DIR")
	if err := readJSON(filepath.Join(data, "config.json"), &s.config); err != nil {
		return err
	}
	var projects struct{ Repos []struct{ Name, Path string } }
	if err := readJSON(filepath.Join(data, s.config.Projects), &projects); err != nil {
		return err
	}
	if r := projects.Repos[0]; r.Name != task.Repo || r.Path != s.repo || task.Status != "active" || task.Profile != "standard" {
		return fmt.Errorf("task %+v of project %+v in %s", task, r, s.repo)
	}
	var models struct{ Providers json.RawMessage }
	if err := readJSON(filepath.Join(os.Getenv("PI_CODING_AGENT_DIR"), "models.json"), &models); err != nil {
		return err
	}
	if err := json.Unmarshal(models.Providers, &s.providers); err != nil {
		return err
	}
	dir := filepath.Join(s.repo, ".case", task.ID, "events")
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		s.events, err = os.Create(filepath.Join(dir, "run-7b0c.jsonl"))
	}
	return err
}

func readJSON(name string, v any) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// log appends one event.
func (s *stand) log(kind string, more map[string]any) {
	s.sequence++
	more["event"], more["ts"], more["sequence"], more["runId"] = kind, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), s.sequence, "7b0c"
	b, err := json.Marshal(more)
	if err == nil {
		_, err = s.events.Write(append(b, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// pipeline is the standard profile. Its end is no error, however it ends.
func (s *stand) pipeline() error {
	var plan []any
	for _, p := range []string{"implement", "verify", "review", "close", "retrospective"} {
		plan = append(plan, map[string]any{"phase": p})
	}
	s.log("pipeline_start", map[string]any{"taskId": filepath.Base(s.task), "profile": "standard", "plan": map[string]any{"phases": plan, "revisionBudget": 2}})
	for cycle := 0; ; cycle++ {
		var failed []any
		for _, p := range [][2]string{{"implement", "implementer"}, {"verify", "verifier"}, {"review", "reviewer"}} {
			r, err := s.phase(p[0], p[1])
			if err == nil && r["status"] != "completed" && p[0] == "implement" {
				r, err = s.phase(p[0], p[1]) // one retry
			}
			if err != nil {
				return err
			}
			if r["status"] != "completed" {
				return s.fail(p[0], p[1])
			}
			failed = append(failed, fails(r)...)
		}
		if len(failed) == 0 {
			break
		}
		if cycle == 2 {
			s.log("revision_budget_exhausted", map[string]any{"cycles": cycle})
			break // and closes
		}
		s.log("revision_requested", map[string]any{"source": "reviewer", "cycle": cycle + 1, "failedCategories": failed})
	}
	if _, err := s.phase("close", "closer"); err != nil {
		return err
	}
	if _, err := s.phase("retrospective", "retrospective"); err != nil {
		return err
	}
	s.log("pipeline_end", map[string]any{"outcome": "completed", "durationMs": 1})
	return nil
}

func fails(r map[string]any) []any {
	rubric, _ := r["rubric"].(map[string]any)
	all, _ := rubric["categories"].([]any)
	return slices.DeleteFunc(slices.Clone(all), func(c any) bool { return c.(map[string]any)["verdict"] != "fail" })
}

// fail skips what is left, has the retrospective look at it, and ends with 0.
func (s *stand) fail(phase, role string) error {
	for _, p := range [][2]string{{"implement", "implementer"}, {"verify", "verifier"}, {"review", "reviewer"}, {"close", "closer"}} {
		s.log("phase_end", map[string]any{"phase": p[0], "agent": p[1], "outcome": "skipped", "durationMs": 0})
	}
	if _, err := s.phase("retrospective", "retrospective"); err != nil {
		return err
	}
	s.log("pipeline_end", map[string]any{"outcome": "failed", "failedAgent": role, "durationMs": 1})
	return nil
}

// phase runs one agent. Only a model that is not known is an error.
func (s *stand) phase(phase, role string) (map[string]any, error) {
	s.log("phase_start", map[string]any{"phase": phase, "agent": role})
	chosen, own := s.config.Models[role]
	if !own {
		chosen = s.config.Models["default"]
	}
	provider := s.providers[chosen.Provider]
	if !slices.ContainsFunc(provider.Models, func(m struct{ ID string }) bool { return m.ID == chosen.Model }) {
		return nil, fmt.Errorf("Model not found: %s/%s", chosen.Provider, chosen.Model)
	}
	a := &standAgent{stand: s, phase: phase, role: role, url: provider.BaseURL + "/chat/completions", model: chosen.Model}
	r := readEnvelope(a.work())
	outcome := "failed"
	if r["status"] == "completed" {
		outcome = "completed"
	}
	s.log("phase_end", map[string]any{"phase": phase, "agent": role, "outcome": outcome, "durationMs": 7, "result": r})
	return r, nil
}

// readEnvelope takes the last AGENT_RESULT, or says what is wrong with it.
func readEnvelope(text string) map[string]any {
	wrong := func(why string) map[string]any {
		return map[string]any{"status": "failed", "summary": "", "artifacts": map[string]any{}, "error": "AGENT_RESULT " + why}
	}
	at := strings.LastIndex(text, "<<<AGENT_RESULT")
	if at < 0 {
		return wrong("start delimiter not found")
	}
	inner, _, found := strings.Cut(text[at+len("<<<AGENT_RESULT"):], "AGENT_RESULT>>>")
	if !found {
		return wrong("end delimiter not found")
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(inner), &r); err != nil {
		return wrong("JSON parse error: " + err.Error())
	}
	if r["status"] == nil {
		return wrong("missing required field: status")
	}
	return r
}

var errCalls = errors.New("the call of the model failed")
