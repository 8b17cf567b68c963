package store

// Key is the scope of an Idempotency-Key.
type Key struct{ Principal, Method, Route, Key string }

// Response is what the first request with a key was answered.
type Response struct {
	Status         int
	ContentType    string
	Body           []byte
	ETag, Location string
	// Brief answers are to requests that do no harm when they are done again: they
	// are forgotten soon.
	Brief bool
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
//
// The mode of the ledger is read in the same round trip, since most commands
// ask for it next.
func (tx *Tx) Idempotency(k Key) (*Claim, error) {
	var free *bool
	var stored *Claim
	stmts := []*statement{optional(&stored, scanClaim, `SELECT request_sha256, status, content_type, body, etag, location FROM idempotency
		WHERE principal = ? AND method = ? AND route = ? AND key = ?`, k.Principal, k.Method, k.Route, k.Key)}
	if tx.lock() != "" {
		// Locked before the look: what the holder committed is seen.
		stmts = []*statement{optional(&free, scanBool, `SELECT pg_try_advisory_xact_lock(hashtextextended(?, 0))`, k.lockName()),
			stmts[0], tx.freezeRow()}
	}
	if err := tx.send(stmts...); err != nil || stored != nil {
		return stored, err
	}
	if free != nil && !*free {
		return &Claim{}, nil
	}
	return nil, nil
}

func scanBool(s scanner) (b bool, err error) {
	err = s.Scan(&b)
	return b, err
}

func scanClaim(s scanner) (Claim, error) {
	var r Response
	c := Claim{Response: &r}
	err := s.Scan(&c.RequestSHA256, &r.Status, &r.ContentType, &r.Body, &r.ETag, &r.Location)
	return c, err
}

// lockName has a separator that no part can contain.
func (k Key) lockName() string {
	return "idempotency\n" + k.Principal + "\n" + k.Method + "\n" + k.Route + "\n" + k.Key
}

// SaveIdempotency stores the answer to the first request with a key. A second
// one is ErrConflict, which ends the command.
func (tx *Tx) SaveIdempotency(k Key, requestSHA256 string, r Response) error {
	return tx.write(deferredWrite{}, `INSERT INTO idempotency
		(principal, method, route, key, request_sha256, status, content_type, body, etag, location, created_at, brief)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.Principal, k.Method, k.Route, k.Key, requestSHA256, r.Status, r.ContentType, r.Body, r.ETag, r.Location, tx.Now(), r.Brief)
}

// FreeIdempotency forgets the answer to a request that changed nothing, so that
// another one can have the key. Of two such commands at the same time one ends
// with ErrConflict.
func (tx *Tx) FreeIdempotency(k Key) error {
	_, err := tx.exec(`DELETE FROM idempotency WHERE principal = ? AND method = ? AND route = ? AND key = ?`, k.Principal,
		k.Method, k.Route, k.Key)
	return err
}

// PruneIdempotency forgets up to limit answers that were stored before a time
// (unix milliseconds). Domain ids stay unique for ever, so a repetition after
// that is a conflict and never a second effect.
func (tx *Tx) PruneIdempotency(before int64, limit int) (removed int64, err error) {
	return tx.exec(`DELETE FROM idempotency WHERE (principal, method, route, key) IN (
		SELECT principal, method, route, key FROM idempotency WHERE created_at < ? ORDER BY created_at LIMIT ?)`, before, limit)
}

// PruneBrief is PruneIdempotency for brief answers alone.
func (tx *Tx) PruneBrief(before int64, limit int) (removed int64, err error) {
	return tx.exec(`DELETE FROM idempotency WHERE (principal, method, route, key) IN (
		SELECT principal, method, route, key FROM idempotency WHERE brief = 1 AND created_at < ? ORDER BY created_at LIMIT ?)`, before, limit)
}
