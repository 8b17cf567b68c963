package evidence

import (
	"fmt"
	"slices"
	"strings"
)

// EnvironmentPrepared are the outputs of environment.prepared: what the commands of
// a run found beside the tree, made at the baseline before the engine began.
type EnvironmentPrepared struct {
	// Dependencies says with whose layers the patched tree is verified: base, prepare.
	Dependencies string             `json:"dependencies,omitempty"`
	Image        *EnvironmentImage  `json:"image,omitempty"`
	Layers       []EnvironmentLayer `json:"layers"`
	// Services ran beside every command, each command with new ones.
	Services []EnvironmentService `json:"services,omitempty"`
	Env      map[string]string    `json:"env,omitempty"` // of the policy, for every command
	Blockers []Blocker            `json:"blockers"`
}

// EnvironmentLayer is a set of installed dependencies. Key names how it is made,
// ContentSHA256 what it has: two builds of one key can differ.
type EnvironmentLayer struct {
	Ecosystem     string            `json:"ecosystem"`
	Dir           string            `json:"dir"`
	Key           string            `json:"key"`
	ContentSHA256 string            `json:"content_sha256"`
	Paths         []string          `json:"paths"`
	LockFiles     []string          `json:"lock_files"`
	Tools         []EnvironmentTool `json:"tools"`
	// Packages are the files that the registry delivered for the layer, and their
	// list by digest: `remit env show KEY` has it.
	Packages       int    `json:"packages"`
	PackagesSHA256 string `json:"packages_sha256"`
	// Imported says that the content came from a file and not from a registry.
	Imported bool `json:"imported,omitempty"`
}

// EnvironmentImage is the root file system of all commands, where it is not the
// host's.
type EnvironmentImage struct {
	Name   string `json:"name"`   // as the policy has it
	Digest string `json:"digest"` // of the image for this platform; the name may have that of an index
	// Platform is the system and processor, Layers the diff ids, the lowest first.
	Platform string   `json:"platform"`
	Layers   []string `json:"layers"`
}

// EnvironmentTool is a program that made a layer.
type EnvironmentTool struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// EnvironmentService is a program that commands reach over the loopback of their
// sandbox, by the digest of its definition in the policy as canonical JSON.
type EnvironmentService struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// DependencyChanges are what an engine changed of the layers: they are no part of
// the patch, and no run of the verifier sees them.
type DependencyChanges struct {
	Total    int64    `json:"total"`
	Replaced []string `json:"replaced,omitempty"`
	Added    []string `json:"added,omitempty"`
	Bounded  bool     `json:"bounded,omitempty"` // there were more than could be looked at
}

// Environment is what report and receipt say of the environment.
type Environment struct {
	Dependencies string               `json:"dependencies,omitempty"`
	Image        *EnvironmentImage    `json:"image,omitempty"`
	Layers       []EnvironmentLayer   `json:"layers"`
	Services     []EnvironmentService `json:"services,omitempty"`
	Env          map[string]string    `json:"env,omitempty"`
	// LockFilesChanged are those of the layers' lock files that the patch changes.
	LockFilesChanged []string `json:"lock_files_changed,omitempty"`
	// Head is what lay beside the patched tree, nil for the same as beside the base.
	Head          *DependenciesOfHead `json:"head,omitempty"`
	EngineChanged *DependencyChanges  `json:"engine_changed,omitempty"`
}

// environment is nil for a run that prepared nothing.
func (r *run) environment() *Environment {
	if r.prepared == nil {
		return nil
	}
	e := &Environment{Dependencies: r.prepared.Dependencies, Image: r.prepared.Image, Layers: r.prepared.Layers,
		Services: r.prepared.Services, Env: r.prepared.Env, Head: r.ofHead}
	for _, l := range e.Layers {
		for _, name := range l.LockFiles {
			if r.patched[name] && !slices.Contains(e.LockFilesChanged, name) {
				e.LockFilesChanged = append(e.LockFilesChanged, name)
			}
		}
	}
	if r.engine != nil {
		e.EngineChanged = r.engine.Dependencies
	}
	return e
}

// viaTunnels is the ecosystem of a layer whose fetch was code of the repository with a way
// out.
const viaTunnels = "connect"

// Sentences say in texts for people what the environment was.
func (e *Environment) Sentences() []string {
	var out []string
	if i := e.Image; i != nil {
		out = append(out, fmt.Sprintf("Image: every command ran in %s, whose digest on %s is %s", code(i.Name), code(i.Platform), code(i.Digest)))
	}
	for _, l := range e.Layers {
		text := fmt.Sprintf("Dependencies: %s of %s, %s, layer %s with content %s", l.Ecosystem, code(l.Dir), count(l.Packages, "package"), code(l.Key), code(l.ContentSHA256))
		if l.Ecosystem == viaTunnels {
			text = fmt.Sprintf("Dependencies, the weaker way: commands of the repository fetched them through %s, "+
				"so that they could send the source of the base to these hosts; "+
				"layer %s of %s with content %s", count(l.Packages, "tunnel"), code(l.Key), code(l.Dir), code(l.ContentSHA256))
		}
		if l.Imported {
			text += ", which was imported from a file"
		}
		out = append(out, text)
	}
	for _, s := range e.Services {
		out = append(out, fmt.Sprintf("Service: every command had %s beside it, started anew, definition %s", code(s.Name), code(s.SHA256)))
	}
	if e.Head != nil {
		out = append(out, e.Head.sentences(e.Layers)...)
	} else if len(e.LockFilesChanged) > 0 && e.Dependencies == "prepare" {
		out = append(out, fmt.Sprintf("The change edits %s, and asks for the dependencies that the base has", names(e.LockFilesChanged)))
	} else if len(e.LockFilesChanged) > 0 {
		out = append(out, fmt.Sprintf("The change edits %s: base and head were verified with the dependencies of the base, not with those that it asks for", names(e.LockFilesChanged)))
	}
	if c := e.EngineChanged; c != nil {
		list := slices.Concat(c.Replaced, c.Added)
		text := fmt.Sprintf("The agent changed installed dependencies (%s), which is no part of the change and was not verified", count(int(c.Total), "file"))
		if len(list) > 0 {
			text += ": " + names(list[:min(len(list), maxSourceNamed)])
		}
		out = append(out, text)
	}
	return out
}

