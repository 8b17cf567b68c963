package ladder

import "remit/proof/reason"

// GuardSchema names the document of a guard.
const GuardSchema = "remit.ladder.guard.v1"

// What a guard looks at, in the order in which it reports.
const (
	GuardWorktrees = "worktrees" // work trees that are linked to the repository
	GuardTree      = "work_tree" // uncommitted changes and unfinished operations
	GuardSessions  = "sessions"  // runs of this machine that have not ended
	GuardJobs      = "jobs"      // runs and jobs of the authority that have not ended
	GuardApprovals = "approvals" // approvals that are requested, or granted and not used
	GuardOwnership = "ownership" // whose files the repository has
)

// GuardChecks lists them.
func GuardChecks() []string {
	return []string{GuardWorktrees, GuardTree, GuardSessions, GuardJobs, GuardApprovals, GuardOwnership}
}

// OpenWork is one thing that stands in the way of new work on a repository.
type OpenWork struct {
	Check string `json:"check"`
	What  string `json:"what"` // a path, or the id of a session, job or approval
	Why   string `json:"why"`
	// Unclear says that it could not be read, or not be attributed: it blocks like
	// work that is known to be open.
	Unclear bool `json:"unclear"`
}

// GuardCheck is the verdict of one check.
type GuardCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"` // clear, conflict or unclear
}

// The statuses of a guard, of the admission of a route, and of a check.
const (
	GuardPassed  = "passed"
	GuardBlocked = "blocked"

	RouteAdmissible  = "admissible" // it may be asked for; nothing is admitted or reserved by a guard
	RouteNotAdmitted = "not_admitted"

	CheckClear    = "clear"
	CheckConflict = "conflict"
	CheckUnclear  = "unclear"
)

// What may be done next.
const (
	NextWait = "wait_or_open_later_core_route_when_idle"
	NextOpen = "open_governed_core_prd_route"
)

// Guard says whether a decision about a repository may be opened now. It is a look,
// not a lock: it reserves nothing, and holds for the moment in which it was made.
type Guard struct {
	Schema              string       `json:"schema"`
	Repository          string       `json:"repository"`
	CheckedAt           string       `json:"checked_at"`
	GuardStatus         string       `json:"guard_status"`
	RouteAdmission      string       `json:"core_route_admission_status"`
	BlockedReason       *reason.Code `json:"blocked_reason"` // null when passed
	IdleRequired        bool         `json:"idle_governed_core_route_required"`
	NoWorktreeRequired  bool         `json:"no_active_conflicting_core_worktree_required"`
	DoNotTouch          bool         `json:"do_not_touch_other_agent_work"`
	NextAllowedAction   string       `json:"next_allowed_action"`
	Reserved            bool         `json:"reserved"` // false, always
	RuntimeDefault      bool         `json:"runtime_default_activation"`
	CorePromotionStatus string       `json:"core_promotion_status"`
	Checks              []GuardCheck `json:"checks"`
	OpenWork            []OpenWork   `json:"open_work"`
}

// JudgeGuard makes the document of a repository from what stands in the way there.
func JudgeGuard(repository, at string, open []OpenWork) Guard {
	g := Guard{Schema: GuardSchema, Repository: repository, CheckedAt: at, GuardStatus: GuardPassed, RouteAdmission: RouteAdmissible,
		IdleRequired: true, NoWorktreeRequired: true, DoNotTouch: true, NextAllowedAction: NextOpen, CorePromotionStatus: NotPromoted,
		OpenWork: append([]OpenWork{}, open...)}
	if len(open) > 0 {
		code := reason.OwnershipUnclear
		for _, w := range open {
			if !w.Unclear {
				code = reason.ConflictingWork
			}
		}
		g.GuardStatus, g.RouteAdmission, g.NextAllowedAction, g.BlockedReason = GuardBlocked, RouteNotAdmitted, NextWait, &code
	}
	for _, name := range GuardChecks() {
		c := GuardCheck{Name: name, Status: CheckClear}
		for _, w := range open {
			switch {
			case w.Check != name:
			case !w.Unclear:
				c.Status = CheckConflict
			case c.Status == CheckClear:
				c.Status = CheckUnclear
			}
		}
		g.Checks = append(g.Checks, c)
	}
	return g
}

// Passed reports whether nothing stands in the way.
func (g Guard) Passed() bool { return g.GuardStatus == GuardPassed }
