package detect

import (
	"path"
	"remit/law/yamldoc"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// ciFiles are where CI systems keep what they run, beside .github/workflows.
var ciFiles = []string{".gitlab-ci.yml", ".circleci/config.yml", ".travis.yml", ".woodpecker.yml", ".drone.yml", "azure-pipelines.yml", "appveyor.yml", ".appveyor.yml"}

const (
	maxWorkflows = 32
	maxCIDepth   = 24
)

// workflows reads the command lines of CI workflows. They count where nothing
// else names a test command; else they are listed.
func (f *finder) workflows() {
	files := f.below(".github/workflows", func(n string) bool { return slices.Contains([]string{".yml", ".yaml"}, path.Ext(n)) })
	for _, name := range ciFiles {
		if f.has[name] {
			files = append(files, name)
		}
	}
	none := len(f.facts.Commands) == 0
	for _, name := range files[:min(len(files), maxWorkflows)] {
		src, ok := f.text(name)
		if !ok {
			continue
		}
		refused := 0
		ciLines(f.yaml(name, src), 0, func(line string) {
			taken, bad := testLine(line)
			switch {
			case bad:
				refused++
			case taken == "":
			case none:
				f.command(name, taken)
			default:
				f.other(name, taken)
			}
		})
		if refused > 0 {
			f.note(name, "%d lines that look like tests are no plain calls inside the tree (they have pipes, lists, substitutions, expressions or paths elsewhere): they were not taken", refused)
		}
	}
}

// ciKeys are the keys under which CI systems have command lines.
var ciKeys = []string{"run", "script", "command", "commands", "test_script"}

// ciLines gives every command line below a node. A step in a directory of its own
// is left out: its line means something else at the top.
func ciLines(n ast.Node, depth int, give func(line string)) {
	if depth > maxCIDepth {
		return
	}
	for _, e := range listOf(n) {
		ciLines(e, depth+1, give)
	}
	elsewhere := child(n, "working-directory") != nil
	for _, e := range entries(n) {
		key, _ := yamldoc.Text(e.Key)
		if !slices.Contains(ciKeys, key) {
			ciLines(e.Value, depth+1, give)
			continue
		}
		if elsewhere {
			continue
		}
		texts := append(listOf(e.Value), e.Value)
		for _, t := range texts {
			if text, ok := yamldoc.Text(t); ok {
				for line := range strings.Lines(text) {
					give(strings.TrimRight(line, "\r\n"))
				}
			}
		}
		ciLines(e.Value, depth+1, give)
	}
}
