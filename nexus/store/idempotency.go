package store

import "errors"

// Key is the scope of an Idempotency-Key.
type Key struct{ Principal, Method, Route, Key string }

// Response is what the first request with a key was answered.
type Response struct {
	Status         int
	ContentType    string
	Body           []byte
	ETag, Location string
}

// Claim says that a key is in use.
type Claim struct {
	RequestSHA256 string    // of the first request; "" while it is in flight
	Response      *Response // nil while the first request is in flight
}

// Idempotency returns what is stored for a key, or nil for a new one. In a
// command it also claims the key until the command ends: on PostgreSQL a
// concurrent command with the same key gets a Claim without a response, on
// SQLite it waits and then gets the response.
func (tx *Tx) Idempotency(k Key) (*Claim, error) {
	free := true
	if tx.dialect == "postgres" && tx.write {
		// Locked before the look: what the holder committed is seen.
		err := tx.row(`SELECT pg_try_advisory_xact_lock(hashtextextended(?, 0))`, k.lockName()).Scan(&free)
		if err != nil {
			return nil, err
		}
	}
	var c Claim
	var r Response
	err := tx.row(`SELECT request_sha256, status, content_type, body, etag, location FROM idempotency
		WHERE principal = ? AND method = ? AND route = ? AND key = ?`, k.Principal, k.Method, k.Route, k.Key).
		Scan(&c.RequestSHA256, &r.Status, &r.ContentType, &r.Body, &r.ETag, &r.Location)
	switch {
	case errors.Is(err, ErrNotFound) && free:
		return nil, nil
	case errors.Is(err, ErrNotFound):
		return &Claim{}, nil
	case err != nil:
		return nil, err
	}
	c.Response = &r
	return &c, nil
}

// lockName has a separator that no part can contain.
func (k Key) lockName() string {
	return "idempotency\n" + k.Principal + "\n" + k.Method + "\n" + k.Route + "\n" + k.Key
}

// SaveIdempotency stores the answer to the first request with a key. A second
// one is ErrConflict, which ends the command.
func (tx *Tx) SaveIdempotency(k Key, requestSHA256 string, r Response) error {
	_, err := tx.exec(`INSERT INTO idempotency
		(principal, method, route, key, request_sha256, status, content_type, body, etag, location, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.Principal, k.Method, k.Route, k.Key, requestSHA256, r.Status, r.ContentType, r.Body, r.ETag, r.Location, tx.Now())
	return err
}

// PruneIdempotency forgets up to limit answers that were stored before a time
// (unix milliseconds). Domain ids stay unique for ever, so a repetition after
// that is a conflict and never a second effect.
func (tx *Tx) PruneIdempotency(before int64, limit int) (removed int64, err error) {
	return tx.exec(`DELETE FROM idempotency WHERE (principal, method, route, key) IN (
		SELECT principal, method, route, key FROM idempotency WHERE created_at < ? ORDER BY created_at LIMIT ?)`, before, limit)
}
