package reason

// governCodes are the entries of the checks over records and proofs that people
// keep beside runs.
var governCodes = []Info{
	// records: a folder of governance records and its workboard.
	{RecordUnreadable, "records", Fail,
		"a file of the folder of records is a link or a special file, or is above a bound of size, count or depth",
		"keep plain files of a sensible size there; the message names the file and the bound"},
	{RecordInvalid, "records", Fail,
		"a record has no front matter, or its front matter breaks a rule",
		"the finding names line and field; docs/governance.md lists the fields"},
	{WorkboardInvalid, "records", Fail,
		"WORKBOARD.yaml is missing, or breaks a rule of its form",
		"the finding names the line; docs/governance.md shows a workboard"},
	{WorkboardCycle, "records", Fail,
		"items of the workboard wait for each other in a circle",
		"remove one of the blocked_by entries that the finding lists"},
	{BlockerNotValidated, "records", Fail,
		"an item is validated while an item that blocks it is not",
		"validate the blocking item first, or take the status back"},
	{EvidenceMissing, "records", Fail,
		"an evidence pointer names no file inside of the folder",
		"put the file into the folder, and name it by its path from there"},
	{EvidenceChanged, "records", Fail,
		"an evidence file has another digest than its pointer names",
		"look at what changed; if the change is right, write the new digest into the workboard"},
	{PassWithoutReport, "records", Fail,
		"a pass or a validation is claimed, and no report of Remit in the evidence says pass",
		"add the report (report.json, or the output of a check with --json) as evidence, or take the claim back"},
	{StatementMissing, "records", Fail,
		"a record lacks a statement that the workboard requires of every record",
		"write the statement into the body of the record, word by word"},
	{ReviewOverdue, "records", Fail,
		"a record or an item is past the day of its review",
		"review it, and write the new last_reviewed or review_by"},

	// guard: what stands in the way of work on a repository.
	{ConflictingWork, "guard", Blocked,
		"other work on the repository is open: a worktree, uncommitted changes, a session, a job or an approval",
		"wait until it has ended; the guard lists it, and touches nothing of it"},
	{OwnershipUnclear, "guard", Blocked,
		"it is not clear whose work is in the repository, so nothing may begin there",
		"the guard names what could not be read or attributed; settle that with its owner first"},

	// refresh: recorded passes, read again.
	{RefreshFailed, "refresh", Fail,
		"a recorded pass does not hold any more, or never did",
		"the check names pass and file; prove the stage again, or keep the pass out of the count"},
	{RepeatabilityShort, "refresh", Blocked,
		"fewer passes with tasks and approvals of their own are recorded than repeatability asks for",
		"prove stage 5 on another task with another approval"},
}
