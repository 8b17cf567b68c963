package gateway

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
)

var discard = log.New(io.Discard, "", 0)

// refusedForm checks that an answer is a refusal in a form that engines read.
func refusedForm(t *testing.T, got *reply, code reason.Code) {
	t.Helper()
	if got.StatusCode < 400 || got.StatusCode >= 500 || !strings.Contains(got.body, `"code":"`+string(code)+`"`) ||
		!strings.Contains(got.body, `"message":`) || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %s: %s", got.StatusCode, got.Header.Get("Content-Type"), got.body)
	}
}

// Request lines, spelled in every way that a server might take for an admitted
// one. None leaves the machine.
func TestOtherRoutes(t *testing.T) {
	t.Parallel()
	up := newProvider(t, plain(200, "application/json", wholes(Chat, model)))
	e := open(t, up.URL, nil, nil)
	body := ask(Chat, false, "")
	lines := map[string]string{
		"other path":          "POST /v1/embeddings",
		"root":                "POST /",
		"models":              "GET /v1/models",
		"count tokens":        "POST /v1/messages/count_tokens",
		"batches":             "POST /v1/messages/batches",
		"files":               "POST /v1/files",
		"traversal":           "POST /v1/chat/../files",
		"traversal back":      "POST /v1/x/../chat/completions",
		"encoded traversal":   "POST /v1/x/%2e%2e/chat/completions",
		"encoded slash":       "POST /v1%2Fchat/completions",
		"encoded letter":      "POST /v1/chat/completion%73",
		"two slashes":         "POST //v1/chat/completions",
		"slash at the end":    "POST /v1/chat/completions/",
		"dot":                 "POST /v1/./chat/completions",
		"parameter":           "POST /v1/chat/completions;x=1",
		"query":               "POST /v1/chat/completions?model=other",
		"query on messages":   "POST /v1/messages?beta=true&x=1",
		"empty query":         "POST /v1/messages?",
		"fragment":            "POST /v1/chat/completions#x",
		"case":                "POST /V1/Chat/Completions",
		"backslash":           `POST /v1\chat\completions`,
		"prefix":              "POST /r/run1/v1/chat/completions",
		"userinfo":            "POST http://a@127.0.0.1/v1/chat/completions",
		"absolute form":       "POST http://evil.example/v1/chat/completions",
		"absolute, own":       "POST http://" + e.addr + "/v1/chat/completions",
		"absolute, https":     "POST https://api.openai.com/v1/chat/completions",
		"absolute, file":      "POST file:///v1/chat/completions",
		"tunnel":              "CONNECT evil.example:443",
		"tunnel to a path":    "CONNECT /v1/chat/completions",
		"get":                 "GET /v1/chat/completions",
		"put":                 "PUT /v1/responses",
		"delete":              "DELETE /v1/responses",
		"head":                "HEAD /v1/messages",
		"options":             "OPTIONS *",
		"lower case method":   "post /v1/chat/completions",
		"method from nowhere": "BREW /v1/chat/completions",
	}
	for name, line := range lines {
		t.Run(name, func(t *testing.T) {
			got := e.raw(t, fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
				line, token, len(body), body))
			if got == nil || got.StatusCode == http.StatusBadRequest && got.Header.Get("X-Should-Retry") == "" {
				return // not even HTTP to the server
			}
			if strings.HasPrefix(line, "HEAD") {
				got.body = `"code":"route_refused" "message":` // a HEAD has no body
			}
			refusedForm(t, got, reason.RouteRefused)
		})
	}
	if n := up.count(); n != 0 {
		t.Errorf("%d requests left the machine", n)
	}
	for _, r := range e.all() {
		if r.Refused != reason.RouteRefused && (r.Refused != reason.RequestInvalid || r.Path != "") || r.Status < 400 || r.Detail == "" {
			t.Errorf("record: %+v", r)
		}
	}
	if total := e.Totals(); total.Requests != 0 || total.Refused != int64(len(e.all())) || total.Refused < 25 {
		t.Errorf("totals: %+v", total)
	}
}

