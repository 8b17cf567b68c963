package api_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"remit/nexus/api"
)

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
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+filepath.ToSlash(moduleCache(t))+"/cache/download", "GOSUMDB=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0") // as the program is built: most of it is compiled by then
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

// TestEveryMutationTakesAKey reads the contract.
func TestEveryMutationTakesAKey(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			Operation  string           `yaml:"operationId"`
			Parameters []map[string]any `yaml:"parameters"`
			Responses  map[string]any   `yaml:"responses"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(api.Spec, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Paths) < 20 {
		t.Fatalf("%d paths: the test would prove nothing", len(doc.Paths))
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			keyed := false
			for _, p := range op.Parameters {
				keyed = keyed || p["$ref"] == "#/components/parameters/IdempotencyKey"
			}
			if keyed != (method != "get") {
				t.Errorf("%s %s: takes a key: %v", method, path, keyed)
			}
			if path != "/healthz" && op.Responses["default"] == nil {
				t.Errorf("%s %s: no problem+json", method, path)
			}
		}
	}
}
