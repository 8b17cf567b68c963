package jobs

import (
	"remit/law/job"
)

// The parts of a response that stand in receipts, reduced to the hashed subset
// of JSON: integers and text, bounded in number.

// artifactsOf lists the artifacts with their digests.
func artifactsOf(resp job.Response) []map[string]any {
	list := []map[string]any{}
	for _, a := range first(resp.Announced(), job.MaxArtifacts) {
		list = append(list, map[string]any{"path": clip(a.Path), "sha256": clip(a.SHA256), "size_bytes": small(a.SizeBytes)})
	}
	return list
}

// runsOf lists the commands with the digests of their output.
func runsOf(resp job.Response) []map[string]any {
	list := []map[string]any{}
	switch r := resp.(type) {
	case job.SandboxRunResponse:
		for _, run := range first(r.Runs, job.MaxCommands) {
			list = append(list, map[string]any{
				"exit_code": run.ExitCode, "duration_ms": small(run.DurationMS),
				"stdout_sha256": clip(run.StdoutSHA256), "stderr_sha256": clip(run.StderrSHA256),
			})
		}
	case job.EngineRunResponse:
		for _, c := range first(r.Verification, job.MaxCommands) {
			list = append(list, map[string]any{"exit_code": c.ExitCode, "duration_ms": small(c.DurationMS)})
		}
	}
	return list
}

// environmentOf is the environment manifest.
func environmentOf(resp job.Response) map[string]any {
	m := map[string]any{}
	var who *job.ProviderInfo
	var box *job.SandboxInfo
	switch r := resp.(type) {
	case job.SandboxRunResponse:
		m["image_digest"] = clip(r.EnvInfo.ImageDigest)
		if s := r.EnvInfo.SystemInfo; s != nil {
			m["system_info"] = clip(*s)
		}
		who, box = r.Provider, r.Platform
	case job.EngineRunResponse:
		who, box = r.Provider, r.Platform
	}
	if who != nil {
		m["provider"] = map[string]any{"id": clip(who.ID), "version": clip(who.Version), "os": clip(who.OS), "arch": clip(who.Arch), "kernel": clip(who.Kernel)}
	}
	if box != nil {
		open := []string{}
		for _, s := range first(box.NotEnforced, 32) {
			open = append(open, clip(s))
		}
		m["sandbox"] = map[string]any{"driver": clip(box.Driver), "version": clip(box.Version), "layer": clip(box.Layer), "not_enforced": open}
	}
	return m
}

// outcomesOf lists the commands of a job with their exits, for the verification
// event.
func outcomesOf(req job.Request, resp job.Response) []map[string]any {
	list := []map[string]any{}
	switch r := resp.(type) {
	case job.SandboxRunResponse:
		mount := ""
		if asked, ok := req.(job.SandboxRunRequest); ok {
			mount = asked.Repo.MountPath
		}
		for _, run := range first(r.Runs, job.MaxCommands) {
			list = append(list, map[string]any{"command": clip(run.Cmd), "exit_code": run.ExitCode, "cwd": mount, "duration_ms": small(run.DurationMS)})
		}
	case job.EngineRunResponse:
		for _, c := range first(r.Verification, job.MaxCommands) {
			list = append(list, map[string]any{"command": clip(c.Command), "exit_code": c.ExitCode, "cwd": "", "duration_ms": small(c.DurationMS)})
		}
	}
	return list
}

func first[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// clip bounds an untrusted text at a rune boundary.
func clip(s string) string {
	const most = job.MaxCmdBytes
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && s[end]&0xc0 == 0x80 {
		end--
	}
	return s[:end]
}

// small keeps a number within what canonical JSON carries.
func small(n uint64) int64 { return int64(min(n, 1<<53-1)) }
