package api

import "remit/law/job"

// Work is the binding as the law has it, nil for none.
func (b *ApprovalBinding) Work() *job.Binding {
	if b == nil {
		return nil
	}
	return &job.Binding{Engine: b.Engine, EngineVersion: b.EngineVersion, EngineSHA256: b.EngineSha256, ModelProvider: b.ModelProvider, Model: b.Model,
		BaselineCommit: b.BaselineCommit, TargetSHA256: b.TargetSha256}
}

// BindingOf is the binding as the API has it, nil for none.
func BindingOf(b *job.Binding) *ApprovalBinding {
	if b == nil {
		return nil
	}
	return &ApprovalBinding{Engine: b.Engine, EngineVersion: b.EngineVersion, EngineSha256: b.EngineSHA256, ModelProvider: b.ModelProvider, Model: b.Model,
		BaselineCommit: b.BaselineCommit, TargetSha256: b.TargetSHA256}
}
