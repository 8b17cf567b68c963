package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// agentBody is a request of the size that coding agents send.
func agentBody(p Protocol, stream bool) string {
	line := `read \"src/main.go\": func main() { fmt.Println(\"x\") }\n`
	said := make([]string, 0, 60)
	for i := range cap(said) {
		said = append(said, fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"%s"},{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"ls"}}]}`,
			strings.Repeat(line, 900/len(line)), i))
	}
	name := map[Protocol]string{Chat: "messages", Responses: "input", Messages: "messages"}[p]
	return fmt.Sprintf(`{"model":%q,"stream":%t,"metadata":{"user_id":"u"},"tool_choice":"auto",%q:[%s]}`, model, stream, name, strings.Join(said, ","))
}

// timed posts a body and reads the answer to its end.
func timed(b *testing.B, client *http.Transport, url, body string) time.Duration {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", token)
	start := time.Now()
	res, err := client.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("status %d: %v", res.StatusCode, err)
	}
	return time.Since(start)
}

// percentiles reports the median and the 99th percentile of what the gateway
// adds to a direct connection, both measured in turns under the same load.
func percentiles(b *testing.B, direct, through []time.Duration, unit string) {
	b.Helper()
	at := func(d []time.Duration, share float64) float64 {
		slices.Sort(d)
		return float64(d[int(share*float64(len(d)-1))].Nanoseconds()) / 1e6
	}
	b.ReportMetric(0, "ns/op") // it would mix the two
	b.ReportMetric(at(direct, 0.5), "direct-p50-ms"+unit)
	b.ReportMetric(at(direct, 0.99), "direct-p99-ms"+unit)
	b.ReportMetric(at(through, 0.5)-at(direct, 0.5), "added-p50-ms"+unit)
	b.ReportMetric(at(through, 0.99)-at(direct, 0.99), "added-p99-ms"+unit)
}

// BenchmarkRequest is the whole of a small answer to a request of 60 kB.
func BenchmarkRequest(b *testing.B) {
	for _, p := range protocols {
		b.Run(string(p), func(b *testing.B) {
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					plain(200, "application/json", wholes(p, model))(w, r)
				}
			}))
			defer up.Close()
			e := open(b, up.URL, func(o *Options) { o.KeepBodies = nil }, func(b *bounds) { b.drain = time.Millisecond })
			client := &http.Transport{}
			defer client.CloseIdleConnections()
			body := agentBody(p, false)
			var direct, through []time.Duration
			for b.Loop() {
				direct = append(direct, timed(b, client, up.URL, body))
				through = append(through, timed(b, client, e.url+paths[p], body))
			}
			percentiles(b, direct, through, "")
		})
	}
}

// BenchmarkChunk is the way of one event of a stream, from the provider's write
// to the engine's read. The provider puts the time into the event.
func BenchmarkChunk(b *testing.B) {
	begun := make(chan chan struct{}) // of each stream: one event goes when something is sent
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		next := make(chan struct{})
		begun <- next
		for {
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
			fmt.Fprintf(w, "data: {\"id\":\"chatcmpl-000000000000000000000000\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5.5\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%016x\"}}]}\n\n",
				time.Now().UnixNano())
			w.(http.Flusher).Flush()
		}
	}))
	defer up.Close()
	e := open(b, up.URL, func(o *Options) { o.KeepBodies = nil }, func(b *bounds) { b.drain = time.Millisecond })
	measure := func(url string, n int) []time.Duration {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(agentBody(Chat, true)))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Api-Key", token)
		nexts := make(chan chan struct{}, 1)
		go func() {
			next := <-begun
			next <- struct{}{} // the gateway answers with the first event
			nexts <- next
		}()
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		defer res.Body.Close()
		next := <-nexts
		var took []time.Duration
		buf := make([]byte, 4096)
		for i := range n + 1 {
			if i > 0 {
				next <- struct{}{}
			}
			var got []byte
			for !strings.HasSuffix(string(got), "\n\n") {
				k, err := res.Body.Read(buf)
				if err != nil {
					b.Fatal(err)
				}
				got = append(got, buf[:k]...)
			}
			now := time.Now().UnixNano()
			_, stamp, _ := strings.Cut(string(got), `"content":"`)
			raw, err := hex.DecodeString(stamp[:16])
			if err != nil {
				b.Fatal(err)
			}
			if i > 0 {
				took = append(took, time.Duration(now-int64(binary.BigEndian.Uint64(raw))))
			}
		}
		return took
	}
	var direct, through []time.Duration
	for b.Loop() {
		direct = append(direct, measure(up.URL, 50)...)
		through = append(through, measure(e.url+"/v1/chat/completions", 50)...)
	}
	percentiles(b, direct, through, "/chunk")
}

// goalPerStream is what a stream may hold in memory.
const goalPerStream = 64 << 10

// BenchmarkMemory holds 100 streams open, after a request of 60 kB on each, and
// compares the memory with that of 100 direct ones: what is more is the
// gateway's, its connections to both sides included.
func BenchmarkMemory(b *testing.B) {
	const streamsOpen = 100
	end := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		parts := streams(Messages, model)
		sse(parts[:3]...)(w, r)
		<-end
		sse(parts[3:]...)(w, r)
	}))
	defer up.Close()
	e := open(b, up.URL, func(o *Options) { o.KeepBodies = nil }, func(b *bounds) { b.drain = time.Millisecond })
	body := agentBody(Messages, true)
	hold := func(url string) (perStream int64) {
		client := &http.Transport{}
		defer client.CloseIdleConnections()
		before := inUse()
		var wg, open sync.WaitGroup
		for range streamsOpen {
			open.Add(1)
			wg.Go(func() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Api-Key", token)
				res, err := client.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				defer res.Body.Close()
				if _, err := io.ReadFull(res.Body, make([]byte, len(strings.Join(streams(Messages, model)[:3], "")))); err != nil {
					b.Error(err)
				}
				open.Done()
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					b.Error(err)
				}
			})
		}
		open.Wait()
		perStream = (inUse() - before) / streamsOpen
		for range streamsOpen {
			end <- struct{}{}
		}
		wg.Wait()
		return perStream
	}
	var added []int64
	for b.Loop() {
		direct := hold(up.URL)
		added = append(added, hold(e.url+"/v1/messages")-direct)
	}
	slices.Sort(added)
	median := added[len(added)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median), "bytes/stream")
	if median > goalPerStream {
		b.Errorf("a stream holds %d bytes, the goal is %d", median, goalPerStream)
	}
}

// inUse is the memory that is held after everything unused was given back.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