// contradictEnvironment holds what is said of the environment against the order of
// the journal: it was there before the engine, and stayed the same.
func (r *run) contradictEnvironment(agree agreeFunc) {
	engine := int64(-1)
	keys := ""
	for i := range r.entries {
		e := &r.entries[i]
		if e.Name == StepEngine && engine < 0 {
			engine = e.Seq
		}
		var p EnvironmentPrepared
		if e.Name != StepEnvironment || string(e.Outputs) == "{}" || decode(e.Outputs, &p) != nil {
			continue
		}
		all := []string{"layers"}
		if p.Image != nil {
			all = append(all, p.Image.Digest)
		}
		for _, l := range p.Layers {
			all = append(all, l.Key)
		}
		for _, s := range p.Services {
			all = append(all, s.Name, s.SHA256)
		}
		now := strings.Join(all, " ")
		agree(keys == "" || keys == now, "the environment is prepared twice, with other layers or services")
		agree(keys != "" || engine < 0, "the environment was prepared after the engine began")
		keys = now
	}
	r.contradictDependencies(agree)
	if r.engine != nil && r.engine.Dependencies != nil {
		agree(r.prepared != nil && len(r.prepared.Layers) > 0, "the engine changed dependencies, and none were prepared")
	}
}

// DependenciesOfHead are the outputs of dependencies.prepared: what lay beside the
// patched tree where that was something else than beside the base. The policy has to
// want that, and the change names other packages.
type DependenciesOfHead struct {
	HeadTree string             `json:"head_tree"`
	Layers   []EnvironmentLayer `json:"layers"` // in the order of the base's
	// Packages are what the registry delivered for one of the two and not for the
	// other. A package of another version, or of other content, is removed and added.
	Packages []PackageChange `json:"packages"`
	More     int             `json:"more,omitempty"` // beside those
}

// PackageChange is one package that the patched tree has more, or less.
type PackageChange struct {
	Ecosystem string `json:"ecosystem"`
	Dir       string `json:"dir"`
	Change    string `json:"change"` // added, removed
	Name      string `json:"name"`
	Version   string `json:"version"`
	SHA256    string `json:"sha256"` // of the file that was delivered
}

// The words of PackageChange.Change.
const (
	PackageAdded   = "added"
	PackageRemoved = "removed"
)

// SameLayers reports whether two environments have the same layers with the same
// content.
func SameLayers(a, b []EnvironmentLayer) bool {
	return slices.EqualFunc(a, b, func(a, b EnvironmentLayer) bool { return a.Key == b.Key && a.ContentSHA256 == b.ContentSHA256 })
}

// maxPackagesSaid bounds the packages in a sentence.
const maxPackagesSaid = 20

// sentences say what the patched tree had.
func (d *DependenciesOfHead) sentences(base []EnvironmentLayer) []string {
	var out []string
	for i, l := range d.Layers {
		if i >= len(base) || base[i].Key != l.Key {
			out = append(out, fmt.Sprintf("Dependencies of the change: %s of %s, %s, layer %s with content %s", l.Ecosystem, code(l.Dir), count(l.Packages, "package"), code(l.Key), code(l.ContentSHA256)))
		}
	}
	text := "The change was verified with dependencies of its own"
	if len(d.Packages)+d.More == 0 {
		return append(out, text+", made of the same packages")
	}
	text += ", of which it says what is fetched: " + count(len(d.Packages)+d.More, "package") + " added or removed"
	for i, p := range d.Packages[:min(len(d.Packages), maxPackagesSaid)] {
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + fmt.Sprintf("%s %s (SHA-256 %s)", p.Change, code(p.Name+" "+p.Version), code(p.SHA256))
	}
	if rest := len(d.Packages) + d.More - maxPackagesSaid; rest > 0 {
		text += fmt.Sprintf(", and %d more", rest)
	}
	return append(out, text)
}

// contradictDependencies holds what is said of the dependencies of a change against
// the journal: the policy wanted them, they were made of the captured tree, once.
func (r *run) contradictDependencies(agree agreeFunc) {
	var before *DependenciesOfHead
	captured := int64(-1)
	for i := range r.entries {
		e := &r.entries[i]
		if e.Name == StepPatch {
			captured = e.Seq
		}
		d := new(DependenciesOfHead)
		if e.Name != StepHeadDependencies || string(e.Outputs) == "{}" || decode(e.Outputs, d) != nil {
			continue
		}
		agree(captured >= 0 && r.patch != nil && d.HeadTree == r.patch.HeadTree, "the dependencies of the change were not made of the captured tree")
		agree(r.prepared != nil && r.prepared.Dependencies == "prepare" && len(d.Layers) == len(r.prepared.Layers), "dependencies of the change are named, and the policy has none prepared")
		agree(before == nil || SameLayers(before.Layers, d.Layers), "the dependencies of the change are prepared twice, with other layers")
		before = d
	}
}
