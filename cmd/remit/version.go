package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"remit/work/verify"
)

// schemaNames are the documents that this build writes and reads, as files of
// schemas/.
var schemaNames = []string{"admission-model.v1", "admission-source.v1", "admission-target.v1", "approval-grant.v1", "approval-packet.v1", "context.v1", "contract.v1", "contract.v2",
	"decision-promotion.v1", "decision-provider.v1", "eligibility.v1", "event.v1", "health.v1", "journal-entry.v1", "ladder-guard.v1", "ladder-proof.v1", "ladder-refresh.v1",
	"proof.v1", "receipt.v1", "records-check.v1", "replay.v1", "report.v1", "test-result.v1", "trace.v1"}

// buildSettings are what of the build's settings tells two builds of one commit
// apart.
var buildSettings = []string{"-trimpath", "-tags", "CGO_ENABLED", "vcs.modified", "vcs.time"}

// versionDocument says which program this is.
type versionDocument struct {
	Version        string            `json:"version"`
	Commit         string            `json:"commit"`
	Go             string            `json:"go"`
	Platform       string            `json:"platform"`
	Build          map[string]string `json:"build"` // settings of the build, as far as it has kept them
	VerifierSHA256 string            `json:"verifier_sha256"`
	Engines        []string          `json:"engines"`
	Schemas        []string          `json:"schemas"`
}

func thisVersion() versionDocument {
	d := versionDocument{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Build: map[string]string{}, VerifierSHA256: verify.Digest(), Engines: engineNames(), Schemas: schemaNames}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if slices.Contains(buildSettings, s.Key) {
				d.Build[s.Key] = s.Value
			}
		}
	}
	return d
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which build of Remit this is", Args: cobra.NoArgs,
		Long: `Version prints what tells this build from another: version and commit, the Go that
built it and how, the digest of the verifier that reports and proofs name, the engines,
and the schemas of the documents that it writes and reads. 'remit --version' prints the
first two alone.`,
		Example: `  remit version
  remit version --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := thisVersion()
			return a.present(cmd.OutOrStdout(), d, func(w io.Writer) error { return printVersion(w, d) })
		},
	}
}

func printVersion(w io.Writer, d versionDocument) error {
	var build []string
	for _, key := range buildSettings {
		if value, ok := d.Build[key]; ok {
			build = append(build, key+"="+value)
		}
	}
	_, err := fmt.Fprintf(w, "remit %s (%s)\nbuild     %s\ngo        %s %s\nverifier  %s\nengines   %s\nschemas   %s\n", d.Version, d.Commit,
		strings.Join(build, " "), d.Go, d.Platform, d.VerifierSHA256, strings.Join(d.Engines, " "), strings.Join(d.Schemas, " "))
	return err
}
