package depend

import (
	"fmt"
	"strings"

	"remit/proof/canon"
)

// recipeFormat changes when the same inputs are made into another layer: with the
// commands of a fetch, or with the normalisation.
const recipeFormat = 1

// Recipe is everything that a layer depends on. Two recipes with the same key are
// the same, byte for byte.
type Recipe struct {
	Format    int    `json:"format"`
	Ecosystem string `json:"ecosystem"`
	Dir       string `json:"dir"`
	// Inputs are the files that the fetch was given, as Remit wrote them.
	Inputs []Input `json:"inputs"`
	// Fetch and Install are Remit's own commands, Build those of the policy.
	Fetch   []string `json:"fetch"`
	Install []string `json:"install,omitempty"`
	Build   []string `json:"build,omitempty"`
	// Paths are relative to the workspace.
	Paths []string `json:"paths"`
	OS    string   `json:"os"`
	Arch  string   `json:"arch"`
	Tools []Tool   `json:"tools"`
	// Hosts are those to which the commands of Fetch had tunnels. Then these are the
	// policy's, and the layer is one that was made with less care: see connect.go.
	Hosts []string `json:"hosts,omitempty"`
	// BaseTree and Env are the tree and the variables that the commands of the policy
	// saw; without any they are not there.
	BaseTree string            `json:"base_tree,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	// Beside are the layers of packages of Debian that those commands had.
	Beside []string `json:"beside,omitempty"`
}

// Input is a file of the fetch.
type Input struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Tool is a program of the host that makes the layer.
type Tool struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// Key names the recipe.
func (r Recipe) Key() (string, error) {
	key, err := canon.DigestOf(r)
	if err != nil {
		return "", fmt.Errorf("naming a recipe: %w", err)
	}
	return key, nil
}

// dirName is the name of a layer's directory.
func dirName(key string) (string, bool) {
	hex, ok := strings.CutPrefix(key, "sha256:")
	if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", false
	}
	return hex, true
}

// Delivery is one file that a registry delivered: together they are the list of
// what was installed.
type Delivery struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
}

// ManifestSchema names the form of a manifest.
const ManifestSchema = "remit.layer.v1"

// Manifest says what a layer is.
type Manifest struct {
	Schema        string `json:"schema"`
	Key           string `json:"key"`
	Recipe        Recipe `json:"recipe"`
	ContentSHA256 string `json:"content_sha256"`
	Entries       int64  `json:"entries"`
	Bytes         int64  `json:"bytes"`
	// Deliveries are what the registry sent while the layer was made.
	Deliveries       []Delivery `json:"deliveries"`
	DeliveriesSHA256 string     `json:"deliveries_sha256"`
	MadeAt           string     `json:"made_at"`
	// Imported says that the layer came from a file, so that its content is what
	// the maker of that file says, and was not fetched here.
	Imported bool `json:"imported,omitempty"`
}
