package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkStreams is the delay of an event while many streams go on at a time,
// each with an event every 50 ms, as a fast model sends them. What is measured
// directly is what the machine itself delays at that load; the difference is
// the gateway's.
func BenchmarkStreams(b *testing.B) {
	const pace, events = 50 * time.Millisecond, 40
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for range events {
			fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5.5\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d\"}}]}\n\n", time.Now().UnixNano())
			w.(http.Flusher).Flush()
			<-tick.C
		}
	}))
	defer up.Close()
	e := open(b, up.URL, func(o *Options) { o.KeepBodies = nil }, func(b *bounds) { b.drain = time.Millisecond })
	client := &http.Transport{MaxIdleConnsPerHost: 128}
	defer client.CloseIdleConnections()
	late := func(url string) (all []time.Duration, err error) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(ask(Chat, true, "")))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Api-Key", token)
		res, err := client.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		buf := make([]byte, 4096)
		for {
			n, err := res.Body.Read(buf)
			now := time.Now().UnixNano()
			for _, event := range strings.Split(string(buf[:n]), `"content":"`)[1:] {
				stamp, _, _ := strings.Cut(event, `"`)
				if sent, err := strconv.ParseInt(stamp, 10, 64); err == nil {
					all = append(all, time.Duration(now-sent))
				}
			}
			if err != nil {
				return all, nil // it has no end of the protocol, so through the gateway it breaks off
			}
		}
	}
	for _, streams := range []int{1, 10, 100} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			measure := func(url string) (all []time.Duration) {
				var mu sync.Mutex
				var wg sync.WaitGroup
				for range streams {
					wg.Go(func() {
						took, err := late(url)
						mu.Lock()
						defer mu.Unlock()
						if all = append(all, took...); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
				return all
			}
			var direct, through []time.Duration
			for b.Loop() {
				direct = append(direct, measure(up.URL)...)
				through = append(through, measure(e.url+"/v1/chat/completions")...)
			}
			percentiles(b, direct, through, "/event")
			slices.Sort(direct)
			b.ReportMetric(float64(direct[len(direct)*99/100].Nanoseconds())/1e6, "direct-p99-ms/event")
		})
	}
}
