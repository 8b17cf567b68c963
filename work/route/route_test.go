//test:plain-package It only computes: there is one goroutine.

package route

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/law/admission"
	"remit/law/task"
	"remit/proof/evidence"
)

// put writes a record into a home.
func put(t *testing.T, home, name string, text []byte, err error) {
	t.Helper()
	path := filepath.Join(home, filepath.FromSlash(name))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var ruling = admission.Ruling{Decision: admission.Admitted, By: "test", At: "2026-02-03T04:05:06.007Z", Reason: "test"}

// TestAdmissionSaysWhy: a build that no record admits is refused with what the
// record says of it, and with the command that decides about it.
func TestAdmissionSaysWhy(t *testing.T) {
	t.Parallel()
	digest := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	build := evidence.EngineIdentity{Name: "pi", Version: "0.73.1", SHA256: digest("1")}
	for name, test := range map[string]struct {
		change         func(*admission.SourceDecision) // nil: no record
		damaged        bool
		detail, remedy string
	}{
		"no record":       {nil, false, "no record admits", "remit admit source --engine pi --decision admitted"},
		"it holds":        {func(*admission.SourceDecision) {}, false, "is admitted", ""},
		"another version": {func(d *admission.SourceDecision) { d.Version = "0.73.0" }, false, "the record is stale", "remit admit source --engine pi"},
		"another program": {func(d *admission.SourceDecision) { d.SHA256 = digest("2") }, false, "the record is stale", "remit admit source --engine pi"},
		"rejected":        {func(d *admission.SourceDecision) { d.Decision = admission.Rejected }, false, "is rejected", "remit admit list"},
		"damaged":         {func(*admission.SourceDecision) {}, true, "", "move it away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			if test.change != nil {
				d := admission.SourceDecision{Ruling: ruling, Engine: build.Name, Version: build.Version, SHA256: build.SHA256}
				test.change(&d)
				rec, err := admission.NextSource(nil, d)
				if err != nil {
					t.Fatal(err)
				}
				text, err := rec.Encode()
				if test.damaged {
					text = text[:len(text)/2]
				}
				put(t, home, admission.SourceFile(build.Name), text, err)
			}
			got, result := Admission(Records(home, false, nil), build)
			if got.SourceStatus != result.SourceStatus() || got.ProvenMode != task.ModeNone || got.Enabled {
				t.Errorf("%+v", got)
			}
			if !strings.Contains(got.Detail, test.detail) || got.Detail == "" || !strings.Contains(got.Remedy, test.remedy) || (got.Remedy == "") != result.Admitted() {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := AdmitSource("acp", ""); !strings.Contains(got, "--bin PROGRAM ") {
		t.Error(got)
	}
}

// TestRouteSaysWhy: so is a way to a model that its record does not allow. An
// address that is none is not the record's matter.
func TestRouteSaysWhy(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, d := range []admission.ModelDecision{
		{Ruling: ruling, Provider: "openai", Model: "m"},
		{Ruling: ruling, Provider: "own", Model: "m", Class: admission.Local},
	} {
		rec, err := admission.NextModel(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		text, err := rec.Encode()
		put(t, home, admission.ModelFile(d.Provider, d.Model), text, err)
	}
	for name, test := range map[string]struct {
		m              Model
		status         admission.Status
		detail, remedy string
	}{
		"as admitted":       {Model{Provider: "openai", Name: "m"}, admission.StatusAdmitted, "is admitted", ""},
		"another model":     {Model{Provider: "openai", Name: "n"}, admission.StatusMissing, "no record admits", "remit admit model --provider openai --model n --class hosted --credential environment --network internet --decision admitted"},
		"a key by command":  {Model{Provider: "openai", Name: "m", KeyCommand: []string{"pass"}}, admission.StatusMismatch, "from: command", "--credential command"},
		"no address":        {Model{Provider: "own", Name: "m", Local: true}, admission.StatusAdmitted, "", ""},
		"no scheme":         {Model{Provider: "own", Name: "m", Local: true, BaseURL: "127.0.0.1:8080/v1"}, admission.StatusAdmitted, "", ""},
		"beyond its record": {Model{Provider: "own", Name: "m", Local: true, BaseURL: "http://10.0.0.1/v1"}, admission.StatusMismatch, "on: private", "--network private"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := test.m.Route(Records(home, false, nil), nil)
			if got.Status != test.status || !strings.Contains(got.Detail, test.detail) || !strings.Contains(got.Remedy, test.remedy) || test.remedy == "" && got.Remedy != "" {
				t.Errorf("%+v", got)
			}
		})
	}
	for _, address := range []string{"", "127.0.0.1:8080/v1"} {
		m := Model{Provider: "own", Name: "m", Local: true, BaseURL: address}
		if err := m.Try(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "local_config_missing") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
