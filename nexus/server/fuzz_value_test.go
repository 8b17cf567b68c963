//go:build !race

package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"remit/nexus/api"
	"remit/proof/canon"
)

// aliases are names under which answers give what requests call otherwise.
func aliases() map[string]string {
	return map[string]string{"digest": "sha256", "expected_previous_seq": "last_seq", "event_key": "idempotency_key", "offset": "length",
		"cursor": "next_cursor", "If-Match": "etag"}
}

// recent is one of the last values that answers gave a name, rather the last.
func (m *maker) recent(name string, otherwise any) any {
	list := m.pool[name]
	switch {
	case len(list) == 0:
		return otherwise
	case m.chance(50):
		return list[len(list)-1]
	case m.chance(50):
		return pick(m.dice, list[:min(len(list), poolFirst)])
	}
	return pick(m.dice, list)
}

// value makes something that fits a schema, and with luck the state as well.
func (m *maker) value(s *schema, name string, depth int) any {
	s = m.resolve(s)
	pooled := name
	if other, ok := aliases()[name]; ok {
		pooled = other
	}
	if len(m.pool[pooled]) > 0 && (name == "token" && m.chance(20) || name != "token" && m.chance(80)) {
		return m.recent(pooled, nil)
	}
	if list := m.examples(name); len(list) > 0 && m.chance(85) {
		return pick(m.dice, list)
	}
	switch s.Type {
	case "object":
		return m.object(s, depth)
	case "array":
		list := []any{}
		for range s.MinItems + m.n(3) {
			list = append(list, m.value(s.Items, name, depth+1))
		}
		return list
	case "integer":
		low, high := int64(0), int64(1)<<40
		if s.Minimum != nil {
			low = *s.Minimum
		}
		if s.Maximum != nil {
			high = *s.Maximum
		}
		return pick(m.dice, []int64{low, min(low+1, high), min(low+int64(m.n(1000)), high), high})
	case "boolean":
		return m.chance(50)
	}
	if len(s.Enum) > 0 {
		return pick(m.dice, s.Enum)
	}
	length := max(s.MinLength, 1+m.n(12))
	if s.MaxLength > 0 && (length > s.MaxLength || s.MaxLength < 3000 && m.chance(5)) {
		length = s.MaxLength
	}
	return strings.Repeat(pick(m.dice, []string{"a", "b7", "z-", "Q_", "x.", "é", "日"}), length)[:length]
}

func (m *maker) object(s *schema, depth int) any {
	object := map[string]any{}
	if s.Properties == nil { // a document, or names of the caller's choice
		var inside schema
		if json.Unmarshal(s.Additional, &inside) != nil {
			return m.document(depth)
		}
		for i := range m.n(3) {
			object[fmt.Sprint("n", i)] = m.value(&inside, "", depth+1)
		}
		return object
	}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, key) || m.chance(30) {
			object[key] = m.value(s.Properties[key], key, depth+1)
		}
	}
	return object
}

// document is any JSON object that can be hashed.
func (m *maker) document(depth int) any {
	object := map[string]any{}
	for i := range m.n(4) {
		key := fmt.Sprint("k", i)
		switch m.n(5) {
		case 0:
			object[key] = strings.Repeat("v", m.n(9))
		case 1:
			object[key] = m.n(1000)
		case 2:
			object[key] = []any{nil, true, "x"}
		case 3:
			if depth < 6 {
				object[key] = m.document(depth + 1)
			}
		default:
			object[key] = nil
		}
	}
	return object
}

const sandboxResponse = `{"env_info":{"image_digest":"host"},"runs":[{"cmd":"go test ./...","exit_code":0,"duration_ms":5,` +
	`"stdout_sha256":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",` +
	`"stderr_sha256":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}],"artifacts":[],"status":"success","provenance":{"model_id":"none"}}`

