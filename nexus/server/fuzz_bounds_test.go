//go:build !race

package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"remit/nexus/authority"
)

// TestBoundsAreTheContract steps over each bound of each member of each body,
// one at a time, in a request that is good otherwise.
func TestBoundsAreTheContract(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, nil)
	tried := 0
	for _, op := range tr.operations {
		if op.taken == nil {
			continue
		}
		s := tr.resolve(op.Body.Content[jsonType].Schema)
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			for name, value := range tr.beyond(tr.resolve(s.Properties[key])) {
				tried++
				got := tr.world.do(tr.overstepping(op, key, value, tried))
				refused := got.status >= 400 && got.status < 500
				if !refused || got.status == http.StatusUnauthorized && key != "token" {
					t.Errorf("%s with %s %s: %d %s", op.ID, key, name, got.status, shortened(got.body))
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("%d bounds: the test proves little", tried)
	}
}

// overstepping is a good request with one bad member.
func (tr *trial) overstepping(op *described, key string, value any, n int) call {
	tr.t.Helper()
	var c call
	if i := slices.IndexFunc(tr.done, func(e exchange) bool { return e.op == op && strings.HasPrefix(e.body, "{") }); i >= 0 {
		c = tr.done[i].call
	} else {
		a := attempt{call: call{method: op.method, token: tr.world.alice}, op: op}
		a.path = tr.target(&a)
		tr.fill(&a)
		c = a.call
	}
	switch op.Scope {
	case authority.ScopeAdmin:
		c.token = tr.world.admin
	case authority.ScopeEnrol: // a registration token is good for one
		c.token = tr.world.alice
	}
	object := map[string]any{}
	if c.body != "" {
		if err := json.Unmarshal([]byte(c.body), &object); err != nil {
			tr.t.Fatal(err)
		}
	}
	object[key] = value
	text, err := json.Marshal(object)
	if err != nil {
		tr.t.Fatal(err)
	}
	c.body, c.contentType, c.key, c.header = string(text), jsonType, fmt.Sprintf("bound-%d", n), nil
	return c
}

// beyond are values just outside of a schema.
func (d *description) beyond(s *schema) map[string]any {
	out := map[string]any{}
	if s.MaxLength > 0 {
		out["too long"] = strings.Repeat("y", s.MaxLength+1)
	}
	if s.MinLength > 0 {
		out["too short"] = strings.Repeat("y", s.MinLength-1)
	}
	if s.Minimum != nil {
		out["too small"] = *s.Minimum - 1
	}
	if s.Maximum != nil {
		out["too large"] = *s.Maximum + 1
	}
	if len(s.Enum) > 0 {
		out["another word"] = "other"
	}
	if s.Type == "array" {
		item := any("word")
		if inside := d.resolve(s.Items); len(inside.Enum) > 0 {
			item = inside.Enum[0]
		} else if inside.MaxLength > 0 {
			out["with a long item"] = []any{strings.Repeat("y", inside.MaxLength+1)}
		}
		if s.MaxItems > 0 {
			list := []any{}
			for i := range s.MaxItems + 1 {
				if list = append(list, item); item == "word" {
					list[i] = fmt.Sprint("w", i)
				}
			}
			out["with too many"] = list
		}
		if s.MinItems > 0 {
			out["with too few"] = []any{}
		}
	}
	var inside schema
	if s.Type == "object" && json.Unmarshal(s.Additional, &inside) == nil && inside.MaxLength > 0 {
		out["with a long value"] = map[string]any{"k": strings.Repeat("y", inside.MaxLength+1)}
	}
	if s.MaxProperties > 0 {
		object := map[string]any{}
		for i := range s.MaxProperties + 1 {
			object[fmt.Sprint("k", i)] = "v"
		}
		out["with too many"] = object
	}
	return out
}