// Bodies that ask for something else, or that two readers would read in two
// ways. None leaves the machine.
func TestOtherBodies(t *testing.T) {
	t.Parallel()
	message := `"messages":[{"role":"user","content":"hi"}]`
	tests := map[string]struct {
		path, body string
		code       reason.Code
	}{
		"other model":            {"/v1/chat/completions", `{"model":"gpt-5.5-pro",` + message + `}`, reason.ModelMismatch},
		"upper case":             {"/v1/chat/completions", `{"model":"GPT-5.5",` + message + `}`, reason.ModelMismatch},
		"space behind":           {"/v1/chat/completions", `{"model":"gpt-5.5 ",` + message + `}`, reason.ModelMismatch},
		"space before":           {"/v1/chat/completions", `{"model":"\tgpt-5.5",` + message + `}`, reason.ModelMismatch},
		"nul behind":             {"/v1/chat/completions", `{"model":"gpt-5.5\u0000x",` + message + `}`, reason.ModelMismatch},
		"look-alike":             {"/v1/chat/completions", `{"model":"gpt‑5.5",` + message + `}`, reason.ModelMismatch},
		"with a provider":        {"/v1/chat/completions", `{"model":"openai/gpt-5.5",` + message + `}`, reason.ModelMismatch},
		"with a variant":         {"/v1/chat/completions", `{"model":"gpt-5.5:online",` + message + `}`, reason.ModelMismatch},
		"with a path":            {"/v1/chat/completions", `{"model":"gpt-5.5/../o3",` + message + `}`, reason.ModelMismatch},
		"dated":                  {"/v1/chat/completions", `{"model":"gpt-5.5-2026-04-23",` + message + `}`, reason.ModelMismatch},
		"two names":              {"/v1/chat/completions", `{"model":"gpt-5.5","model":"o3",` + message + `}`, reason.RequestInvalid},
		"two names, escaped":     {"/v1/chat/completions", `{"model":"gpt-5.5","\u006dodel":"o3",` + message + `}`, reason.RequestInvalid},
		"two names by case":      {"/v1/chat/completions", `{"model":"gpt-5.5","Model":"o3",` + message + `}`, reason.RequestInvalid},
		"two names by folding":   {"/v1/responses", `{"model":"gpt-5.5","ſtream":true,"input":"x"}`, reason.RequestInvalid},
		"name with a space":      {"/v1/chat/completions", `{"model":"gpt-5.5","model ":"o3",` + message + `}`, reason.RequestInvalid},
		"empty name":             {"/v1/chat/completions", `{"model":"gpt-5.5","":"o3",` + message + `}`, reason.RequestInvalid},
		"escaped model":          {"/v1/chat/completions", `{"model":"gpt-5.5\u002dpro",` + message + `}`, reason.ModelMismatch},
		"list of models":         {"/v1/chat/completions", `{"model":["gpt-5.5","o3"],` + message + `}`, reason.RequestInvalid},
		"object as a model":      {"/v1/chat/completions", `{"model":{"id":"gpt-5.5"},` + message + `}`, reason.RequestInvalid},
		"no model":               {"/v1/chat/completions", `{` + message + `}`, reason.RequestInvalid},
		"null":                   {"/v1/chat/completions", `{"model":null,` + message + `}`, reason.RequestInvalid},
		"empty model":            {"/v1/chat/completions", `{"model":"",` + message + `}`, reason.RequestInvalid},
		"batch":                  {"/v1/chat/completions", `[{"model":"gpt-5.5",` + message + `}]`, reason.RequestInvalid},
		"two objects":            {"/v1/chat/completions", `{"model":"gpt-5.5",` + message + `}{"model":"o3"}`, reason.RequestInvalid},
		"two lines":              {"/v1/chat/completions", `{"model":"gpt-5.5",` + message + "}\n" + `{"model":"o3"}`, reason.RequestInvalid},
		"byte order mark":        {"/v1/chat/completions", "\xEF\xBB\xBF" + ask(Chat, false, ""), reason.RequestInvalid},
		"utf-16":                 {"/v1/chat/completions", "\xFF\xFE{\x00}\x00", reason.RequestInvalid},
		"not utf-8":              {"/v1/chat/completions", ask(Chat, false, ",\"x\":\"\xff\""), reason.RequestInvalid},
		"comment":                {"/v1/chat/completions", `{"model":"gpt-5.5",/*"model":"o3",*/` + message + `}`, reason.RequestInvalid},
		"comma at the end":       {"/v1/chat/completions", `{"model":"gpt-5.5",` + message + `,}`, reason.RequestInvalid},
		"nothing":                {"/v1/chat/completions", ``, reason.RequestInvalid},
		"blank":                  {"/v1/chat/completions", `   `, reason.RequestInvalid},
		"a number":               {"/v1/chat/completions", `7`, reason.RequestInvalid},
		"deep":                   {"/v1/chat/completions", strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), reason.RequestInvalid},
		"stream as text":         {"/v1/chat/completions", `{"model":"gpt-5.5","stream":"true",` + message + `}`, reason.RequestInvalid},
		"stream as a number":     {"/v1/chat/completions", `{"model":"gpt-5.5","stream":1,` + message + `}`, reason.RequestInvalid},
		"options as text":        {"/v1/chat/completions", ask(Chat, true, `,"stream_options":"x"`), reason.RequestInvalid},
		"options by case":        {"/v1/chat/completions", ask(Chat, true, `,"stream_options":{"Include_Usage":false}`), reason.RequestInvalid},
		"unknown name":           {"/v1/chat/completions", ask(Chat, false, `,"x":1`), reason.HostedToolRefused},
		"fallback models":        {"/v1/chat/completions", ask(Chat, false, `,"models":["o3"]`), reason.HostedToolRefused},
		"provider routing":       {"/v1/chat/completions", ask(Chat, false, `,"provider":{"order":["x"]}`), reason.HostedToolRefused},
		"plugins":                {"/v1/chat/completions", ask(Chat, false, `,"plugins":[{"id":"web"}]`), reason.HostedToolRefused},
		"web search":             {"/v1/chat/completions", ask(Chat, false, `,"web_search_options":{"search_context_size":"low"}`), reason.HostedToolRefused},
		"web search tool":        {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"web_search"}]`), reason.HostedToolRefused},
		"remote tool":            {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"mcp","server_url":"https://evil.example"}]`), reason.HostedToolRefused},
		"code interpreter":       {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"function","name":"a"},{"type":"code_interpreter","container":{"type":"auto"}}]`), reason.HostedToolRefused},
		"another model as tool":  {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"image_generation"}]`), reason.HostedToolRefused},
		"tool in a tool":         {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]`), reason.HostedToolRefused},
		"tool by another case":   {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"function","Type":"web_search"}]`), reason.RequestInvalid},
		"tool of two types":      {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"function","type":"web_search"}]`), reason.RequestInvalid},
		"tool of no type":        {"/v1/responses", ask(Responses, false, `,"tools":[{"name":"x"}]`), reason.HostedToolRefused},
		"tool with an address":   {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"custom","server_url":"https://evil.example"}]`), reason.HostedToolRefused},
		"unknown tool":           {"/v1/responses", ask(Responses, false, `,"tools":[{"type":"teleport"}]`), reason.HostedToolRefused},
		"tools that are none":    {"/v1/responses", ask(Responses, false, `,"tools":{"type":"mcp"}`), reason.RequestInvalid},
		"tool on the way":        {"/v1/responses", `{"model":"gpt-5.5","input":[{"type":"additional_tools","tools":[{"type":"mcp"}]}]}`, reason.HostedToolRefused},
		"in the background":      {"/v1/responses", ask(Responses, false, `,"background":true`), reason.HostedToolRefused},
		"stored prompt":          {"/v1/responses", ask(Responses, false, `,"prompt":{"id":"pmpt_1"}`), reason.HostedToolRefused},
		"stored conversation":    {"/v1/responses", ask(Responses, false, `,"conversation":"conv_1"`), reason.HostedToolRefused},
		"remote servers":         {"/v1/messages", ask(Messages, false, `,"mcp_servers":[{"type":"url","url":"https://evil.example"}]`), reason.HostedToolRefused},
		"container":              {"/v1/messages", ask(Messages, false, `,"container":{"skills":[]}`), reason.HostedToolRefused},
		"fetch tool":             {"/v1/messages", ask(Messages, false, `,"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`), reason.HostedToolRefused},
		"run tool":               {"/v1/messages", ask(Messages, false, `,"tools":[{"type":"code_execution_20250825","name":"x"}]`), reason.HostedToolRefused},
		"adviser":                {"/v1/messages", ask(Messages, false, `,"tools":[{"type":"advisor_20260301","name":"advisor","model":"o3"}]`), reason.HostedToolRefused},
		"image elsewhere, chat":  {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://evil.example/?leak"}}]}]}`, reason.HostedToolRefused},
		"image as text":          {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"image_url","image_url":"ftp://evil.example"}]}]}`, reason.HostedToolRefused},
		"image, escaped":         {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"image_url","\u0069mage_url":{"\u0075rl":"\u0068ttps://evil.example"}}]}]}`, reason.HostedToolRefused},
		"image by another case":  {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"image_url","Image_URL":{"url":"https://evil.example"}}]}]}`, reason.HostedToolRefused},
		"image, two cases":       {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"image_url","image_url":"data:,","imageUrl":"data:,"}]}]}`, reason.RequestInvalid},
		"type, two cases":        {"/v1/messages", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"image","Type":"tool_use","input":{"url":"https://evil.example"}}]}]}`, reason.RequestInvalid},
		"image, two urls":        {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,","url":"https://evil.example"}}]}]}`, reason.RequestInvalid},
		"file elsewhere":         {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"https://evil.example"}}]}]}`, reason.HostedToolRefused},
		"image elsewhere, input": {"/v1/responses", `{"model":"gpt-5.5","input":[{"role":"user","content":[{"type":"input_image","image_url":"https://evil.example"}]}]}`, reason.HostedToolRefused},
		"file elsewhere, input":  {"/v1/responses", `{"model":"gpt-5.5","input":[{"role":"user","content":[{"type":"input_file","file_url":"https://evil.example"}]}]}`, reason.HostedToolRefused},
		"in a tool's output":     {"/v1/responses", `{"model":"gpt-5.5","input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"https://evil.example"}]}]}`, reason.HostedToolRefused},
		"screenshot elsewhere":   {"/v1/responses", `{"model":"gpt-5.5","input":[{"type":"computer_call_output","output":{"image_url":"https://evil.example"}}]}`, reason.HostedToolRefused},
		"image elsewhere, msgs":  {"/v1/messages", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://evil.example"}}]}]}`, reason.HostedToolRefused},
		"in a tool's result":     {"/v1/messages", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"url","url":"https://evil.example"}}]}]}]}`, reason.HostedToolRefused},
		"in a document":          {"/v1/messages", `{"model":"gpt-5.5","messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://evil.example"}}]}}]}]}`, reason.HostedToolRefused},
		"too deep":               {"/v1/messages", `{"model":"gpt-5.5","messages":` + strings.Repeat(`[`, 50) + strings.Repeat(`]`, 50) + `}`, reason.RequestInvalid},
	}
	up := newProvider(t, plain(200, "application/json", wholes(Chat, model)))
	e := open(t, up.URL, nil, nil)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := e.post(t, test.path, test.body)
			refusedForm(t, &got, test.code)
			if test.path == "/v1/messages" != strings.HasPrefix(got.body, `{"error":{"code":"`+string(test.code)+`","message":`) &&
				!strings.Contains(got.body, `"type":"error"`) && test.path == "/v1/messages" {
				t.Errorf("not the protocol's form: %s", got.body)
			}
		})
	}
	if up.count() != 0 {
		t.Errorf("%d requests left the machine", up.count())
	}
	if len(e.all()) != len(tests) {
		t.Errorf("%d records, want %d", len(e.all()), len(tests))
	}
	for _, r := range e.all() {
		if r.Refused == "" || r.RequestSHA256 == "" || !r.CostKnown || r.CostMicroUSD != 0 {
			t.Errorf("record: %+v", r)
		}
	}
}

// What looks similar and is harmless comes through.
func TestHarmlessBodies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		p    Protocol
		more string
	}{
		"inline image":      {Chat, `,"tools":[{"type":"function","function":{"name":"fetch","parameters":{"properties":{"url":{"type":"string"},"image_url":{"type":"string"}}}}}]`},
		"own tools":         {Responses, `,"tools":[{"type":"custom","name":"apply_patch"},{"type":"local_shell"},{"type":"namespace","tools":[{"type":"function","name":"f"}]}]`},
		"own tools by date": {Messages, `,"tools":[{"name":"Bash","input_schema":{}},{"type":"custom","name":"x"},{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"e"}]`},
		"no tools":          {Messages, `,"tools":[],"mcp_servers":[],"container":null`},
		"not in background": {Responses, `,"background":false,"tools":null,"prompt":null`},
		"urls in text":      {Messages, `,"system":[{"type":"text","text":"see https://example.org/?x","cache_control":{"type":"ephemeral"}}]`},
		"tool arguments":    {Messages, `,"system":[{"type":"tool_use","input":{"image_url":"https://example.org","source":{"url":"https://example.org"}}}]`},
		"document text":     {Messages, `,"system":[{"type":"document","source":{"type":"text","data":"a: b"}},{"type":"search_result","source":"https://example.org"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newProvider(t, plain(200, "application/json", wholes(test.p, model)))
			e := open(t, up.URL, nil, nil)
			if got := e.post(t, paths[test.p], ask(test.p, false, test.more)); got.StatusCode != http.StatusOK {
				t.Fatalf("%d %s", got.StatusCode, got.body)
			}
			if _, sent := up.last(t); strings.Contains(sent, "mcp_servers") || strings.Contains(sent, "background") {
				t.Errorf("sent: %s", sent)
			}
		})
	}
}

