package detect

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"remit/law/task"
	"remit/law/yamldoc"
	"remit/proof/canon"
	"remit/proof/form"
)

// Image is the system image that a repository names for its development.
type Image struct {
	Name   string `json:"name"`   // as the repository has it
	Pinned string `json:"pinned"` // NAME@sha256:DIGEST; "" until the digest is known
	From   string `json:"from"`
}

// devcontainerFiles are where a development container is described, the first counts.
var devcontainerFiles = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// unused are keys of devcontainer.json that change the system and are not used, each
// with what to do instead. Other keys that are not read are about an editor.
var unused = []struct{ key, instead string }{
	{"build", "build the image, `docker save` it, and have `remit env image pull docker-archive:FILE` print the line for remit.yaml"},
	{"dockerFile", "build the image, `docker save` it, and have `remit env image pull docker-archive:FILE` print the line for remit.yaml"},
	{"dockerComposeFile", "name the image of the container in environment.image, and the others as environment.services"},
	{"features", "take an image that has them"},
	{"initializeCommand", "it would run on this machine, and does not"},
	{"onCreateCommand", "it is not run: install packages by environment.prepare, and the rest in the image"},
	{"updateContentCommand", "it is not run: install packages by environment.prepare, and the rest in the image"},
	{"postCreateCommand", "it is not run: install packages by environment.prepare, and the rest in the image"},
	{"postStartCommand", "it is not run: what has to run beside the tests is a service in environment.services"},
	{"postAttachCommand", "it is not run"},
	{"containerUser", "commands have the user of the image, and never root"},
	{"mounts", "nothing of this machine is mounted: what tests need belongs in the image or the repository"},
	{"workspaceMount", "the tree is at /workspace"},
	{"runArgs", "limits are those of the contract, and there is no network"},
	{"privileged", "commands have no rights over the system"},
	{"capAdd", "commands have no rights over the system"},
	{"securityOpt", "commands have no rights over the system"},
}

