package api

import (
	"remit/law/job"
	"remit/law/task"
)

// Work is the binding as the law has it, nil for none.
func (b *ApprovalBinding) Work() *job.Binding {
	if b == nil {
		return nil
	}
	return &job.Binding{Engine: b.Engine, EngineVersion: b.EngineVersion, EngineSHA256: b.EngineSha256,
		ModelProvider: b.ModelProvider, Model: b.Model, BaselineCommit: b.BaselineCommit, TargetSHA256: b.TargetSha256}
}

// BindingOf is the binding as the API has it, nil for none.
func BindingOf(b *job.Binding) *ApprovalBinding {
	if b == nil {
		return nil
	}
	return &ApprovalBinding{Engine: b.Engine, EngineVersion: b.EngineVersion, EngineSha256: b.EngineSHA256,
		ModelProvider: b.ModelProvider, Model: b.Model, BaselineCommit: b.BaselineCommit, TargetSha256: b.TargetSHA256}
}

// AskerOf is what an asker says of itself as the API has it, nil for nothing.
func AskerOf(a *job.Asker) *ApprovalAsker {
	if a == nil {
		return nil
	}
	out := &ApprovalAsker{SessionID: a.SessionID, Engine: a.Engine, EngineVersion: a.EngineVersion,
		ModelProvider: a.ModelProvider, Model: a.Model, Lowered: []LoweredLimit{}}
	for _, l := range a.Lowered {
		out.Lowered = append(out.Lowered, LoweredLimit{Limit: l.Limit, Asked: l.Asked, Allowed: l.Allowed})
	}
	return out
}

// Work is the asker as the law has it, nil for none.
func (a *ApprovalAsker) Work() *job.Asker {
	if a == nil {
		return nil
	}
	out := &job.Asker{SessionID: a.SessionID, Engine: a.Engine, EngineVersion: a.EngineVersion, ModelProvider: a.ModelProvider,
		Model: a.Model, Lowered: []task.Lowered{}}
	for _, l := range a.Lowered {
		out.Lowered = append(out.Lowered, task.Lowered{Limit: l.Limit, Asked: l.Asked, Allowed: l.Allowed})
	}
	return out
}
