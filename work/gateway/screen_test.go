package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

// screened is what becomes of a body with one more member.
func screened(p Protocol, more string) *refusal {
	_, bad := inspect(p, []byte(ask(p, false, more)), false)
	return bad
}

// Servers that speak these protocols have names of their own, behind which
// another model, another host or a search stands. None is in the lists, and the
// refusal says which it was.
func TestOtherFields(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"data_sources":  `[{"type":"azure_search","parameters":{"endpoint":"https://evil.example"}}]`,
		"enable_search": `true`, "search_options": `{"forced_search":true}`, "search_settings": `{"include_domains":["evil.example"]}`,
		"extra_body": `{"models":["o3"]}`, "api_base": `"evil"`, "base_url": `"evil"`, "custom_llm_provider": `"x"`,
		"kv_transfer_params": `{"remote_host":"evil"}`, "bootstrap_host": `"evil"`, "bootstrap_port": `1`,
		"preset": `"other"`, "compound_custom": `{"models":{"reasoning_model":"x"}}`, "agent_id": `"ag:1"`,
		"connectors": `[{"id":"web-search"}]`, "documents": `[{"url":"x"}]`, "webhook_url": `"x"`, "callback_url": `"x"`,
		"chat_template": `"{{ x }}"`, "speculative_model": `"x"`, "draft_model": `"x"`, "lora": `"x"`, "functions": `[{"name":"$web_search"}]`,
		"best_of": `20`, "modalities": `["audio"]`, "audio": `{"voice":"x"}`, "betas": `["mcp-client-2025-04-04"]`,
		"mcp_servers": `[{"url":"x"}]`, "models": `["o3"]`, "prompt": `{"id":"p"}`, "conversation": `"c"`, "background": `true`,
		"web_search_options": `{"search_context_size":"low"}`,
	} {
		for _, p := range protocols {
			bad := screened(p, fmt.Sprintf(`,%q:%s`, name, value))
			if bad == nil || bad.code != reason.HostedToolRefused || !strings.Contains(bad.message, name) {
				t.Errorf("%s: %s: %+v", p, name, bad)
			}
			if bad := screened(p, fmt.Sprintf(`,%q:null`, name)); bad != nil {
				t.Errorf("%s: %s with nothing in it: %+v", p, name, bad)
			}
		}
	}
	for more, p := range map[string]Protocol{
		`,"reasoning":{"model":"o3"}`: Responses, `,"reasoning":{"providers":["x"]}`: Chat, `,"chat_template_kwargs":{"chat_template":"x"}`: Chat,
		`,"tool_choice":{"type":"mcp","server_label":"x"}`: Responses, `,"text":{"format":{"webhook":"x"}}`: Responses,
		`,"output_config":{"fallback_model":"x"}`: Messages, `,"context_management":{"edits":[{"type":"x","Model":"y"}]}`: Messages,
		`,"response_format":{"type":"json_schema","json_schema":{"schema":{"$ref":"https://evil.example"}}}`: Chat,
		`,"stream_options":{"to":"https://evil.example"}`:                                                    Chat,
	} {
		if bad := screened(p, more); bad == nil || bad.code != reason.HostedToolRefused {
			t.Errorf("%s %s: %+v", p, more, bad)
		}
	}
}

