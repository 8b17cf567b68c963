package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip34"
)

// changes reads what an export has published at a relay with go-nostr: every id and
// signature, the repository with the values of its tags, the patch as git has it, and
// that each event about it names the repository and what was verified.
func changes(relay, author string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := nostr.RelayConnect(ctx, relay)
	if err != nil {
		return err
	}
	defer r.Close()
	events, err := r.QuerySync(ctx, nostr.Filter{Authors: []string{author}})
	if err != nil {
		return err
	}
	var repo nip34.Repository
	kinds := map[int]int{}
	for _, e := range events {
		if ok, err := e.CheckSignature(); !ok || err != nil || !e.CheckID() {
			return fmt.Errorf("event %s does not verify: %w", e.ID, err)
		}
		e.Content += "x"
		if e.CheckID() {
			return errors.New("another content has the same id")
		}
		e.Content = e.Content[:len(e.Content)-1]
		if kinds[e.Kind]++; e.Kind == nostr.KindRepositoryAnnouncement {
			repo = nip34.ParseRepository(*e)
		}
	}
	if repo.ID == "" || len(repo.Relays) == 0 || repo.EarliestUniqueCommitID == "" && len(repo.Maintainers) == 0 {
		return fmt.Errorf("the announcement reads as %+v", repo)
	}
	for _, e := range events {
		if e.Kind == nostr.KindRepositoryAnnouncement {
			continue
		}
		for _, name := range []string{"a", "r", "p", "trajectory", "trajectory_hash", "policy_bundle_id", "verification_passed", "x"} {
			if tag := e.Tags.GetFirst([]string{name, ""}); tag == nil || tag.Value() == "" {
				return fmt.Errorf("event %s of kind %d has no tag %s", e.ID, e.Kind, name)
			}
		}
		if e.Kind == kindPull || e.Kind == kindUpdate {
			for _, name := range []string{"c", "clone", "merge-base"} {
				if tag := e.Tags.GetFirst([]string{name, ""}); tag == nil || tag.Value() == "" {
					return fmt.Errorf("event %s of kind %d has no tag %s", e.ID, e.Kind, name)
				}
			}
			if tag := e.Tags.GetFirst([]string{"E", ""}); (tag != nil) != (e.Kind == kindUpdate) || tag != nil && tag.Value() != pulled(events) {
				return fmt.Errorf("event %s of kind %d names the pull request %v", e.ID, e.Kind, tag)
			}
		}
		if e.Kind != nostr.KindPatch {
			continue
		}
		patch := nip34.ParsePatch(*e)
		if len(patch.Files) == 0 || patch.Header == nil || patch.Header.Title == "" ||
			patch.Repository.Identifier != repo.ID || patch.Repository.PublicKey != repo.PubKey {
			return fmt.Errorf("the patch reads as %+v", patch)
		}
	}
	fmt.Printf("ok %s: %d events, kinds %v\n", relay, len(events), kinds)
	if kinds[nostr.KindPatch] == 0 || kinds[kindPull] != 1 || kinds[kindUpdate] != 1 {
		return errors.New("there is no patch, or not one pull request and its update")
	}
	return nil
}

// Kinds of NIP-34 that go-nostr has no name for.
const (
	kindPull   = 1618
	kindUpdate = 1619
)

// pulled is the id of the pull request.
func pulled(events []*nostr.Event) string {
	for _, e := range events {
		if e.Kind == kindPull {
			return e.ID
		}
	}
	return ""
}
