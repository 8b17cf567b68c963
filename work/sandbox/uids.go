//go:build linux

package sandbox

import (
	"os"
	"sync"
)

// As root each concurrent run has a real uid and gid of its own, which own
// nothing on the host: RLIMIT_NPROC counts by real uid, and no run may signal
// another. Processes start at different places of the range; that two meet is
// unlikely and then only makes them share the limit on processes.
const (
	firstUID  = 64242
	uidRange  = 1024 // ends below nobody, 65534
	uidBlocks = 64
)

var uids struct {
	sync.Mutex
	taken map[int]bool
}

// takeUID returns the lowest free uid of this process, so that runs one after
// the other share one and its id-mapping namespace.
func takeUID() int {
	uids.Lock()
	defer uids.Unlock()
	if uids.taken == nil {
		uids.taken = map[int]bool{}
	}
	base := os.Getpid() % uidBlocks * (uidRange / uidBlocks)
	for i := range uidRange {
		if uid := firstUID + (base+i)%uidRange; !uids.taken[uid] {
			uids.taken[uid] = true
			return uid
		}
	}
	return firstUID + base // a thousand runs at once: shared
}

func giveUID(uid int) {
	uids.Lock()
	defer uids.Unlock()
	delete(uids.taken, uid)
}
