package api_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"remit/nexus/api"
)

var update = flag.Bool("update", false, "write operations.gen.go anew")

type (
	contract struct {
		Paths      map[string]map[string]operation `yaml:"paths"`
		Components struct {
			Parameters map[string]parameter `yaml:"parameters"`
		} `yaml:"components"`
	}
	operation struct {
		ID         string      `yaml:"operationId"`
		Summary    string      `yaml:"summary"`
		Scope      string      `yaml:"x-scope"`
		Parameters []parameter `yaml:"parameters"`
		Body       *struct {
			Required bool    `yaml:"required"`
			Content  content `yaml:"content"`
		} `yaml:"requestBody"`
		Responses map[string]struct {
			Content content `yaml:"content"`
		} `yaml:"responses"`
	}
	parameter struct {
		Ref      string `yaml:"$ref"`
		Name     string `yaml:"name"`
		In       string `yaml:"in"`
		Required bool   `yaml:"required"`
		Schema   schema `yaml:"schema"`
	}
	content map[string]struct {
		Schema schema `yaml:"schema"`
	}
	schema struct {
		Ref    string `yaml:"$ref"`
		Type   string `yaml:"type"`
		Format string `yaml:"format"`
	}
)

func readContract(t *testing.T) (doc contract) {
	t.Helper()
	if err := yaml.Unmarshal(api.Spec, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Paths) < 20 {
		t.Fatalf("%d paths: the test would prove nothing", len(doc.Paths))
	}
	return doc
}

func afterSlash(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// goType is the Go type of a schema: that of oapi-codegen.
func (s schema) goType() string {
	switch {
	case s.Ref != "":
		return afterSlash(s.Ref)
	case s.Type == "integer":
		return cmp.Or(s.Format, "int")
	case s.Type == "boolean":
		return "bool"
	}
	return s.Type
}

// goName is the name of a parameter in Go.
func goName(name string) (out string) {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '_' || r == '-' }) {
		if word == "id" {
			word = "ID"
		}
		out += strings.ToUpper(word[:1]) + word[1:]
	}
	return out
}

// bodyType is the JSON type of a body, or its media type when it is not JSON.
func (c content) bodyType() (value, media string) {
	for media, body := range c {
		if media == "application/json" {
			return body.Schema.goType(), ""
		}
		return "", media
	}
	return "None", ""
}

// write writes an operation as Go.
func (o operation) write(t *testing.T, b *bytes.Buffer, doc contract, method, path string) {
	t.Helper()
	name, params := strings.ToUpper(o.ID[:1])+o.ID[1:], "None"
	var fields []string
	for _, p := range o.Parameters {
		if p.Ref != "" {
			p = doc.Components.Parameters[afterSlash(p.Ref)]
		}
		switch {
		case p.Name == api.HeaderKey:
			continue
		case p.In == "path" && params == "None":
			params = "string"
		default:
			params = name + "Params"
		}
		field := goName(p.Name) + " " + p.Schema.goType()
		if !p.Required {
			field = goName(p.Name) + " *" + p.Schema.goType()
		}
		fields = append(fields, fmt.Sprintf("%s `in:%q`\n", field, p.In+":"+p.Name))
	}
	if params == name+"Params" {
		fmt.Fprintf(b, "// %s are the parameters of [%s].\ntype %s struct {\n%s}\n\n", params, name, params, strings.Join(fields, ""))
	}
	var statuses []string
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		if status != "default" {
			statuses = append(statuses, status)
		}
	}
	status := statuses[len(statuses)-1]
	value, media := o.Responses[status].Content.bodyType()
	body, raw := "None", ""
	if o.Body != nil {
		body, raw = o.Body.Content.bodyType()
	}
	var kind, more string
	switch {
	case status == "101":
		kind = fmt.Sprintf("WebSocket[%s]", params)
	case media != "":
		kind, more = fmt.Sprintf("Download[%s]", params), fmt.Sprintf(", %q", media)
	case method == "get":
		kind = fmt.Sprintf("Query[%s, %s]", params, value)
	case raw != "":
		kind = fmt.Sprintf("Upload[%s, %s]", params, value)
	case len(statuses) == 2 && statuses[0] == "200" && status == "201":
		kind = fmt.Sprintf("Ensure[%s, %s, %s]", params, body, value)
		if first, _ := o.Responses["200"].Content.bodyType(); first != value {
			t.Errorf("%s: answers %s and %s", o.ID, first, value)
		}
	default:
		kind = fmt.Sprintf("Mutation[%s, %s, %s]", params, body, value)
	}
	if len(statuses) > 1 && !strings.HasPrefix(kind, "Ensure") {
		t.Errorf("%s: successes %q are of no kind of operation", o.ID, statuses)
	}
	if o.Summary != "" {
		o.Summary = ": " + o.Summary
	}
	optional := ""
	if o.Body != nil && !o.Body.Required {
		optional = ", BodyOptional: true"
	}
	fmt.Fprintf(b, "// %s is %s %s%s.\nvar %s = %s{Operation{ID: %q, Method: %q, Path: %q, Scope: %q, Status: %s%s}%s}\n\n",
		name, strings.ToUpper(method), path, o.Summary, name, kind, o.ID, strings.ToUpper(method), path, o.Scope, status, optional, more)
}

// TestOperations makes the operations from openapi.yaml and compares them with
// operations.gen.go, so that none is missing and none has other types.
func TestOperations(t *testing.T) {
	t.Parallel()
	doc := readContract(t)
	b := bytes.NewBufferString("// Code generated by go test ./nexus/api -run TestOperations -update. DO NOT EDIT.\n\npackage api\n\n")
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			doc.Paths[path][method].write(t, b, doc, method, path)
		}
	}
	want, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if *update {
		if err := os.WriteFile("operations.gen.go", want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("operations.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("operations.gen.go is stale: run go test ./nexus/api -run TestOperations -update")
	}
}

// TestEveryMutationTakesAKey reads the contract.
func TestEveryMutationTakesAKey(t *testing.T) {
	t.Parallel()
	for path, methods := range readContract(t).Paths {
		for method, op := range methods {
			keyed := slices.ContainsFunc(op.Parameters, func(p parameter) bool { return afterSlash(p.Ref) == "IdempotencyKey" })
			if keyed != (method != "get") {
				t.Errorf("%s %s: takes a key: %v", method, path, keyed)
			}
			if _, ok := op.Responses["default"]; path != "/healthz" && !ok {
				t.Errorf("%s %s: no problem+json", method, path)
			}
		}
	}
}

// generator is the tool behind go generate, at the version of doc.go.
const generator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

// TestGeneratedCodeIsFresh generates again and compares. The tool is not a
// dependency of the module: without it in the module cache the test is skipped.
func TestGeneratedCodeIsFresh(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile("config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out, elsewhere := filepath.Join(dir, "api.gen.go"), filepath.Join(dir, "config.yaml")
	config = bytes.Replace(config, []byte("output: api.gen.go"), []byte("output: "+out), 1)
	if err := os.WriteFile(elsewhere, config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", generator, "-config", elsewhere, "openapi.yaml")
	// The module cache is asked as if it were a proxy: nothing comes from the net.
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+filepath.ToSlash(moduleCache(t))+"/cache/download", "GOSUMDB=off", "CGO_ENABLED=0") // as the program is built: most of it is compiled by then
	if text, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(text), "no such file or directory") {
			t.Skipf("the generator is not at hand: %s", text)
		}
		t.Fatalf("%v\n%s", err, text)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("api.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("api.gen.go is stale: run go generate ./nexus/api")
	}
}

func moduleCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
