// Package nip34 publishes a verified change as events of Nostr (NIP-34), at the relays
// that a person names: the announcement of the repository (kind 30617), the change as a
// patch (1617) or, where it is too large for an event, as a pull request (1618) with an
// update for each later session of the same task (1619), and what became of it as a
// status (1630 to 1633).
//
// # Given again
//
// Events are functions of the sealed session, down to their time, so the same export
// makes the same events, and a relay that has one is not sent it again. [Export] asks all
// relays first, plans once, and then gives each what it lacks: an export that was cut
// anywhere is finished by the next one.
//
// # Relays are untrusted
//
// Only events that verify, are by a key that counts and are what was asked for are read.
// A relay that withholds events can make an export send them again, which changes
// nothing: they are the same bytes.
//
// # What others decide
//
// An announcement that is there stays as it is. A status of the repository's owner or of
// a maintainer counts like one of ours: what they have applied or closed is left to them,
// and what was opened never becomes a draft again.
package nip34

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/forge/pull"
	"remit/proof/nostr"
	"remit/proof/reason"
)

// The kinds of NIP-34 that an export uses.
const (
	KindRepository = 30617
	KindPatch      = 1617
	KindPull       = 1618
	KindUpdate     = 1619
	KindOpen       = 1630
	KindApplied    = 1631
	KindClosed     = 1632
	KindDraft      = 1633
)

// Kinds lists them.
var Kinds = []int{KindRepository, KindPatch, KindPull, KindUpdate, KindOpen, KindApplied, KindClosed, KindDraft}

// MaxEvent is what NIP-34 prefers an event with a patch to stay below, in bytes; MaxMessage
// is the most that is read from a relay at once.
const (
	MaxEvent   = 60_000
	MaxMessage = 128 << 10
)

// Repository is the one that a change is for.
type Repository struct {
	Owner string // 64 hexadecimal digits
	ID    string // the d tag of its announcement
	Name  string
	First string   // the earliest commit, which tells it from others
	Clone []string // where it is fetched from
}

// Address names the announcement.
func (r Repository) Address() string { return fmt.Sprintf("%d:%s:%s", KindRepository, r.Owner, r.ID) }

// ParseAddress reads the address of an announcement.
func ParseAddress(text string) (Repository, error) {
	kind, rest, _ := strings.Cut(text, ":")
	owner, id, _ := strings.Cut(rest, ":")
	if kind != strconv.Itoa(KindRepository) || !isHex(owner) || !isLine(id) {
		return Repository{}, reason.Errorf(reason.ForgeUnknown, "%.200q is not the address of a repository", text).
			WithHint("want %d:PUBKEY:ID, with 64 hexadecimal digits for PUBKEY", KindRepository)
	}
	return Repository{Owner: owner, ID: id, Name: id}, nil
}