// Who has not the token gets nothing, whatever else he presents.
func TestToken(t *testing.T) {
	t.Parallel()
	up := newProvider(t, plain(200, "application/json", wholes(Chat, model)))
	e := open(t, up.URL, nil, nil)
	body := ask(Chat, false, "")
	for name, test := range map[string]struct {
		headers string
		want    int
	}{
		"bearer":            {"Authorization: Bearer " + token, 200},
		"lower case scheme": {"authorization: bearer " + token, 200},
		"key":               {"X-Api-Key: " + token, 200},
		"both":              {"X-Api-Key: " + token + "\r\nAuthorization: Bearer " + token, 200},
		"none":              {"X: y", 401},
		"empty":             {"Authorization: Bearer ", 401},
		"wrong":             {"Authorization: Bearer " + token + "x", 401},
		"part":              {"Authorization: Bearer " + token[:8], 401},
		"case":              {"Authorization: Bearer " + strings.ToUpper(token), 401},
		"basic":             {"Authorization: Basic " + token, 401},
		"two":               {"Authorization: Bearer " + token + "\r\nAuthorization: Bearer x", 401},
		"one of two":        {"Authorization: Bearer " + token + "\r\nX-Api-Key: x", 401},
		"the provider's":    {"Authorization: Bearer " + canary, 401},
		"in the path":       {"Cookie: token=" + token, 401},
	} {
		t.Run(name, func(t *testing.T) {
			got := e.raw(t, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", test.headers, len(body), body))
			if got.StatusCode != test.want {
				t.Errorf("status %d: %s", got.StatusCode, got.body)
			}
		})
	}
	if up.count() != 4 {
		t.Errorf("%d requests left, want 4", up.count())
	}
	if e := open(t, up.URL, func(o *Options) { o.Token = "" }, nil); e.post(t, "/v1/chat/completions", body).StatusCode != http.StatusOK {
		t.Error("a gateway without a token asks for one")
	}
}

// Headers that smuggle: nothing of the engine's goes on, and no two servers see
// two requests.
func TestHeaderTricks(t *testing.T) {
	t.Parallel()
	up := newProvider(t, plain(200, "application/json", wholes(Messages, model)))
	e := open(t, up.URL, nil, nil)
	body := ask(Messages, false, "")
	smuggled := "POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	for name, test := range map[string]struct {
		head, body string
		reaches    bool
	}{
		"ordinary": {fmt.Sprintf("Host: evil.example\r\nContent-Length: %d\r\nX-Forwarded-Host: evil.example\r\nForwarded: host=evil.example\r\nX-HTTP-Method-Override: DELETE\r\n"+
			"Cookie: a=b\r\nX-Claude-Code-Session-Id: s1\r\nSession_Id: s2\r\nThread-Id: s3\r\nOriginator: codex\r\nX-Codex-Turn-Metadata: {\"cwd\":\"/home/u\"}\r\nUser-Agent: agent/1 (host box)\r\n"+
			"OpenAI-Organization: org-1\r\nIdempotency-Key: k\r\nProxy-Authorization: Basic eDp5\r\nX-Stainless-Os: Linux\r\nTE: trailers\r\nAccept-Encoding: gzip, br\r\n"+
			"Anthropic-Version: 2023-06-01\r\nAnthropic-Beta: context-management-2025-06-27,mcp-client-2025-04-04, code-execution-2025-08-25,interleaved-thinking-2025-05-14\r\n"+
			"Anthropic-Beta: Bad Name,oauth-2025-04-20,fast-mode-2026-02-01", len(body)), body, true},
		"two hosts":           {fmt.Sprintf("Host: a\r\nHost: b\r\nContent-Length: %d", len(body)), body, false},
		"host with a path":    {fmt.Sprintf("Host: evil.example/x\r\nContent-Length: %d", len(body)), body, false},
		"no host":             {fmt.Sprintf("Content-Length: %d", len(body)), body, false},
		"two lengths":         {fmt.Sprintf("Host: x\r\nContent-Length: %d\r\nContent-Length: 5", len(body)), body, false},
		"length and chunks":   {fmt.Sprintf("Host: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked", len(body)), fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body), true},
		"chunks that lie":     {"Host: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked", "0\r\n\r\n" + smuggled, false},
		"unknown encoding":    {fmt.Sprintf("Host: x\r\nContent-Length: %d\r\nTransfer-Encoding: xchunked", len(body)), body, false},
		"space in a name":     {fmt.Sprintf("Host: x\r\nContent-Length : %d", len(body)), body, false},
		"folded line":         {fmt.Sprintf("Host: x\r\nX: a\r\n b\r\nContent-Length: %d", len(body)), body, true},
		"more than its body":  {fmt.Sprintf("Host: x\r\nContent-Length: %d", len(body)), body + smuggled, true},
		"compressed":          {fmt.Sprintf("Host: x\r\nContent-Encoding: gzip\r\nContent-Length: %d", len(body)), body, false},
		"two types":           {fmt.Sprintf("Host: x\r\nContent-Type: text/plain\r\nContent-Length: %d", len(body)), body, false},
		"large":               {fmt.Sprintf("Host: x\r\nX: %s\r\nContent-Length: %d", strings.Repeat("x", 64<<10), len(body)), body, false},
		"trailers":            {"Host: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Api-Key", fmt.Sprintf("%x\r\n%s\r\n0\r\nX-Api-Key: stolen\r\n\r\n", len(body), body), true},
		"upgrade":             {fmt.Sprintf("Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: %d", len(body)), body, true},
		"bad protocol number": {fmt.Sprintf("Host: x\r\nAnthropic-Version: 2023-06-01\\r\\nX: y\r\nContent-Length: %d", len(body)), body, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := up.count()
			got := e.raw(t, "POST /v1/messages HTTP/1.1\r\nX-Api-Key: "+token+"\r\nContent-Type: application/json\r\n"+test.head+"\r\n\r\n"+test.body)
			reached := up.count() - before
			if (reached == 1) != test.reaches || reached > 1 {
				t.Fatalf("%d requests left: %+v", reached, got)
			}
			if !test.reaches {
				return
			}
			asked, _ := up.last(t)
			if asked.Host != strings.TrimPrefix(up.URL, "http://") || asked.URL.Path != "/v1/messages" || len(asked.Trailer) > 0 {
				t.Errorf("asked %s for %s", asked.Host, asked.URL)
			}
			known := map[string]bool{"Accept": true, "Accept-Encoding": true, "Anthropic-Beta": true, "Anthropic-Version": true,
				"Content-Length": true, "Content-Type": true, "User-Agent": true, "X-Api-Key": true}
			for name, values := range asked.Header {
				if !known[name] || len(values) != 1 {
					t.Errorf("header %s: %q", name, values)
				}
			}
			if asked.Header.Get("X-Api-Key") != canary || asked.Header.Get("User-Agent") != "remit" || asked.Header.Get("Anthropic-Version") != "2023-06-01" {
				t.Errorf("headers: %v", asked.Header)
			}
			if name == "ordinary" && asked.Header.Get("Anthropic-Beta") != "context-management-2025-06-27,interleaved-thinking-2025-05-14" {
				t.Errorf("betas: %q", asked.Header.Get("Anthropic-Beta"))
			}
		})
	}
}

