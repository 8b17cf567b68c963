package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkStreams measures the delay of an event while many streams run at a
// time, each with an event every 50 ms, as a fast model sends them. All streams
// of a round are asked for at the same moment, so the first event of each is
// reported apart: it waits until the requests before it are on their way.
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
	delays := func(url string) (all []time.Duration, err error) {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(ask(Chat, true, "")))
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
			measure := func(url string, first, later *[]time.Duration) {
				var mu sync.Mutex
				var wg sync.WaitGroup
				for range streams {
					wg.Go(func() {
						took, err := delays(url)
						mu.Lock()
						defer mu.Unlock()
						if err != nil || len(took) == 0 {
							b.Errorf("%d events, %v", len(took), err)
							return
						}
						*first, *later = append(*first, took[0]), append(*later, took[1:]...)
					})
				}
				wg.Wait()
			}
			var directFirst, direct, first, through []time.Duration
			for b.Loop() {
				measure(up.URL, &directFirst, &direct)
				measure(e.url+"/v1/chat/completions", &first, &through)
			}
			percentiles(b, direct, through, "/event")
			percentiles(b, directFirst, first, "/first-event")
		})
	}
}
