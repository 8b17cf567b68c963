package evidence

import (
	"fmt"
	"slices"
)

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
