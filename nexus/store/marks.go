package store

import (
	"fmt"
	"strings"
)

// Mark is what a job says about the provider that had it.
type Mark struct {
	ProviderID, JobID, Kind, Reason string
	Outage                          string // the job that counts for the same outage, "": this one counts
}

// markColumns names the counter of each kind of mark, and strikes those that
// count against a provider.
var (
	markColumns = map[string]string{"success": "successes", "unverified": "unverified", "failure": "failures", "violation": "violations"}
	strikes     = map[string]int64{"failure": 1, "violation": 1}
)

// MarkProvider records one mark for a job and adds it to its counter, unless
// another job counts for it; false when this job has marked this provider in this
// way before.
func (tx *Tx) MarkProvider(m Mark) (bool, error) {
	column, ok := markColumns[m.Kind]
	if !ok {
		return false, fmt.Errorf("mark provider: no counter for %q", m.Kind)
	}
	weight := strikes[m.Kind]
	if m.Outage != "" {
		weight = 0
	}
	n, err := tx.exec(`INSERT INTO provider_mark (provider_id, job_id, kind, reason, marked_at, weight, outage)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, m.ProviderID, m.JobID, m.Kind, m.Reason, tx.Now(), weight, m.Outage)
	if err != nil || n == 0 || m.Outage != "" {
		return err == nil && n > 0, err
	}
	return true, tx.write(missing("mark provider", m.ProviderID), `UPDATE provider SET `+column+` = `+column+` + 1, revision = revision + 1, updated_at = ?
		WHERE id = ?`, tx.Now(), m.ProviderID)
}

// LastOutage is the newest mark of a provider for one of the reasons that stands
// for an outage of its own: its job, and when that was. "" when there is none.
func (tx *Tx) LastOutage(providerID string, reasons []string) (jobID string, at int64, err error) {
	args := []any{providerID}
	for _, r := range reasons {
		args = append(args, r)
	}
	err = tx.rows(`SELECT job_id, marked_at FROM provider_mark WHERE provider_id = ? AND kind = 'failure' AND outage = ''
		AND reason IN (`+strings.TrimSuffix(strings.Repeat("?, ", len(reasons)), ", ")+`) ORDER BY marked_at DESC, job_id LIMIT 1`, func(s scanner) error {
		return s.Scan(&jobID, &at)
	}, args...)
	return jobID, at, err
}

// FadedStrikes lists providers with strikes of a kind that count and are from
// before a time.
func (tx *Tx) FadedStrikes(kind string, before int64, limit int) ([]string, error) {
	var ids []string
	err := tx.rows(`SELECT DISTINCT provider_id FROM provider_mark WHERE weight = 1 AND kind = ? AND marked_at < ? ORDER BY provider_id LIMIT ?`, func(s scanner) error {
		id, err := scanText(s)
		ids = append(ids, id)
		return err
	}, kind, before, limit)
	return ids, err
}

// FadeStrikes lets strikes of a kind from before a time count no longer, and says
// how many those were. Its provider is locked.
func (tx *Tx) FadeStrikes(providerID, kind string, before int64) (int64, error) {
	if strikes[kind] == 0 {
		return 0, fmt.Errorf("fade strikes: %q is none", kind)
	}
	column := markColumns[kind]
	n, err := tx.exec(`UPDATE provider_mark SET weight = 0 WHERE provider_id = ? AND weight = 1 AND kind = ? AND marked_at < ?`, providerID, kind, before)
	if err != nil || n == 0 {
		return n, err
	}
	return n, tx.changeOne(`UPDATE provider SET `+column+` = CASE WHEN `+column+` > ? THEN `+column+` - ? ELSE 0 END, revision = revision + 1, updated_at = ? WHERE id = ?`,
		n, n, tx.Now(), providerID)
}

// QuarantineProvider takes a provider out of service; false when it was already.
func (tx *Tx) QuarantineProvider(id, why string) (bool, error) {
	n, err := tx.exec(`UPDATE provider SET quarantined_at = ?, quarantine_reason = ?, enabled = 0, status = 'failed',
		revision = revision + 1, updated_at = ? WHERE id = ? AND quarantined_at = 0`, tx.Now(), why, tx.Now(), id)
	return n == 1, err
}

// LiftQuarantine clears the quarantine and the strikes that led to it; the marks
// stay, so that an old job cannot strike again.
func (tx *Tx) LiftQuarantine(id string) (bool, error) {
	n, err := tx.exec(`UPDATE provider SET quarantined_at = 0, quarantine_reason = '', failures = 0, violations = 0,
		status = 'stopped', revision = revision + 1, updated_at = ? WHERE id = ? AND quarantined_at > 0`, tx.Now(), id)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.exec(`UPDATE provider_mark SET weight = 0 WHERE provider_id = ? AND weight = 1`, id)
	return true, err
}
