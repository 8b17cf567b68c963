package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"remit/proof/form"
	"remit/proof/reason"
)

// simpleFile is one file of an index, in the words of PEP 691. What it says of
// itself is kept when it has the form of the standard; signatures are left out.
type simpleFile struct {
	Filename     string            `json:"filename"`
	URL          string            `json:"url"`
	Hashes       map[string]string `json:"hashes"`
	Requires     string            `json:"requires-python,omitempty"`
	Yanked       any               `json:"yanked,omitempty"`        // true, or why
	CoreMetadata any               `json:"core-metadata,omitempty"` // true, or hashes
	DistInfo     any               `json:"dist-info-metadata,omitempty"`
	Size         int64             `json:"size,omitempty"`
	UploadTime   string            `json:"upload-time,omitempty"`
}

// simpleDocument is an index.
type simpleDocument struct {
	Meta  map[string]string `json:"meta"`
	Name  string            `json:"name"`
	Files []simpleFile      `json:"files"`
}

var simpleHash = form.Lazy(`^(md5|sha1|sha224|sha256|sha384|sha512)=([0-9a-f]{32,128})$`)

// simpleIndex writes an index again: every file that can be asked for, at the
// front, with its hashes. Where the files are is remembered.
func (s *site) simpleIndex(name string, asJSON bool, a answer) (answer, error) {
	kind, _, err := mime.ParseMediaType(a.kind)
	var files []simpleFile
	switch {
	case err != nil:
		err = errors.New("content type")
	case kind == simpleJSON:
		files, err = simpleFromJSON(name, a.body)
	case kind == simpleHTML || kind == "application/vnd.pypi.simple.v1+html":
		files, err = simpleFromHTML(a.body)
	default:
		err = errors.New("content type")
	}
	if err != nil {
		return answer{}, refused(reason.RegistryAnswer, "the index of %s is no simple index of it (PEP 503, PEP 691)", name)
	}
	if files == nil {
		files = []simpleFile{} // a list without entries is still a list
	}
	seen := map[string]bool{}
	files = slices.DeleteFunc(files, func(f simpleFile) bool {
		at, err := a.url.Parse(f.URL)
		version, ok := pypiFileVersion(name, f.Filename)
		if !ok || err != nil || seen[f.Filename] {
			return true
		}
		if err := s.up.checked(at); err != nil {
			s.leftOut(Package{PyPI, name, version}, "/pypi/file/"+name+"/"+f.Filename, err)
			return true
		}
		seen[f.Filename] = true
		at.Fragment, at.RawFragment = "", ""
		s.remember(name+"/"+f.Filename, at)
		return false
	})
	for i := range files {
		files[i].URL = a.front + "/pypi/file/" + name + "/" + files[i].Filename
		files[i].tidy()
	}
	if asJSON {
		return answer{body: jsonOf(simpleDocument{map[string]string{"api-version": "1.0"}, name, files}), kind: simpleJSON}, nil
	}
	return answer{body: simpleToHTML(files), kind: simpleHTML}, nil
}

// leftOut records why a file cannot be asked for, where it is one that may be wanted: the
// client finds no such file, and says no more than that.
func (s *site) leftOut(pkg Package, path string, err error) {
	if s.front.allow(pkg) == nil {
		s.front.record.add(Delivery{Ecosystem: pkg.Ecosystem, Name: pkg.Name, Version: pkg.Version, Path: path,
			Refused: reason.CodeOf(err), Why: plain(messageOf(err), 300)})
	}
}

// tidy keeps of what a registry says only values of the standard's types.
func (f *simpleFile) tidy() {
	f.Hashes = tidyHashes(f.Hashes)
	for _, v := range []*any{&f.CoreMetadata, &f.DistInfo} {
		switch m := (*v).(type) {
		case map[string]any:
			hashes := map[string]string{}
			for k, h := range m {
				hashes[k], _ = h.(string) // what is none has no form of a hash
			}
			*v = tidyHashes(hashes)
		case bool:
		default:
			*v = nil
		}
	}
	switch f.Yanked.(type) {
	case bool, string:
	default:
		f.Yanked = nil
	}
}

func tidyHashes(in map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range in {
		if simpleHash().MatchString(k + "=" + v) {
			out[k] = v
		}
	}
	return out
}

// maxEntry is more than a file of an index is described with.
const maxEntry = 64 << 10

func simpleFromJSON(name string, body []byte) (files []simpleFile, err error) {
	doc, err := object(body)
	if err != nil {
		return nil, err
	}
	if ProjectName(textOf(doc["name"])) != name {
		return nil, errors.New("it is that of another project")
	}
	err = list(doc["files"], func(entry json.RawMessage) error {
		var f simpleFile
		if len(entry) > maxEntry {
			return errMembers
		}
		if err := json.Unmarshal(entry, &f); err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// simpleFromHTML reads the links of a page.
func simpleFromHTML(body []byte) (files []simpleFile, err error) {
	z := html.NewTokenizer(bytes.NewReader(body))
	z.SetMaxBuf(1 << 20)
	for len(files) < maxMembers {
		switch z.Next() {
		case html.ErrorToken:
			if errors.Is(z.Err(), io.EOF) {
				return files, nil
			}
			return nil, z.Err()
		case html.StartTagToken, html.SelfClosingTagToken:
			if t := z.Token(); t.Data == "a" {
				if f, ok := simpleLink(t.Attr); ok {
					files = append(files, f)
				}
			}
		}
	}
	return nil, errMembers
}

func simpleLink(attributes []html.Attribute) (f simpleFile, ok bool) {
	for _, a := range attributes {
		switch a.Key {
		case "href":
			u, err := url.Parse(a.Val)
			if err != nil {
				return f, false
			}
			f.URL, f.Filename, ok = a.Val, u.Path[strings.LastIndexByte(u.Path, '/')+1:], true
			if m := simpleHash().FindStringSubmatch(u.Fragment); m != nil {
				f.Hashes = map[string]string{m[1]: m[2]}
			}
		case "data-requires-python":
			f.Requires = a.Val
		case "data-yanked":
			f.Yanked = a.Val
			if a.Val == "" {
				f.Yanked = true
			}
		case "data-core-metadata", "data-dist-info-metadata":
			f.CoreMetadata = true
			if m := simpleHash().FindStringSubmatch(a.Val); m != nil {
				f.CoreMetadata = map[string]any{m[1]: m[2]}
			}
		}
	}
	return f, ok
}

// simpleToHTML writes an index as a page.
func simpleToHTML(files []simpleFile) []byte {
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" content=\"1.0\"></head><body>\n")
	for _, f := range files {
		link := f.URL
		for _, name := range []string{"sha256", "sha512", "sha384", "sha224", "sha1", "md5"} {
			if h, ok := f.Hashes[name]; ok {
				link += "#" + name + "=" + h
				break
			}
		}
		fmt.Fprintf(&b, "<a href=\"%s\"", html.EscapeString(link))
		if f.Requires != "" {
			fmt.Fprintf(&b, " data-requires-python=\"%s\"", html.EscapeString(f.Requires))
		}
		if why, yanked := f.Yanked.(string); yanked || f.Yanked == true {
			fmt.Fprintf(&b, " data-yanked=\"%s\"", html.EscapeString(why))
		}
		if m, ok := f.CoreMetadata.(map[string]string); ok && m["sha256"] != "" {
			fmt.Fprintf(&b, " data-core-metadata=\"sha256=%s\"", m["sha256"])
		}
		fmt.Fprintf(&b, ">%s</a><br>\n", html.EscapeString(f.Filename))
	}
	b.WriteString("</body></html>\n")
	return b.Bytes()
}