// Whatever stands before an address, whatever it is called, in every place in
// which a part of a conversation may stand: a provider gets none to fetch.
func TestNothingIsFetched(t *testing.T) {
	t.Parallel()
	const host = "evil.example/x"
	addresses := map[string]string{
		"http": "http://" + host, "upper": "HTTPS://" + host, "ftp": "ftp://" + host, "file": "file:///etc/passwd", "storage": "gs://bucket/x",
		"no slashes": "http:" + host, "one slash": "http:/" + host, "backslashes": `http:\\` + host, "no scheme": "//" + host, "share": `\\\\` + host,
		"64 blanks": strings.Repeat(" ", 70) + "http://" + host, "newlines": strings.Repeat(`\n`, 70) + "http://" + host,
		"tabs": strings.Repeat(`\t`, 65) + "http://" + host, "controls": strings.Repeat(`\u0001`, 65) + "http://" + host, "nul": `\u0000http://` + host,
		"wide blank": "\u00a0\u3000\ufeffhttp://" + host, "tab inside": `ht\ttp://` + host, "newline inside": `http\n://` + host, "escaped": `\u0068ttp://` + host,
		"bracket": "<http://" + host, "quote": `\"http://` + host, "blank and slashes": `  /\t/` + host,
	}
	parts := map[Protocol][]string{
		Chat: {
			`{"type":"image_url","image_url":{"url":"%s"}}`, `{"type":"image_url","image_url":"%s"}`, `{"type":"image_url","imageUrl":{"url":"%s"}}`,
			`{"type":"document_url","document_url":"%s"}`, `{"type":"image","image":"%s"}`, `{"type":"video","video":["data:,","%s"]}`,
			`{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}}`, `{"type":"input_audio","input_audio":{"url":"%s"}}`,
			`{"type":"file","file":{"file_data":"%s"}}`, `{"type":"file","file":{"file_id":"%s"}}`, `{"type":"whatever","new_name":["%s"]}`,
			`{"type":"text","text":"x","cache_control":{"from":"%s"}}`, `{"type":"search_result","source":{"type":"search_result","url":"%s"}}`,
		},
		Responses: {
			`{"type":"input_image","image_url":"%s"}`, `{"type":"input_file","file_url":"%s"}`, `{"type":"input_file","file_data":"%s"}`,
		},
		Messages: {
			`{"type":"image","source":{"type":"url","url":"%s"}}`, `{"type":"document","source":{"type":"base64","data":"%s"}}`,
			`{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"%s"}}]}`, `{"type":"image","source":"%s"}`,
		},
	}
	bodies := map[Protocol][]string{
		Chat: {
			`{"model":"gpt-5.5","messages":[{"role":"user","content":[%s]}]}`, `{"model":"gpt-5.5","messages":[{"role":"user","content":%s}]}`,
			`{"model":"gpt-5.5","messages":[],"prediction":{"type":"content","content":[%s]}}`,
		},
		Responses: {
			`{"model":"gpt-5.5","input":[{"role":"user","content":[%s]}]}`, `{"model":"gpt-5.5","input":[%s]}`, `{"model":"gpt-5.5","instructions":[%s]}`,
			`{"model":"gpt-5.5","input":[{"type":"function_call_output","output":[%s]}]}`, `{"model":"gpt-5.5","input":[{"type":"custom_tool_call_output","output":%s}]}`,
		},
		Messages: {
			`{"model":"gpt-5.5","messages":[{"role":"user","content":[%s]}]}`, `{"model":"gpt-5.5","system":[%s],"messages":[]}`,
			`{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[%s]}}]}]}`,
		},
	}
	for p, forms := range bodies {
		for _, form := range forms {
			for _, part := range parts[p] {
				for name, address := range addresses {
					body := fmt.Sprintf(form, fmt.Sprintf(part, address))
					if _, bad := inspect(p, []byte(body), false); bad == nil || bad.code != reason.HostedToolRefused {
						t.Errorf("%s: %s: %+v", name, body, bad)
					}
				}
				body := fmt.Sprintf(form, fmt.Sprintf(part, "data:image/png;base64,iVBORw0KGgo="))
				if _, bad := inspect(p, []byte(body), false); bad != nil {
					t.Errorf("inline: %s: %+v", body, bad)
				}
			}
		}
	}
	for content, want := range map[string]bool{
		"": true, "iVBORw0KGgo=": true, "_-8=": true, "/9j/4AAQSkZJRg==": true, "data:": true,
		"/etc/passwd": false, "//localhost/x": false, "evil.example": false, "iVBO Rw0K": false, "=x": false, "\u00a0": false,
	} {
		body := fmt.Sprintf(`{"model":"gpt-5.5","messages":[{"role":"user","content":"x","images":[%q]}]}`, content)
		if _, bad := inspect(Chat, []byte(body), false); (bad == nil) != want {
			t.Errorf("%q: %+v", content, bad)
		}
	}
}

