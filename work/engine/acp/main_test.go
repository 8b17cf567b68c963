package acp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"remit/work/sandbox"
)

// fakeArgument makes the test binary an agent that speaks the protocol.
const fakeArgument = "__fake-acp-agent"

func TestMain(m *testing.M) {
	sandbox.Init() // the tests start sandboxes
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Argument:
			os.Exit(Process(os.Args[2:]))
		case fakeArgument:
			os.Exit(fakeAgent(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// fakeAgent answers the client as well as its mode lets it.
func fakeAgent(mode string) int {
	f := &fake{in: bufio.NewScanner(os.Stdin)}
	f.in.Buffer(nil, 1<<20)
	if mode == "early" {
		fmt.Fprintln(os.Stderr, "a canary of stderr")
		return 3
	}
	hello := f.next()
	switch mode {
	case "version":
		f.answer(hello, `{"protocolVersion":2}`)
	case "malformed":
		f.say(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1`)
	case "neither":
		f.say(`{"jsonrpc":"2.0","id":1}`)
	case "early-after-malformed":
		f.say(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1`)
		return 4
	case "noise":
		f.say("(node:7) Warning: noise\n\n[1]\nnull\n" + `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n" + `{"jsonrpc":"2.0","method":"_of/the_future","params":1.5}`)
		fallthrough
	default:
		f.answer(hello, `{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"fake"}}`)
	}
	session := f.next()
	if mode == "auth" {
		f.say(`{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}`)
		f.next()
		return 0
	}
	f.answer(session, `{"sessionId":"s-1","modes":null}`)
	prompt := f.next()
	switch mode {
	case "hang":
		f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I think."}}`)
		f.waitForCancel(prompt)
	case "deaf":
		f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I think."}}`)
		time.Sleep(time.Hour)
	case "long":
		f.say(`{"jsonrpc":"2.0","method":"session/update","params":"` + strings.Repeat("a", maxMessage) + `"}`)
		time.Sleep(time.Hour)
	case "failed":
		f.say(`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Internal error","data":{"details":"the run has spent its budget (remit: budget_exhausted)"}}}`)
	case "silent":
		return 0
	case "crash":
		f.update(`{"sessionUpdate":"tool_call","toolCallId":"t","title":"look","kind":"read","rawInput":{"path":"a"}}`)
		fmt.Println("panic: out of ideas")
		return 9
	case "refusal", "max_tokens", "max_turn_requests", "cancelled", "of the future":
		f.answer(prompt, `{"stopReason":"`+mode+`"}`)
	case "methods":
		f.say(`{"jsonrpc":"2.0","id":"w-1","method":"fs/write_text_file","params":{"path":"/workspace/x","content":"x"}}`)
		f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + quoted(f.next()) + `}}`)
		f.answer(prompt, `{"stopReason":"end_turn"}`)
	case "permission", "permission-forever":
		options := `{"optionId":"always","name":"Always","kind":"allow_always"},{"optionId":"no","name":"No","kind":"reject_once"}`
		if mode == "permission" {
			options += `,{"optionId":"once","name":"Once","kind":"allow_once"}`
		}
		f.say(`{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"s-1","toolCall":{"toolCallId":"t"},"options":[` + options + `]}}`)
		f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + quoted(f.next()) + `}}`)
		f.answer(prompt, `{"stopReason":"end_turn"}`)
	case "echo": // for the sandbox: what it got, and a change
		f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + quoted(prompt+session+os.Getenv("OPENAI_BASE_URL")+" "+os.Getenv("REMIT_MODEL")+" "+os.Getenv("REMIT_CANARY")) + `}}`)
		if err := os.WriteFile("made.txt", []byte("made\n"), 0o644); err != nil {
			return 5
		}
		f.answer(prompt, `{"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2,"cachedReadTokens":3,"cachedWriteTokens":4,"totalTokens":10}}`)
	case "stays":
		f.answer(prompt, `{"stopReason":"end_turn"}`)
		time.Sleep(time.Hour)
	case "twice":
		f.answer(prompt, `{"stopReason":"end_turn"}`)
		f.answer(prompt, `{"stopReason":"end_turn"}`)
	default:
		f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."}}`)
		f.answer(prompt, `{"stopReason":"end_turn"}`)
	}
	f.next() // until stdin is closed
	return 0
}

type fake struct{ in *bufio.Scanner }

// next is the next line of the client, "" if there is none.
func (f *fake) next() string {
	f.in.Scan()
	return f.in.Text()
}

func (f *fake) say(text string) { fmt.Println(text) }

func (f *fake) answer(request, result string) {
	if request == "" {
		os.Exit(0) // the client has closed our stdin
	}
	var m message
	if err := json.Unmarshal([]byte(request), &m); err != nil {
		panic(err)
	}
	f.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
}

func (f *fake) update(update string) {
	f.say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":` + update + `}}`)
}

// waitForCancel answers the prompt as an agent does that was cancelled.
func (f *fake) waitForCancel(prompt string) {
	for line := f.next(); line != ""; line = f.next() {
		if strings.Contains(line, methodCancel) {
			f.answer(prompt, `{"stopReason":"cancelled"}`)
			return
		}
	}
}

func quoted(s string) string { return string(encode(s)) }

// watcher does something when it has seen a text.
type watcher struct {
	io.Writer
	until string
	then  func()
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.until != "" && strings.Contains(string(p), w.until) {
		w.until = ""
		w.then()
	}
	return n, err
}
