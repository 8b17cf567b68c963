package panel

import (
	"crypto/rand"
	"fmt"
	"html/template"
	"path"
	"strings"
	"time"

	"remit/nexus/api"
	"remit/proof/bundle"
)

// parse reads the templates: layout and parts, and one file for each page.
func (p *Panel) parse() (map[string]*template.Template, error) {
	shared, err := template.New("").Funcs(p.functions()).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html", "pages/runparts.html")
	if err != nil {
		return nil, fmt.Errorf("read the layout of the panel: %w", err)
	}
	files, err := pageFiles.ReadDir("pages")
	if err != nil {
		return nil, fmt.Errorf("read the pages of the panel: %w", err)
	}
	pages := map[string]*template.Template{}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), path.Ext(f.Name()))
		if name == "layout" || strings.HasSuffix(name, "parts") {
			continue
		}
		one, err := shared.Clone()
		if err == nil {
			one, err = one.ParseFS(pageFiles, "pages/"+f.Name())
		}
		if err != nil {
			return nil, fmt.Errorf("read the page %s: %w", name, err)
		}
		pages[name] = one
	}
	return pages, nil
}

// args is a value and what a part of a template needs beside it.
type args struct{ A, B, C any }

func (p *Panel) functions() template.FuncMap {
	return template.FuncMap{
		"took": took, "money": money, "size": size, "digest": shortDigest, "clip": clip, "count": count, "thousands": thousands,
		"thousands64": func(n int) string { return thousands(int64(n)) },
		"mark":        markOf, "word": statusWord, "newKey": rand.Text, "markdown": spans,
		"asset": func(name string) (string, error) {
			a, ok := p.assets[name]
			if !ok {
				return "", fmt.Errorf("there is no asset %q", name)
			}
			return "/assets/" + name + "?" + a.tag[len("sha256:"):][:16], nil
		},
		"ms":       func(ms int64) string { return took(time.Duration(ms) * time.Millisecond) },
		"args":     func(a, b, c any) args { return args{a, b, c} },
		"plus":     func(a, b int) int { return a + b },
		"when":     func(v any) moment { return momentOf(v) },
		"join":     strings.Join,
		"caseMark": caseMark,
		"gateMark": func(s bundle.Status) string { return gateMarks[s] },
		"signed": func(n int) string {
			if n < 0 {
				return fmt.Sprintf("−%d", -n)
			}
			return fmt.Sprintf("+%d", n)
		},
		"short": func(id string) string { return id[max(0, len(id)-6):] },
		"value": func(s *string) string { return api.Value(s) },
	}
}

// moment is a time as a page has it: the script writes it in the viewer's zone.
type moment struct{ Machine, Short, Long string }

func momentOf(v any) moment {
	var t time.Time
	switch v := v.(type) {
	case time.Time:
		t = v
	case string:
		t = instant(v)
	case *string:
		t = instant(api.Value(v))
	}
	if t.IsZero() {
		return moment{}
	}
	t = t.UTC()
	return moment{t.Format(time.RFC3339), t.Format("02 Jan 15:04"), t.Format("2006-01-02 15:04:05 UTC")}
}

// fragment is a piece of a text, in a fixed width where it stood in backticks.
type fragment struct {
	Text string
	Code bool
}

// spans splits the words of a contract at their backticks, and does nothing else
// with them: they are shown word for word.
func spans(s string) []fragment {
	var out []fragment
	for i, piece := range strings.Split(s, "`") {
		if piece != "" {
			out = append(out, fragment{piece, i%2 == 1})
		}
	}
	return out
}

var gateMarks = map[bundle.Status]string{bundle.Pass: "pass", bundle.Fail: "fail", bundle.Blocked: "block", bundle.Skipped: "none"}