// A tool that reaches out by a name, an address or its schema.
func TestToolsThatReachOut(t *testing.T) {
	t.Parallel()
	for tool, p := range map[string]Protocol{
		`{"type":"function","function":{"name":"x"},"serverUrl":"http://evil.example"}`:                                       Chat,
		`{"type":"function","function":{"name":"$web_search"}}`:                                                               Chat,
		`{"type":"function","name":"$web_search"}`:                                                                            Responses,
		`{"type":"builtin_function","function":{"name":"$web_search"}}`:                                                       Chat,
		`{"type":null,"web_search":{}}`:                                                                                       Chat,
		`{"type":"function","function":{"name":"x","parameters":{"properties":{"a":{"$ref":"http://evil.example/s.json"}}}}}`: Chat,
		`{"name":"x","input_schema":{"allOf":[{"\u0024dynamicRef":"//evil.example"}]}}`:                                       Messages,
		`{"type":"namespace","tools":[{"type":"function","name":"x","parameters":{"$ref":"file:///etc/passwd"}}]}`:            Responses,
		`{"type":"custom","name":"x","format":{"type":"grammar","from":"http://evil.example"}}`:                               Responses,
	} {
		if bad := screened(p, `,"tools":[`+tool+`]`); bad == nil || bad.code != reason.HostedToolRefused {
			t.Errorf("%s: %+v", tool, bad)
		}
	}
}

// What agents send: every field that one of them was seen with, and parts in
// which an address is a text.
func TestWhatAgentsSend(t *testing.T) {
	t.Parallel()
	for more, p := range map[string]Protocol{
		// Pi, and how it has models of other makers think.
		`,"store":false,"stream_options":{"include_usage":true},"max_completion_tokens":8192,"tools":[{"type":"function","function":{"name":"read","description":"see https://x","parameters":{"type":"object","properties":{"url":{"type":"string","description":"http://x"},"r":{"$ref":"#/$defs/a"}}},"strict":false}}]`: Chat,
		`,"reasoning_effort":"high","tool_choice":"auto","prompt_cache_key":"a:b","prompt_cache_retention":"24h","temperature":0.5,"tool_stream":true,"enable_thinking":true`:                                                                                                                                               Chat,
		`,"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true},"thinking":{"type":"enabled"},"reasoning":{"effort":"high"}`:                                                                                                                                                                             Chat,
		// Codex.
		`,"instructions":"see https://x","include":["reasoning.encrypted_content"],"parallel_tool_calls":true,"prompt_cache_key":"x","reasoning":{"effort":"medium","summary":"auto"},"store":false,"text":{"verbosity":"low","format":{"type":"json_schema","name":"a","schema":{"$schema":"https://json-schema.org/x"},"strict":true}},"tool_choice":"auto","client_metadata":{"cwd":"https://x"}`: Responses,
		`,"tools":[{"type":"custom","name":"apply_patch","description":"x","format":{"type":"grammar","syntax":"lark","definition":"start: begin_patch"}},{"type":"function","name":"f","description":"x","strict":false,"parameters":{}},{"type":"tool_search","execution":"client","description":"x","parameters":{}}]`:                                                                            Responses,
		// Claude Code.
		`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"output_config":{"effort":"high","format":{"type":"json_schema","schema":{}}},"thinking":{"type":"adaptive","display":"updates"},"metadata":{"user_id":"x"},"temperature":1,"system":[{"type":"text","text":"https://x","cache_control":{"type":"ephemeral","ttl":"1h"}}]`: Messages,
		`,"tools":[{"name":"WebFetch","description":"https://x","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"url":{"format":"uri"}}},"defer_loading":true,"input_examples":[{"url":"https://x"}]}],"stop_sequences":["http://"],"tool_choice":{"type":"tool","name":"x","disable_parallel_tool_use":true}`:                 Messages,
	} {
		if bad := screened(p, more); bad != nil {
			t.Errorf("%s%s: %+v", p, more, bad)
		}
	}
	for part, p := range map[string]Protocol{
		`{"role":"user","content":"http://x"}`: Chat, `{"role":"user","content":["http://x"]}`: Chat,
		`{"role":"assistant","content":null,"reasoning_content":"http://x","tool_calls":[{"id":"functions.bash:0","type":"function","function":{"name":"a:b","arguments":"{\"url\":\"http://x\"}"}}]}`:                                    Chat,
		`{"role":"tool","tool_call_id":"functions.bash:0","content":[{"type":"text","text":"http://x"}]}`:                                                                                                                                 Chat,
		`{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"http://x","signature":"a:b","format":"x-v1"}]}`:                                                                                                        Chat,
		`{"type":"function_call","status":"completed","id":"a:b","name":"f","arguments":"http://x","call_id":"c:1"}`:                                                                                                                      Responses,
		`{"type":"function_call_output","id":"x","call_id":"c:1","output":"http://x"}`:                                                                                                                                                    Responses,
		`{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"http://x"}`:                                                                                                                                               Responses,
		`{"type":"local_shell_call","action":{"type":"exec","command":["curl","http://x"],"env":{"HTTP_PROXY":"http://x"},"working_directory":"/workspace"}}`:                                                                             Responses,
		`{"type":"tool_search_call","call_id":"c","arguments":{"url":"http://x"}}`:                                                                                                                                                        Responses,
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"http://x"}],"content":[{"type":"reasoning_text","text":"http://x"}],"encrypted_content":"a:b"}`:                                                                    Responses,
		`{"role":"assistant","content":[{"type":"output_text","text":"http://x","annotations":[],"logprobs":[{"token":"http:","bytes":[1]}]}]}`:                                                                                           Responses,
		`{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"}]}`:                                                                                                             Responses,
		`{"role":"assistant","content":[{"type":"thinking","thinking":"http://x","signature":"a:b"},{"type":"tool_use","id":"t","name":"n","input":{"url":"http://x","image_url":"http://x"}}]}`:                                          Messages,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t:1","content":"http://x","is_error":false},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"/9j/4AA="}}]}`:                            Messages,
		`{"role":"user","content":[{"type":"document","title":"a: b","context":"http://x","source":{"type":"text","media_type":"text/plain","data":"http://x"}},{"type":"search_result","source":"https://x","title":"t","content":[]}]}`: Messages,
	} {
		name := map[Protocol]string{Chat: "messages", Responses: "input", Messages: "messages"}[p]
		if _, bad := inspect(p, fmt.Appendf(nil, `{"model":"gpt-5.5",%q:[%s]}`, name, part), false); bad != nil {
			t.Errorf("%s %s: %+v", p, part, bad)
		}
	}
}