func isHex(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// isLine reports whether a text can stand in a tag: one line that prints.
func isLine(s string) bool {
	return s != "" && len(s) <= 255 && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Change is a verified change with what became of it.
type Change struct {
	Title   string
	Summary string // for the text of a pull request
	Patch   string // the mail of git format-patch
	Branch  string
	Commit  string // that git am makes of the patch, with Committer
	Tip     func() (string, error)
	Parent  string
	// Committer is name, address, Unix time and offset in minutes.
	Committer []string
	At        int64 // of the verdict, in Unix seconds
	Meta      pull.Metadata
	Earlier   []string // the sessions that this one follows, the oldest first
	Clone     []string // where the tip can be fetched
	Outcome   int      // KindDraft, KindOpen, KindApplied or KindClosed
	OutcomeAt int64
}

// said are the tags that say what was verified, in the words of the receipt.
func (c *Change) said(relay string) [][]string {
	return [][]string{{"trajectory", c.Meta.SessionID, relay},
		{"trajectory_hash", c.Meta.TrajectoryHash}, {"policy_bundle_id", c.Meta.PolicyBundleID},
		{"verification_passed", strconv.FormatBool(c.Meta.VerificationPassed)}, {"x", strings.TrimPrefix(c.Meta.ReceiptDigest, "sha256:")}}
}

// announcement is the event of a repository that is ours.
func (r Repository) announcement(at int64, relays []string) nostr.Event {
	tags := [][]string{{"d", r.ID}, {"name", r.Name}}
	if len(r.Clone) > 0 {
		tags = append(tags, append([]string{"clone"}, r.Clone...))
	}
	tags = append(tags, append([]string{"relays"}, relays...), []string{"r", r.First, "euc"}, []string{"maintainers", r.Owner})
	return nostr.Event{Kind: KindRepository, CreatedAt: at, Tags: tags}
}

// about are the tags with which an event says which repository it is about.
func (r Repository) about(relay string) [][]string {
	return [][]string{{"a", r.Address(), relay}, {"r", r.First}, {"p", r.Owner}}
}

// patch is the change as a patch: the first one, or a revision of root.
func (c *Change) patch(r Repository, relay string, root *nostr.Event) nostr.Event {
	tags := append(r.about(relay), []string{"t", "root"})
	if root != nil {
		tags = append(tags, []string{"t", "root-revision"}, []string{"e", root.ID, relay, "reply"})
	}
	tags = append(tags, []string{"commit", c.Commit}, []string{"r", c.Commit}, []string{"parent-commit", c.Parent},
		append([]string{"committer"}, c.Committer...))
	return nostr.Event{Kind: KindPatch, CreatedAt: c.At, Tags: append(tags, c.said(relay)...), Content: c.Patch}
}

// pull is the change as a pull request, or as an update of one.
func (c *Change) pull(r Repository, relay string, root *nostr.Event) (nostr.Event, error) {
	if len(c.Clone) == 0 {
		return nostr.Event{}, reason.Errorf(reason.ForgeUnknown,
			"the change has more than %d bytes as an event, so it is a pull request, and nothing says where its commit can be fetched", MaxEvent).
			WithHint("push the branch of `remit export %s --to branch` (or `--to github`), and give --clone URL with its address", c.Meta.SessionID)
	}
	tip, err := c.Tip()
	if err != nil {
		return nostr.Event{}, err
	}
	tags := r.about(relay)
	kind, text := KindPull, pull.Cut(c.Summary, MaxEvent/4)
	if root != nil && root.Kind == KindPull {
		kind, text = KindUpdate, ""
		tags = append(tags, []string{"E", root.ID, relay}, []string{"P", root.PubKey})
	} else {
		tags = append(tags, []string{"subject", c.Title}, []string{"branch-name", c.Branch})
		if root != nil {
			tags = append(tags, []string{"e", root.ID, relay})
		}
	}
	tags = append(tags, []string{"c", tip}, append([]string{"clone"}, c.Clone...), []string{"merge-base", c.Parent})
	return nostr.Event{Kind: kind, CreatedAt: c.At, Tags: append(tags, c.said(relay)...), Content: text}, nil
}

// status is what became of a proposal.
func (c *Change) status(r Repository, relay string, at int64, root, proposal *nostr.Event) nostr.Event {
	tags := append(r.about(relay), []string{"e", root.ID, relay, "root"})
	if proposal.ID != root.ID {
		tags = append(tags, []string{"e", proposal.ID, relay, "reply"})
	}
	if c.Outcome == KindApplied {
		tags = append(tags, []string{"applied-as-commits", c.Commit})
	}
	return nostr.Event{Kind: c.Outcome, CreatedAt: at, Tags: append(tags, c.said(relay)...)}
}

// Check says why an event is none that a relay for changes keeps.
func Check(e *nostr.Event) error {
	refuse := func(format string, args ...any) error {
		return reason.Errorf(reason.BridgeRefused, "not an event about a change: "+format, args...)
	}
	switch {
	case !slices.Contains(Kinds, e.Kind):
		return refuse("kind %d", e.Kind)
	case e.Size() > MaxMessage-256:
		return refuse("%d bytes", e.Size())
	case e.Kind == KindRepository && e.Tag("d") == "":
		return refuse("a repository without a d tag")
	case e.Kind != KindRepository && !strings.HasPrefix(e.Tag("a"), strconv.Itoa(KindRepository)+":"):
		return refuse("it names no repository")
	}
	return nil
}