// imageName is a name that means nothing to a shell: a person may paste it.
var imageName = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`)

// variableName is the form of a variable that a policy may have.
var variableName = form.Lazy(`^[A-Z_][A-Z0-9_]{0,63}$`)

// devcontainer translates the description of a development container into the
// environment of a policy, as far as it can be: the image and plain variables.
func (f *finder) devcontainer() {
	at := slices.IndexFunc(devcontainerFiles, func(name string) bool { return f.has[name] })
	if at < 0 {
		return
	}
	name := devcontainerFiles[at]
	src, ok := f.text(name)
	if !ok {
		return
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(withoutComments(src), &doc) != nil || doc == nil {
		f.note(name, "is no JSON with comments that can be read: it was left out")
		return
	}
	made := false
	for _, u := range unused {
		if _, ok := doc[u.key]; ok {
			f.note(name, "%s is not used: %s", u.key, u.instead)
			made = made || u.key == "build" || u.key == "dockerFile" || u.key == "dockerComposeFile"
		}
	}
	f.remoteUser(name, doc["remoteUser"])
	f.devcontainerEnv(name, doc)
	if raw, ok := doc["image"]; ok && !made {
		f.devcontainerImage(name, raw)
	}
}

func (f *finder) devcontainerImage(name string, raw json.RawMessage) {
	var image string
	if json.Unmarshal(raw, &image) != nil || !oneLine(image) || !imageName().MatchString(image) {
		f.note(name, "image is no plain name of an image: it was left out")
		return
	}
	img := &Image{Name: image, From: name}
	if _, digest, ok := strings.Cut(image, "@"); ok {
		if !canon.ValidDigest(digest) {
			f.note(name, "image has no whole digest: it was left out")
			return
		}
		img.Pinned = image
	}
	f.facts.Image = img
}

// Pin says with which digest a policy names the image that was found.
func (f *Facts) Pin(pinned string) {
	if f.Image != nil {
		f.Image.Pinned = pinned
	}
}

// remoteUser is said where it is another user than commands can have.
func (f *finder) remoteUser(name string, raw json.RawMessage) {
	var user string
	if json.Unmarshal(raw, &user) == nil && user != "" && oneLine(user) {
		f.note(name, "remoteUser is %q: commands have the user that the image itself names, and an ordinary one in the place of root", user)
	}
}

// devcontainerEnv takes the variables that are plain, remoteEnv above containerEnv.
func (f *finder) devcontainerEnv(name string, doc map[string]json.RawMessage) {
	env := map[string]string{}
	for _, key := range []string{"containerEnv", "remoteEnv"} {
		var values map[string]*string
		if raw, ok := doc[key]; ok && json.Unmarshal(raw, &values) != nil {
			f.note(name, "%s is no mapping of texts: it was left out", key)
			continue
		}
		for _, variable := range slices.Sorted(maps.Keys(values)) {
			value := values[variable]
			var why string
			switch {
			case value == nil:
				delete(env, variable)
				continue
			case !variableName().MatchString(variable):
				why = "its name is none of capital letters, digits and underscores"
			case strings.Contains(*value, "${"):
				why = "its value is made on the machine of a person"
			case *value != "" && !oneLine(*value):
				why = "its value is not one short printable line"
			default:
				why = task.RefusedVariable(variable)
			}
			if why != "" {
				if oneLine(variable) {
					f.note(name, "%s of %s was left out: %s", variable, key, why)
				}
				continue
			}
			env[variable] = *value
		}
	}
	if len(env) > maxVariables {
		f.note(name, "has more variables than the %d that a policy may have: they were left out", maxVariables)
		return
	}
	if len(env) > 0 {
		f.facts.Env, f.facts.envFrom = env, name
	}
}

// maxVariables is how many a policy may have.
const maxVariables = 64

// withoutComments makes JSON of JSON with comments: comments become blanks, and a
// comma in front of a closing bracket is left out.
func withoutComments(src []byte) []byte {
	out := make([]byte, 0, len(src))
	comma := -1 // place in out of a comma that may be the last of its list
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case c == '"':
			end := i + 1
			for end < len(src) && src[end] != '"' {
				if src[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end, len(src)-1)
			out = append(out, src[i:end+1]...)
			i, comma = end, -1
		case c == '/' && i+1 < len(src) && src[i+1] == '/':
			for i < len(src) && src[i] != '\n' {
				i++
			}
			out = append(out, '\n')
		case c == '/' && i+1 < len(src) && src[i+1] == '*':
			end := strings.Index(string(src[i+2:]), "*/")
			if end < 0 {
				return nil // no comment, and no JSON
			}
			i += 2 + end + 1
			out = append(out, ' ')
		default:
			if (c == '}' || c == ']') && comma >= 0 {
				out[comma] = ' '
			}
			if c == ',' {
				comma = len(out)
			} else if c > ' ' {
				comma = -1
			}
			out = append(out, c)
		}
	}
	return out
}

// composeFiles describe servers that are started beside a program.
var composeFiles = []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"}

// maxServices bounds how many services of a file are named.
const maxServices = 6

// compose says that tests may need servers: none is started by itself.
func (f *finder) compose() {
	for _, name := range composeFiles {
		if !f.has[name] {
			continue
		}
		src, ok := f.text(name)
		if !ok {
			return
		}
		var found []string
		for _, e := range entries(child(f.yaml(name, src), "services")) {
			service, ok := yamldoc.Text(e.Key)
			image, _ := yamldoc.Text(child(e.Value, "image"))
			if ok && image != "" && oneLine(service+image) && len(found) < maxServices {
				found = append(found, service+" ("+image+")")
			}
		}
		if len(found) > 0 {
			f.note(name, "has services: %s. Tests that need one find it only as environment.services; docs/environments.md has an example", strings.Join(found, ", "))
		}
		return
	}
}
