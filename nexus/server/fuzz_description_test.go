//go:build !race

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"remit/nexus/api"
)

// description is openapi.yaml as a caller reads it: nothing of what follows
// knows an operation by name, so that a new one is tried as soon as it is
// described.
type description struct {
	Paths      map[string]map[string]*described `json:"paths"`
	Components struct {
		Parameters map[string]*parameter `json:"parameters"`
		Responses  map[string]*response  `json:"responses"`
		Schemas    map[string]*schema    `json:"schemas"`
	} `json:"components"`

	operations []*described
	refusal    *jsonschema.Schema // of every problem
}

// described is one operation.
type described struct {
	ID         string               `json:"operationId"`
	Scope      string               `json:"x-scope"`
	Parameters []*parameter         `json:"parameters"`
	Body       *body                `json:"requestBody"`
	Responses  map[string]*response `json:"responses"`

	method, path string
	keyed        bool
	taken        *jsonschema.Schema            // of a JSON body
	given        map[string]*jsonschema.Schema // of a JSON answer, by status
	pattern      *regexp.Regexp
}

type parameter struct {
	Ref      string  `json:"$ref"`
	Name     string  `json:"name"`
	In       string  `json:"in"`
	Required bool    `json:"required"`
	Schema   *schema `json:"schema"`
}

type body struct {
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"`
}

type response struct {
	Ref     string           `json:"$ref"`
	Content map[string]media `json:"content"`
}

type media struct {
	Schema *schema `json:"schema"`
}

// schema is the part of JSON Schema that the description uses.
type schema struct {
	Ref           string             `json:"$ref"`
	Type          string             `json:"type"`
	Properties    map[string]*schema `json:"properties"`
	Required      []string           `json:"required"`
	Items         *schema            `json:"items"`
	Enum          []string           `json:"enum"`
	Minimum       *int64             `json:"minimum"`
	Maximum       *int64             `json:"maximum"`
	MinLength     int                `json:"minLength"`
	MaxLength     int                `json:"maxLength"`
	MinItems      int                `json:"minItems"`
	MaxItems      int                `json:"maxItems"`
	MaxProperties int                `json:"maxProperties"`
	Additional    json.RawMessage    `json:"additionalProperties"`
}

// describe reads the description once.
func describe(t testing.TB) *description {
	t.Helper()
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// readDescription compiles the schemas with an independent implementation:
// strictly, since what is not described may not be answered.
var readDescription = sync.OnceValues(func() (*description, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(api.Spec, &tree); err != nil {
		return nil, err
	}
	strict(tree)
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	d := new(description)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(specURN, doc); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			op := d.Paths[path][method]
			op.method, op.path = strings.ToUpper(method), path
			if err := d.complete(op, c); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			d.operations = append(d.operations, op)
		}
	}
	if len(d.operations) < 40 {
		return nil, fmt.Errorf("%d operations: the test would prove little", len(d.operations))
	}
	d.refusal, err = c.Compile(specURN + "#/components/schemas/Problem")
	return d, err
})

const specURN = "urn:remit:openapi"

// strict closes every object that names its members, and writes nullable as
// JSON Schema does.
func strict(node any) {
	switch node := node.(type) {
	case map[string]any:
		_, named := node["properties"].(map[string]any)
		if _, open := node["additionalProperties"]; named && !open && node["allOf"] == nil {
			node["additionalProperties"] = false
		}
		for _, inside := range node {
			strict(inside)
		}
		// As a type of its own the schema would no longer be one of ours.
		if node["nullable"] == true {
			node["anyOf"] = []any{map[string]any{"type": node["type"]}, map[string]any{"type": "null"}}
			delete(node, "type")
		}
	case []any:
		for _, inside := range node {
			strict(inside)
		}
	}
}

// complete resolves the references of an operation.
func (d *description) complete(op *described, c *jsonschema.Compiler) (err error) {
	for i, p := range op.Parameters {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			op.Parameters[i] = d.Components.Parameters[name]
		}
		op.keyed = op.keyed || op.Parameters[i].Name == api.HeaderKey
	}
	op.pattern = regexp.MustCompile("^" + regexp.MustCompile(`\{\w+\}`).ReplaceAllString(op.path, `[^/]*`) + "$")
	at := specURN + "#/paths/" + url.PathEscape(strings.ReplaceAll(op.path, "/", "~1")) + "/" + strings.ToLower(op.method)
	if op.Body != nil && op.Body.Content[jsonType].Schema != nil {
		if op.taken, err = c.Compile(at + "/requestBody/content/application~1json/schema"); err != nil {
			return err
		}
	}
	op.given = map[string]*jsonschema.Schema{}
	for status, r := range op.Responses {
		here := at + "/responses/" + status
		if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
			r = d.Components.Responses[name]
			op.Responses[status], here = r, specURN+"#/components/responses/"+name
		}
		if r.Content[jsonType].Schema == nil {
			continue
		}
		if op.given[status], err = c.Compile(here + "/content/application~1json/schema"); err != nil {
			return err
		}
	}
	return nil
}

const jsonType = "application/json"

// resolve follows a reference.
func (d *description) resolve(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// of finds the operation of a request, nil when there is none.
func (d *description) of(method, target string) *described {
	path, _, _ := strings.Cut(target, "?")
	var found *described
	for _, op := range d.operations {
		// A path without wildcards comes first, as in net/http.
		if op.method == method && op.pattern.MatchString(path) && (found == nil || !strings.Contains(op.path, "{")) {
			found = op
		}
	}
	return found
}

// conforms says what is wrong with an answer, or "".
func (op *described) conforms(got seen) string {
	status := fmt.Sprint(got.status)
	described, known := op.Responses[status]
	if !known {
		return "the status is not described"
	}
	kind, _, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	if _, known := described.Content[kind]; !known && op.method != http.MethodHead {
		return fmt.Sprintf("the content type %q is not described", kind)
	}
	if s := op.given[status]; s != nil {
		return violation(s, got.body)
	}
	return ""
}

// violation says where a JSON text breaks a schema, or "".
func violation(s *jsonschema.Schema, text string) string {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
