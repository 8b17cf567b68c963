package task

// Lifecycle says what an end of the engine means that is not its own. An agent
// can do its work and then hang: the change is there, the process is not gone.
// It is stopped, and the verifier judges the change all the same.
type Lifecycle struct {
	// TimeoutAfterValidPatch is what becomes of a run whose engine was stopped
	// for its time or its silence, and whose change the verifier passes. "" is
	// LifecycleBlock.
	TimeoutAfterValidPatch LifecycleRule `json:"timeout_after_valid_patch,omitempty"`
}

// LifecycleRule is what an engine that was stopped means for its run.
type LifecycleRule string

// The rules, strictest first.
const (
	LifecycleBlock LifecycleRule = "block" // the run is blocked and pays nothing; the default
	LifecycleAllow LifecycleRule = "allow" // it can pass, and its evidence says that the engine was stopped
)

// LifecycleRules returns all rules, strictest first.
func LifecycleRules() []LifecycleRule { return []LifecycleRule{LifecycleBlock, LifecycleAllow} }

// AllowsTimeout reports whether a run can pass whose engine was stopped.
func (l Lifecycle) AllowsTimeout() bool { return l.TimeoutAfterValidPatch == LifecycleAllow }

// canonical leaves the default out: stating it states nothing new.
func (l Lifecycle) canonical() Lifecycle {
	if l.TimeoutAfterValidPatch == LifecycleBlock {
		l.TimeoutAfterValidPatch = ""
	}
	return l
}

// narrowed is the stricter of two; "" says nothing.
func (r LifecycleRule) narrowed(by LifecycleRule) LifecycleRule {
	if by == LifecycleBlock {
		return by
	}
	return r
}

func checkLifecycle(r *report, l Lifecycle) {
	if l.TimeoutAfterValidPatch != "" {
		oneOf(r, "lifecycle.timeout_after_valid_patch", l.TimeoutAfterValidPatch, LifecycleRules())
	}
}

func lifecycleKeys(l *Lifecycle) []key {
	return []key{{"timeout_after_valid_patch", text(&l.TimeoutAfterValidPatch)}}
}
