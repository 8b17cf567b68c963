package workos

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"remit/work/engine"
	"remit/work/engine/agent"
)

// launcher runs in the sandbox; launch.sh says what it does.
//
//go:embed launch.sh
var launcher string

// home is the directory below $HOME that launch.sh finds the settings in.
const home = "case"

// What launch.sh puts in place of these: only the sandbox knows where the
// workspace is and what time it is, and a command line that is the same for the
// same task has one digest.
const (
	workspaceMark = "@workspace@"
	createdMark   = "@created@"
)

// project is how the task calls the repository.
const project = "workspace"

type object = map[string]any

// settings are the files of Case's two configuration directories, and the task:
// a pair of files, of which only the path of the second enters a prompt.
func settings(t engine.Task, m engine.Model) ([]agent.Setting, error) {
	extended := t
	extended.Instructions = strings.TrimSpace(t.Instructions) + criteria(t.Verify)
	text, err := agent.Prompt(extended)
	if err != nil {
		return nil, err
	}
	model := object{"provider": "openai", "model": m.Name}
	none := object{"provider": "none", "model": "none"} // who opens a pull request
	language, manager := languageOf(t)
	return []agent.Setting{
		{Name: "config.json", Text: encode(object{"version": 1, "projects": "./projects.json",
			"models": object{"default": model, "closer": none}})},
		{Name: "projects.json", Text: encode(object{"repos": []any{object{
			"name": project, "type": "library", "path": workspaceMark, "remote": "none", "description": t.Title,
			"language": language, "packageManager": manager, "commands": object{"setup": "true", "test": testCommand(t.Verify)},
		}}})},
		{Name: "models.json", Text: encode(object{"providers": object{"openai": object{
			"baseUrl": m.URL + "/v1", "api": "openai-completions", "apiKey": tokenVariable,
			"models": []any{object{"id": m.Name, "contextWindow": 128000, "maxTokens": 8192}},
		}}})},
		{Name: "task.json", Text: encode(object{
			"id": taskID, "status": "active", "created": createdMark, "repo": project, "issueType": "freeform", "issue": t.Title,
			"branch": "case/" + taskID, "mode": "unattended", "profile": "standard", "agents": object{}, "tested": false, "manualTested": false,
			"prUrl": nil, "prNumber": nil, "checkCommand": nil, "checkBaseline": nil, "checkTarget": nil,
		})},
		{Name: "task.md", Text: text},
	}, nil
}

// criteria are what the agents hold their work against.
func criteria(verify []string) string {
	var b strings.Builder
	b.WriteString("\n\n## Acceptance criteria\n\n- The task above is done, and nothing else was changed.\n")
	for _, command := range verify {
		fmt.Fprintf(&b, "- This command ends with exit code 0: %s\n", command)
	}
	return b.String()
}

// testCommand is one command that does what all do. Each gets a line of its own
// to end on, since it may end in a comment.
func testCommand(verify []string) string {
	switch len(verify) {
	case 0:
		return "true"
	case 1:
		return verify[0]
	}
	parts := make([]string, len(verify))
	for i, command := range verify {
		parts[i] = "( " + command + "\n)"
	}
	return strings.Join(parts, " && ")
}

// languages are those that Case has words for, by the file that shows each. The
// last is for everything else: there is no word for that.
var languages = []struct{ file, language, manager string }{
	{"go.mod", "go", "go"},
	{"pnpm-lock.yaml", "typescript", "pnpm"},
	{"yarn.lock", "typescript", "yarn"},
	{"package.json", "typescript", "npm"},
	{"Gemfile", "ruby", "bundler"},
	{"composer.json", "php", "composer"},
	{"mix.exs", "elixir", "mix"},
	{"build.gradle", "kotlin", "gradle"},
	{"build.gradle.kts", "kotlin", "gradle"},
	{"", "python", "pip"},
}

func languageOf(t engine.Task) (language, manager string) {
	for _, l := range languages {
		if l.file == "" || t.InBaseline(l.file) {
			return l.language, l.manager
		}
	}
	panic("the last language is for everything")
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // literals and text
	}
	return string(b)
}
