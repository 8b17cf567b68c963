package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/canon"
	"remit/proof/reason"
)

func artifactRoutes() []route {
	return []route{
		{Operation: api.GetRunArtifact.Operation, special: (*Server).getRunArtifact},
		{Operation: api.PutRunArtifact.Operation, special: (*Server).putRunArtifact},
		{Operation: api.GetArtifact.Operation, special: (*Server).getArtifact},
		{Operation: api.PutArtifact.Operation, special: (*Server).putArtifact},
	}
}

// artifactTimeout is how long the largest artifact may take on a slow line.
const artifactTimeout = 10 * time.Minute

// putArtifact stores the content of a file of a job.
func (s *Server) putArtifact(w http.ResponseWriter, r *request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	ask, err := artifactRequest(r)
	if err != nil {
		return err
	}
	may := func(tx *store.Tx) error {
		return jobs.MayUpload(tx, r.caller.Principal, r.PathValue("job_id"), ask.Fence)
	}
	read := func(context.Context) error { return nil }
	return s.upload(w, r, ask.SHA256, may, read, func(tx *store.Tx, size int64) (any, error) {
		ask.SizeBytes = size
		row, err := jobs.PutArtifact(tx, r.caller.Principal, r.PathValue("job_id"), ask)
		return api.Artifact{JobID: row.JobID, Name: row.Name, Sha256: row.SHA256, SizeBytes: row.SizeBytes}, err
	})
}

// putRunArtifact stores the content of a file of a run.
func (s *Server) putRunArtifact(w http.ResponseWriter, r *request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	ask := jobs.RunArtifactRequest{Name: r.URL.Query().Get("name"), SHA256: r.PathValue("digest"), SizeBytes: max(0, r.ContentLength)}
	if err := checkDigest(ask.SHA256); err != nil {
		return err
	}
	may := func(tx *store.Tx) error { return jobs.MayStore(tx, r.caller.Principal, r.PathValue("run_id"), ask) }
	var derived *jobs.Derived
	read := func(ctx context.Context) (err error) {
		derived, err = s.derive(ctx, r, ask)
		return err
	}
	return s.upload(w, r, ask.SHA256, may, read, func(tx *store.Tx, size int64) (any, error) {
		ask.SizeBytes = size
		row, err := jobs.PutRunArtifact(tx, r.caller.Principal, r.PathValue("run_id"), ask)
		if err == nil && derived != nil {
			err = jobs.Derive(tx, r.caller.Principal, row.RunID, *derived)
		}
		return api.RunArtifact{RunID: row.RunID, Name: row.Name, Sha256: row.SHA256, SizeBytes: row.SizeBytes}, err
	})
}

// upload writes the body of a request to the blob store and records it. The body
// is hashed while it is written, and only bytes with the announced digest are
// recorded; so the digest in the path stands for the body in the fingerprint of
// the request. A blob that is not recorded, because the lease ended meanwhile, is
// harmless: its name says only what it is. read looks at what was stored before it
// is recorded, outside of the transaction.
func (s *Server) upload(w http.ResponseWriter, r *request, digest string, may func(*store.Tx) error, read func(context.Context) error,
	record func(*store.Tx, int64) (any, error)) error {
	// Permission comes before the body is read: a stranger cannot fill the disk.
	if err := s.opt.Store.View(r.Context(), may); err != nil {
		return s.commit(w, r, func(*store.Tx, *request) (answer, error) { return answer{}, err }, nil)
	}
	if r.ContentLength > api.MaxArtifact {
		return reason.Errorf(reason.RequestTooLarge, "the body is larger than %d bytes", int64(api.MaxArtifact))
	}
	if err := extendDeadlines(w, artifactTimeout); err != nil {
		return err
	}
	size, err := s.opt.Blobs.Put(r.Context(), digest, http.MaxBytesReader(w, r.Body, api.MaxArtifact))
	if err != nil {
		if reason.CodeOf(err) == "" {
			return uploadError(err)
		}
		return err
	}
	if err := read(r.Context()); err != nil {
		return err
	}
	return s.commit(w, r, func(tx *store.Tx, _ *request) (answer, error) {
		value, err := record(tx, size)
		return answer{value: value}, err
	}, nil)
}

func checkDigest(digest string) error {
	if !canon.ValidDigest(digest) {
		return invalid("digest", "%.80q is not sha256: and 64 lowercase hex digits", digest)
	}
	return nil
}

// uploadError tells a client that went away, or sent too much, from a disk that
// is full.
func uploadError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return bodyError(err)
	}
	return err
}

func artifactRequest(r *request) (jobs.ArtifactRequest, error) {
	ask := jobs.ArtifactRequest{SHA256: r.PathValue("digest"), Name: r.URL.Query().Get("name")}
	if err := checkDigest(ask.SHA256); err != nil {
		return ask, err
	}
	fence, err := strconv.ParseInt(r.URL.Query().Get("fence"), 10, 64)
	if err != nil || fence < 1 {
		return ask, invalid("fence", "%.40q is not a fence", r.URL.Query().Get("fence"))
	}
	ask.Fence = fence
	return ask, nil
}

// getArtifact sends content to callers that may see the job.
func (s *Server) getArtifact(w http.ResponseWriter, r *request) error {
	digest := r.PathValue("digest")
	err := s.opt.Store.View(r.Context(), func(tx *store.Tx) error {
		list, err := jobs.Artifacts(tx, r.caller.Principal, r.PathValue("job_id"))
		if err != nil {
			return err
		}
		for _, a := range list {
			if a.SHA256 == digest {
				return nil
			}
		}
		return reason.Errorf(reason.NotFound, "the job has no artifact %.80q", digest)
	})
	if err != nil {
		return err
	}
	return s.sendBlob(w, r, digest)
}

// sendBlob answers with content. It is checked while it is read: what was
// changed on the disk ends in a broken answer, not in a wrong one.
func (s *Server) sendBlob(w http.ResponseWriter, r *request, digest string) error {
	content, size, err := s.opt.Blobs.Open(r.Context(), digest)
	if err != nil {
		return err
	}
	defer content.Close()
	if err := extendDeadlines(w, artifactTimeout); err != nil {
		return err
	}
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", "attachment") // of a stranger: no browser shows it
	}
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("ETag", `"`+digest+`"`)
	w.WriteHeader(http.StatusOK)
	if err := copyChecked(w, content, size); err != nil {
		s.opt.Log.Error("artifact", "request_id", r.id, "digest", digest, "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// copyChecked holds the last byte back until the digest is known to be right, so
// that a complete answer is a right one.
func copyChecked(w io.Writer, content io.Reader, size int64) error {
	if _, err := io.CopyN(w, content, max(0, size-1)); err != nil {
		return err
	}
	rest, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	_, err = w.Write(rest)
	return err
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