// Nothing that stands in the lists stands in two that say different things.
func TestFieldsAreDisjoint(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for _, name := range slices.Sorted(maps.Keys(fields[p])) {
			if left[name] || name != folded(name) && !plainName(name) {
				t.Errorf("%s: %q", p, name)
			}
		}
	}
}

// A request that is no HTTP to the server that reads it is recorded as well, and
// one that is counts once.
func TestUnreadRequests(t *testing.T) {
	t.Parallel()
	up := newProvider(t, plain(200, "application/json", wholes(Chat, model)))
	e := open(t, up.URL, nil, nil)
	body := ask(Chat, false, "")
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	whole := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	for name, test := range map[string]struct {
		text   string
		status int
	}{
		"nul in the target": {"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400}, "http/2": {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
		"two hosts": {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400}, "odd encoding": {head + "Transfer-Encoding: gzip\r\n\r\n", 501},
		"large header": {head + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431}, "expectation": {head + "Expect: magic\r\nContent-Length: 0\r\n\r\n", 417},
		"behind another": {whole + "GET / HTTP/1.1\r\n\r\n", 400},
	} {
		before := len(e.all())
		if got := e.raw(t, test.text); got == nil || got.StatusCode != test.status && name != "behind another" {
			t.Errorf("%s: %+v", name, got)
		}
		all := e.waitFor(t, before+1+strings.Count(name, "behind another"))
		last := all[len(all)-1]
		if last.Refused != reason.RequestInvalid || last.Status != test.status || last.Path != "" || last.Detail == "" {
			t.Errorf("%s: %+v", name, last)
		}
	}
	n := len(e.all())
	if got := e.post(t, "/v1/chat/completions", body); got.StatusCode != http.StatusOK {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	e.post(t, "/v1/chat/completions", "{")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if total := e.Totals(); len(e.all()) != n+2 || total.Refused != int64(n) || total.Requests != 2 {
		t.Errorf("%d records, %+v", len(e.all()), total)
	}
}
