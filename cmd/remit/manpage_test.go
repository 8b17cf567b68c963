package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command has its page, the same each time, and a help text cannot give an
// order to the formatter.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := writeManPages(newRoot(), dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "remit*.1"))
	if err != nil || len(pages) < 100 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	known := map[string]bool{".TH": true, ".SH": true, ".PP": true, ".TP": true, ".nf": true, ".fi": true}
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(page), "\n") {
			word, _, _ := strings.Cut(line, " ")
			if strings.HasPrefix(line, ".") && !known[word] || strings.HasPrefix(line, "'") {
				t.Errorf("%s:%d: a request that is none of the writer's: %s", filepath.Base(path), n+1, line)
			}
		}
		for _, section := range []string{".TH REMIT", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n"} {
			if !strings.Contains(string(page), section) {
				t.Errorf("%s lacks %q", filepath.Base(path), section)
			}
		}
	}

	hostile := &cobra.Command{
		Use: "x", Short: "a \\fBb\\fP – c", Run: func(*cobra.Command, []string) {},
		Long: ".so /etc/passwd\n'so x\n\n  --as it\n  .stands\n\nend",
	}
	hostile.Flags().String("n", "1", "`NAME` of it")
	want := `.TH X 1 "" "Remit ` + version + `" Remit
.SH NAME
x \- a \efBb\efP \[u2013] c
.SH SYNOPSIS
\fBx [flags]\fR
.SH DESCRIPTION
\&.so /etc/passwd
\&'so x
.PP
.nf
  \-\-as it
  .stands
.fi
.PP
end
.SH OPTIONS
.TP
\fB\-\-n\fR \fINAME\fR
NAME of it (default 1)
`
	if got := manPage(hostile); got != want {
		t.Errorf("the page is\n%s\nnot\n%s", got, want)
	}
}
