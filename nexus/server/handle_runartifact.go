package server

import (
	"net/http"

	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
)

// putRunArtifact takes content of a run as putArtifact takes that of a job:
// hashed while it is written, recorded only with the announced digest.
func (s *Server) putRunArtifact(w http.ResponseWriter, r *request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	ask := jobs.RunArtifactRequest{Name: r.URL.Query().Get("name"), SHA256: r.PathValue("digest"), SizeBytes: max(0, r.ContentLength)}
	if !canon.ValidDigest(ask.SHA256) {
		return invalid("digest", "%.80q is not sha256: and 64 lowercase hex digits", ask.SHA256)
	}
	// Asked before the body is read: strangers do not fill the disk.
	err := s.opt.Store.View(r.Context(), func(tx *store.Tx) error {
		return jobs.MayStore(tx, r.caller.Principal, r.PathValue("run_id"), ask)
	})
	if err != nil {
		return s.performArtifact(w, r, func(*store.Tx, *request) (answer, error) { return answer{}, err })
	}
	if ask.SizeBytes > api.MaxArtifact {
		return reason.Errorf(reason.RequestTooLarge, "the body is larger than %d bytes", int64(api.MaxArtifact))
	}
	if err := slowly(w, artifactTimeout); err != nil {
		return err
	}
	ask.SizeBytes, err = s.opt.Blobs.Put(r.Context(), ask.SHA256, http.MaxBytesReader(w, r.Body, api.MaxArtifact))
	if err != nil {
		if reason.CodeOf(err) == "" {
			return uploadError(err)
		}
		return err
	}
	return s.performArtifact(w, r, func(tx *store.Tx, r *request) (answer, error) {
		row, err := jobs.PutRunArtifact(tx, r.caller.Principal, r.PathValue("run_id"), ask)
		if err != nil {
			return answer{}, err
		}
		return answer{value: api.RunArtifact{RunID: row.RunID, Name: row.Name, Sha256: row.SHA256, SizeBytes: row.SizeBytes}}, nil
	})
}

// getRunArtifact sends content of a run to its owner and to those who work, or
// have worked, for it.
func (s *Server) getRunArtifact(w http.ResponseWriter, r *request) error {
	digest := r.PathValue("digest")
	err := s.opt.Store.View(r.Context(), func(tx *store.Tx) error {
		_, err := jobs.FindRunArtifact(tx, r.caller.Principal, r.PathValue("run_id"), digest)
		return err
	})
	if err != nil {
		return err
	}
	return s.sendBlob(w, r, digest)
}