// examples are words that the description leaves to the rules of the thing.
func (m *maker) examples(name string) []any {
	raw := func(texts ...string) (out []any) {
		for _, text := range texts {
			out = append(out, json.RawMessage(text))
		}
		return out
	}
	switch name {
	case "request":
		return raw(sandboxRun, strings.Replace(sandboxRun, "go test", fmt.Sprint("go vet # ", m.n(9)), 1),
			strings.Replace(sandboxRun, "go test", fmt.Sprint("make # ", m.n(9)), 1), `{}`)
	case "response":
		return raw(sandboxResponse, strings.Replace(sandboxResponse, `"exit_code":0`, `"exit_code":1`, 1), `{}`)
	case "payload":
		return raw(`{"text":"a note"}`, `{"receipt_type":"ForgeUpdateSkipped","payload":{"reason":"none"}}`,
			`{"tool":"go","params_hash":"a","output_hash":"b","latency_ms":3}`, `{"source":"x"}`)
	case "event_type":
		return []any{"note", "receipt", "tool", "run.started", "run.cancel_requested"}
	case "contract":
		return []any{contractText(m.world.t), `{}`}
	case "job_type", "capabilities":
		return []any{"oa.sandbox_run.v1", "oa.sandbox_run.v1", "oa.sandbox_run.v1", "remit.engine_run.v1"}
	case "network":
		return []any{"none"}
	case "cpu_millis", "memory_mb", "disk_mb", "pids", "timeout_secs": // enough for the example of a request
		return []any{2000, 4000}
	case "owner":
		return []any{"alice"}
	case "account_id", "job_id", "run_id", "provider_id", "device_id", "token_id":
		return []any{"none"}
	case "price_msats", "amount", "max_price_msats":
		return []any{1, 1000, 5000}
	case "token":
		return []any{m.world.alice}
	case "digest":
		return []any{canon.Digest(nil)}
	case "name":
		return []any{"box", "bundle.zip", "source.pack", "stdout.0"}
	case "topic":
		return []any{"fleet:user:alice:workers", fmt.Sprint("run:", m.recent("run_id", "x"), ":events"), fmt.Sprint("jobs:", m.recent("provider_id", "x"))}
	case api.HeaderKey:
		return []any{"key"}
	}
	return nil
}

// What is remembered of a name: the first values, which the whole flow of
// newTrial has left, and the last ones.
const (
	poolFirst = 4
	poolSize  = 16
)

// learn remembers what an answer says.
func (m *maker) learn(got seen) {
	if tag := got.header.Get("Etag"); tag != "" {
		m.remember("etag", tag)
	}
	var v any
	if got.status >= 300 || json.Unmarshal([]byte(got.body), &v) != nil {
		return
	}
	m.read(v)
	for _, cookie := range (&http.Response{Header: got.header}).Cookies() {
		if o, _ := v.(map[string]any); cookie.Value != "" {
			m.sessions = append(m.sessions, pageSession{cookie.Name + "=" + cookie.Value, fmt.Sprint(o["csrf_token"])})
		}
	}
}

// worthKnowing are the names whose values open more doors.
func worthKnowing(name string) bool {
	return strings.HasSuffix(name, "_id") || slices.Contains([]string{"token", "fence", "next_cursor", "sha256", "contract_sha256", "last_seq", "length", "idempotency_key"}, name)
}

func (m *maker) read(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if worthKnowing(name) {
				m.remember(name, v[name])
			}
			if text, _ := v[name].(string); name == "token" {
				kind, _, _ := strings.Cut(strings.TrimPrefix(text, "rmt_"), "_")
				m.remember("token of a "+kind, text)
			}
			m.read(v[name])
		}
	case []any:
		for _, inside := range v {
			m.read(inside)
		}
	}
}

func (m *maker) remember(name string, v any) {
	switch n := v.(type) {
	case float64:
		v = int64(n)
	case string:
		if n == "" {
			return
		}
	default:
		return
	}
	list := m.pool[name]
	if i := slices.Index(list, v); i >= poolFirst {
		list = slices.Delete(list, i, i+1)
	} else if i >= 0 && i == len(list)-1 {
		return
	}
	if len(list) == poolSize {
		list = slices.Delete(list, poolFirst, poolFirst+1)
	}
	m.pool[name] = append(list, v)
}
