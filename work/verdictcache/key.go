package verdictcache

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/work/sandbox"
)

// Key is everything that a result of the verifier depends on, as far as
// it can be named. A result counts for a question with the same key, byte for
// byte.
type Key struct {
	Format       int                       `json:"format"`
	Kind         string                    `json:"kind"` // base or verdict
	BaselineTree string                    `json:"baseline_tree"`
	PatchSHA256  string                    `json:"patch_sha256"` // "" for base
	HeadTree     string                    `json:"head_tree"`    // "" for base
	Commands     []string                  `json:"commands"`
	Groups       []int                     `json:"groups"`
	Shared       bool                      `json:"shared"`
	Verify       task.Verify               `json:"verify"`
	TestsRule    string                    `json:"tests_rule"`
	HeldOut      []HeldOut                 `json:"held_out"`
	Repeat       int                       `json:"repeat"`
	Limits       sandbox.Limits            `json:"limits"`
	Verifier     evidence.VerifierIdentity `json:"verifier"`
	Sandbox      sandbox.Description       `json:"sandbox"`
	// Environment are the layers above the tree and the variables, by key and
	// content; not there for a tree without any.
	Environment []string `json:"environment,omitempty"`
	Host        string   `json:"host_view"` // this program, and what the commands see of the host
}

// HeldOut is a held-out test file, by its place and digest.
type HeldOut struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// The kinds of results.
const (
	KindBase    = "base"
	KindVerdict = "verdict"
)

// hostViewer is a driver that can name what its commands see of the host. Of
// one that cannot, nothing is cached.
type hostViewer interface {
	HostView(ctx context.Context, lower string) (digest string, err error)
}

// HostView names what the commands of a verification over lower see of the host.
func HostView(ctx context.Context, sb sandbox.Driver, lower string) (string, error) {
	v, ok := sb.(hostViewer)
	if !ok {
		return "", errors.New("the sandbox cannot say what its commands see of the host")
	}
	return v.HostView(ctx, lower)
}

// Encode gives the text of the key. Its digest names the entry.
func (k Key) Encode() ([]byte, error) {
	text, err := canon.Marshal(k)
	if err == nil && len(text) > maxKey {
		err = fmt.Errorf("the key has %d bytes", len(text))
	}
	return text, err
}

// Short is the form of a key for a person.
func Short(digest string) string {
	raw, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	if err != nil || len(raw) < 6 {
		return digest
	}
	return hex.EncodeToString(raw[:6])
}
