package panel

import (
	"net/http"
	"slices"
	"strings"

	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// ExportForm is a form of `remit export --to` that follows from a bundle alone.
type ExportForm struct{ To, Suffix, Says string }

// ExportForms are those that a page hands out as a download.
var ExportForms = []ExportForm{
	{"zip", ".zip", "the Verified Patch Bundle"}, {"patch", ".patch", "the change, for git am"}, {"junit", ".junit.xml", "the verification, for CI"},
	{"sarif", ".sarif", "what speaks against the change"}, {"otlp", ".otlp.json", "the run as a trace"}, {"atif", ".atif.json", "the run as a trajectory"},
	{"swebench", ".predictions.jsonl", "the change as a prediction"},
}

// ExportCommands are the forms that need the repository, a credential or a key of who
// exports. A page has none, so it shows the command.
var ExportCommands = []struct{ To, Says string }{
	{"branch", "as a commit on a new branch of the repository"}, {"github", "as a pull request at GitHub"}, {"gitea", "as a pull request at a Gitea or Forgejo"},
	{"attestation", "signed in-toto statements, with the key of this machine"}, {"note", "as a git note of the exported commit"},
	{"attestations", "as refs beside the exported commit"}, {"nip34", "as events at relays of Nostr"}, {"dir", "as a directory"},
}

// handsOutChange are the forms that hand out the change itself.
var handsOutChange = []string{"patch", "branch", "github", "gitea", "nip34"}

// HandsOutChange reports whether a form of `remit export --to` hands out the change
// itself: that of a run that did not pass, with --force only.
func HandsOutChange(to string) bool { return slices.Contains(handsOutChange, to) }

// exports is what the page of a run offers to take along.
type exports struct {
	Forms    []ExportForm
	Commands []command
	Signed   []string // statements that the bundle has already
	Refused  string   // why the change itself is no download
}

// exports are those of a sealed run whose manifest lists these files.
func (d *runPage) exports(listed []bundle.Line) *exports {
	if d.Phase != Sealed || d.Nexus != nil || d.Report == nil || len(d.NotSealed) > 0 {
		return nil
	}
	out, force := new(exports), ""
	switch {
	case d.Report.Status != evidence.StatusPass:
		out.Refused, force = "The run did not pass, so its change is handed out with --force only.", " --force"
	case d.Report.OperatorOutcome == "rejected":
		out.Refused, force = "The change was rejected, so it is handed out with --force only.", " --force"
	}
	line := func(to string) string { return "remit export " + d.ID + " --to " + to }
	for _, f := range ExportForms {
		if f.To == "patch" && force != "" {
			out.Commands = append(out.Commands, command{line(f.To) + force, f.Says})
			continue
		}
		out.Forms = append(out.Forms, f)
	}
	for _, c := range ExportCommands {
		text := line(c.To)
		if HandsOutChange(c.To) {
			text += force
		}
		out.Commands = append(out.Commands, command{text, c.Says})
	}
	for _, l := range listed {
		if strings.HasPrefix(l.Path, evidence.AttestationsDir+"/") {
			out.Signed = append(out.Signed, l.Path)
		}
	}
	return out
}

// export hands out a form of a bundle as a download. It is made when it is asked for,
// after an audit; a bundle that does not hold is handed out in none.
func (p *Panel) export(w http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	s, err := p.session(r, v)
	if err != nil {
		return nil, err
	}
	to := r.PathValue("to")
	i := slices.IndexFunc(ExportForms, func(f ExportForm) bool { return f.To == to })
	if i < 0 {
		return nil, reason.Errorf(reason.NotFound, "%.40q is no form that a page hands out", to).
			WithHint("`remit export %s --to FORM` may know it", s.ID)
	}
	out := &download{ResponseWriter: w, name: fileName(s.ID, "remit"+ExportForms[i].Suffix)}
	if err := p.opt.Home.Export(r.Context(), s.ID, to, out); err != nil {
		if !out.begun {
			return nil, err
		}
		p.opt.Log.Error("an export was cut off", "session", s.ID, "to", to, "error", err)
		panic(http.ErrAbortHandler) // else half a file would look like a whole one
	}
	return nil, nil
}

// download is an answer that is a file and no document. Its headers are written with
// its first byte, so that a refusal is a page.
type download struct {
	http.ResponseWriter
	name  string
	begun bool
}

func (d *download) Write(b []byte) (int, error) {
	if !d.begun {
		d.begun = true
		asDownload(d.Header(), d.name)
	}
	return d.ResponseWriter.Write(b)
}

// asDownload marks an answer as a file that no browser shows: what an agent wrote is
// never a document of this server.
func asDownload(h http.Header, name string) {
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
}