// What tells who is working where does not leave.
func TestIdentityStays(t *testing.T) {
	t.Parallel()
	up := newProvider(t, plain(200, "application/json", wholes(Responses, model)))
	e := open(t, up.URL, nil, nil)
	identity := `,"client_metadata":{"x-codex-installation-id":"inst-1","cwd":"/home/ann/secret-project"},"metadata":{"user_id":"device-2"},` +
		`"user":"ann","safety_identifier":"ann-3","prompt_cache_key":"thread-4","service_tier":"priority","speed":"fast","store":false,"include":["reasoning.encrypted_content"]`
	var keys []string
	for range 2 {
		if got := e.post(t, "/v1/responses", ask(Responses, false, identity)); got.StatusCode != http.StatusOK {
			t.Fatal(got.body)
		}
		_, sent := up.last(t)
		for _, word := range []string{"inst-1", "secret-project", "device-2", "ann", "thread-4", "priority", "fast", "metadata"} {
			if strings.Contains(sent, word) {
				t.Errorf("%q left: %s", word, sent)
			}
		}
		for _, word := range []string{`"store":false`, `"include":["reasoning.encrypted_content"]`, `"prompt_cache_key":"`} {
			if !strings.Contains(sent, word) {
				t.Errorf("%q is lost: %s", word, sent)
			}
		}
		_, key, _ := strings.Cut(sent, "prompt_cache_key")
		keys = append(keys, key)
	}
	if keys[0] != keys[1] {
		t.Error("the cache of the provider finds nothing again")
	}
}

