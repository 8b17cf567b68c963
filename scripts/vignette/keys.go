package main

import "fmt"

// The log of a run says what happened by its keys: one for each thing that can
// happen once. A scenario therefore knows the whole set beforehand.

// createdKeys begin every run that is made from an issue.
func createdKeys() []string { return []string{"run-created", "issue-claimed", "run-started"} }

// standingKeys are the copies of what a dispatch relied on: who the provider's
// device is and which caps it has.
func (p *provider) standingKeys() []string {
	enrolled := object{"device_id": p.device, "name": p.name, "owner": p.owner.name, "roles": []any{"provider"}}
	return []string{
		"device-enrolled:" + p.device + ":" + bareDigest(canonical(nil, enrolled))[:16],
		"caps-set:" + p.id + ":1",
	}
}

// attempt names what belongs to one attempt of a job.
func attempt(word, hash string, number int) string {
	if number > 1 {
		return fmt.Sprintf("%s:%s:%d", word, hash, number)
	}
	return word + ":" + hash
}

// leasedKeys are written when a job is offered, and when the provider takes it
// under a fence.
func leasedKeys(p *provider, hash string, number int, fence int64) []string {
	return append(p.standingKeys(), attempt("budget-reserved", hash, number), attempt("job-dispatched", hash, number),
		fmt.Sprintf("job-leased:%s:%d", hash, fence))
}

// answeredKeys are written when the provider hands its result in; how is
// completed or failed.
func answeredKeys(hash, how string, number int) []string {
	return []string{"tool:" + jobType + ":" + hash, "job-" + how + ":" + hash, attempt("caps-enforced", hash, number)}
}

// settledKeys are the four events of a settlement.
func settledKeys(hash, status string) []string {
	return append([]string{"verify:" + hash, "verification:" + hash}, paidKeys(hash, status)...)
}

// paidKeys say how the money of a job ended.
func paidKeys(hash, status string) []string {
	return []string{"payment:" + hash + ":" + status, "receipt-payment:" + hash + ":" + status}
}

// penaltyKey is the copy of a mark against a provider.
func penaltyKey(jobID, kind string, p *provider) string {
	return "provider-penalized:" + jobID + ":" + kind + ":" + p.id
}
