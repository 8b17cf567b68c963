package jobs

import (
	"strconv"
	"strings"
)

// Keys of the events that the authority writes into a run's log. A job is named
// by its hash, which is unique in a run.
const (
	keyRunCreated      = "run-created"
	keyIssueClaimed    = "issue-claimed"
	keyRunStarted      = "run-started"
	keyCancelRequested = "run-cancel-requested"
	keyRunFinished     = "run-finished"
)

func attemptKey(word string, j Job) string {
	key := word + ":" + j.Hash
	if j.Attempt > 1 {
		key += ":" + strconv.FormatInt(j.Attempt, 10)
	}
	return key
}

// keyOf names an event of the whole job; lost adds the attempt that was lost.
func keyOf(word string, j Job) string { return word + ":" + j.Hash }

func lostKey(key string, j Job) string { return key + ":lost-" + strconv.FormatInt(j.Attempt, 10) }

// reservedKeys begin the keys that only the authority uses. If a client could
// take payment:<hash>:released first, the job could never be paid.
var reservedKeys = []string{
	keyRunCreated, keyIssueClaimed,
	"device-enrolled", "caps-set", "provider-", "approval-",
	"budget-reserved", "job-", "tool:oa.", "tool:remit.", "caps-enforced",
	"verify:", "verification:", "payment:", "receipt-payment:", "fallback:",
}

// reservedKey reports whether a key is not a client's to use.
func reservedKey(key string) bool {
	for _, prefix := range reservedKeys {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