// A body without end, and one that comes a byte at a time, cost a connection
// for a while and nothing else.
func TestGiantAndSlowBodies(t *testing.T) {
	t.Parallel()
	up := newProvider(t, plain(200, "application/json", wholes(Chat, model)))
	tune := func(body time.Duration) func(*bounds) {
		return func(b *bounds) { b.request, b.allBodies, b.body = 64<<10, 300<<10, body }
	}
	e, hasty := open(t, up.URL, nil, tune(2*time.Second)), open(t, up.URL, nil, tune(50*time.Millisecond))
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + token + "\r\n"
	for name, test := range map[string]struct {
		text string
		code reason.Code
	}{
		"stated":      {head + "Content-Length: 99999999999\r\n\r\n{", reason.RequestTooLarge},
		"in chunks":   {head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("8000\r\n"+strings.Repeat(" ", 0x8000)+"\r\n", 3), reason.RequestTooLarge},
		"never whole": {head + "Content-Length: 100\r\n\r\n{", reason.RequestInvalid},
		"no end":      {head + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", reason.RequestInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := e.raw(t, test.text)
			if got == nil {
				t.Fatal("no answer")
			}
			refusedForm(t, got, test.code)
		})
	}
	t.Run("many at a time", func(t *testing.T) {
		t.Parallel()
		var conns []net.Conn
		for range 20 { // each of them states the largest body and sends none
			c, err := net.Dial("tcp", hasty.addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			conns = append(conns, c)
			io.WriteString(c, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", 64<<10))
		}
		for _, c := range conns {
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			if b, _ := io.ReadAll(c); !strings.Contains(string(b), "request_invalid") {
				t.Errorf("got %q", b)
			}
		}
	})
	t.Cleanup(func() {
		if up.count() != 0 {
			t.Errorf("%d requests left", up.count())
		}
		if e.bodies.free != 300<<10 || hasty.bodies.free != 300<<10 {
			t.Errorf("%d and %d bytes of the pools are free", e.bodies.free, hasty.bodies.free)
		}
	})
}

// A command in the sandbox can ask as fast as the machine answers, and every
// request is a line of the journal: beyond so many they are counted, and that
// is all.
func TestFloodIsBounded(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]Limits{"no limit": {}, "a limit of the contract's": {Requests: 3}, "a limit that allows everything": {Requests: 1 << 53}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newProvider(t, plain(http.StatusOK, "application/json", wholes(Chat, model)))
			e := open(t, up.URL, func(o *Options) { o.Limits = limits }, func(b *bounds) { b.requests = 5 })
			const allowed = 5
			for range allowed + 10 {
				e.post(t, "/nowhere", "x")
			}
			if got := e.post(t, "/v1/chat/completions", ask(Chat, false, "")); got.StatusCode == http.StatusOK || up.count() != 0 {
				t.Errorf("a request went out after the flood: %d, %d", got.StatusCode, up.count())
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			total := e.Totals()
			if got := len(e.all()); got != allowed {
				t.Errorf("%d records, want %d", got, allowed)
			}
			if total.Refused != int64(allowed+11) || total.Requests != 0 || total.Exhausted != reason.BudgetExhausted || !total.Flooded {
				t.Errorf("%+v", total)
			}
		})
	}
}
