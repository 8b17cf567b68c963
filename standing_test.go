package remit_test

import (
	"slices"
	"strings"
	"testing"
)

// standing says which tests keep what once fell: the trials of the sandbox (S), the
// gateway (G), agents (A), the nexus (N) and first use (U). An entry is done for as
// long as its tests stand.
var standing = []struct{ entry, promise, tests string }{
	{"S1", "no socket, pipe or lock of the host below a directory that is shown, mounts included",
		"work/sandbox:TestHostFilesAreNotMet work/sandbox:TestLocksHoldNobodyUp work/sandbox:TestMountsBelowLentDirectories work/sandbox:TestSearchForWaysOut"},
	{"S2", "nothing that only a supplementary group of the user may read", "work/sandbox:TestGroupsOfTheUser work/sandbox:TestReadsOutsideOfTheWorkspace"},
	{"S3", "no objects of another repository",
		"work/workspace:TestBorrowedObjectsAreRefused work/workspace:TestBorrowedObjectsAreNotRead work/workspace:TestGitDirectoryElsewhere provider:TestSourcesReadNothingElsewhere"},
	{"S4", "floods end in time, process 1 has no memory to write, and new calls are in the filter",
		"work/sandbox:TestInodeFloodEndsInTime work/sandbox:TestCaptureOfAFloodEndsInTime work/sandbox:TestProcessOne work/sandbox:TestDeniedCalls " +
			"work/sandbox:TestTableOfCalls work/sandbox:TestLoginResources work/harness:TestRanFor"},
	{"S5", "a diff does not drive a terminal", "cmd/remit:TestTerminalIsNotDriven cmd/remit:TestVisible"},

	{"G1", "what is stored under the operator's key is out of reach", "work/gateway:TestStoredState work/gateway:TestNothingStored work/gateway:TestNothingIsKept"},
	{"G2", "every request counts, the probe and each further try too", "work/gateway:TestProbeAndLimits work/gateway:TestEveryTryCounts"},
	{"G3", "a piece of a stream is passed on as it comes, over connections that are kept",
		"work/gateway:TestStreamIsNotBuffered work/gateway:TestConnectionsAreReused"},

	{"A1", "Claude Code has no background, and the last complete result decides", "work/engine/claude:TestLiveBackground work/engine/claude:TestEnds"},
	{"A2", "a change behind a broken ending is judged and named", "work/harness:TestBrokenEnd work/harness:TestEndBlockers"},
	{"A3", "an agent has a repository to look at", "work/harness:TestAgentRepository work/engine/agent:TestRepository work/engine:TestScratch"},
	{"A4", "the first failed request of the agent that failed is the cause", "work/harness:TestModelEndings work/gateway:TestAgentOf work/engine/workos:TestEnds"},
	{"A5", "a hint that is followed leads on, and a used-up quota is not asked again",
		"cmd/remit:TestHintsCanBeFollowed cmd/remit:TestHintsAreCommands cmd/remit:TestHintBookCanFail cmd/remit:TestEngines " +
			"proof/reason:TestOperatorsAreLedOn work/gateway:TestRetries " +
			"cmd/remit/testdata/script/model_gates.txtar cmd/remit/testdata/script/hints_followed.txtar"},
	{"A6", "a build of one's own names its commit and toolchain, and every file of an agent counts in its digest",
		"law/admission:TestBuildOfSomebody work/engine/acp:TestEveryFileCounts work/engine/agent:TestClosure"},
	{"A8", "a comparison has versions, tokens by kind, and the time of engine and verifier", "cmd/remit:TestComparisonGolden"},

	{"N1", "a client that is killed at any request leaves nothing open behind its resumption, and one that never comes back is ended",
		"provider:TestClientIsKilledAtEachRequest nexus/server:TestRunIsFoundByItsKey nexus/server:TestSilentRunEnds cmd/remit/testdata/script/nexus_fell.txtar"},
	{"N2", "silent providers do not get in the way of live ones, and may be retired", "nexus/registry:TestCrowd nexus/server:TestProviderRetires cmd/remit/testdata/script/nexus_fell.txtar"},
	{"N3", "answers that do no harm are forgotten at any rate", "nexus/server:TestIdleFleetKeepsNoAnswers nexus/store:TestIdempotencyPrune cmd/remit/testdata/script/nexus_fell.txtar"},
	{"N4", "books are folded from a checkpoint, by one replica",
		// Of these books a script sees the window of their figures.
		"nexus/store:TestBooksFromACheckpoint nexus/store:TestOneReplicaChecks nexus/store:TestCheckpointStaysBehind cmd/remit/testdata/script/nexus_fell.txtar"},
	{"N5", "pages and summaries are read by an index", "nexus/store:TestPlansUseTheIndexes cmd/remit/testdata/script/nexus_fell.txtar"},
	{"N6", "an outage is one strike, strikes fade, and an owner lifts a quarantine",
		"nexus/jobs:TestOutageIsOneStrike nexus/jobs:TestStrikesFade nexus/jobs:TestWhoLiftsAQuarantine cmd/remit/testdata/script/nexus_fell.txtar"},
	{"N7", "draining is seen, and SIGHUP reloads", "cmd/remit:TestDrainIsSeen cmd/remit:TestHangupReloads"},
	{"N8", "what is old is removed, limits have flags, logs and figures are for machines",
		"nexus/server:TestRunsPastTheirRetention nexus/store:TestTrim cmd/remit:TestServeFlagsAreDocumented cmd/remit:TestRequestLog nexus/server:TestMetricsListener"},
	{"N9", "a dispatch, a run and a provider may wait", "nexus/requester:TestWaitsForAProvider provider:TestOnceWaitsForAJob cmd/remit:TestRunUnderNexus"},
	{"N10", "operators type commands", "cmd/remit:TestOperatorsCommands cmd/remit:TestTokensByCommand cmd/remit:TestTenMinutes"},
	{"N11", "the sweep has no ceiling", "nexus/server:TestSweepHasNoCeiling cmd/remit/testdata/script/nexus_fell.txtar"},

	{"U2", "the build cache is filled once, by every command that needs it", "cmd/remit/testdata/script/build_cache.txtar work/sandbox:TestFillOnce"},
	{"U4", "hints name what to write and which program is missing",
		"cmd/remit/testdata/script/first_mistakes.txtar " +
			"cmd/remit/testdata/script/policy_verify.txtar work/verify:TestMissingProgram work/verify:TestFailsBefore cmd/remit:TestNotLent"},
	{"U5", "a person at work in the repository does not spoil a run", "work/harness:TestWorkInTheSourceMeanwhile work/harness:TestSourceOfAnUnconfinedRun cmd/remit/testdata/script/at_work.txtar"},
	{"U6", "the vignette runs, or says what it needs", "cmd/remit:TestVignetteSaysWhatItNeeds cmd/remit:TestVignetteBegins"},
	{"U7", "every block of the documents pastes", "cmd/remit:TestBlocksPaste cmd/remit:TestEveryBlockIsTried cmd/remit:TestTenMinutes"},
	{"U8", "a program that cannot be started has a code and a hint of its own",
		"cmd/remit/testdata/script/first_mistakes.txtar work/harness:TestUnstartable work/engine/command:TestLentWords"},
	{"U9", "a reader that goes away ends no run", "cmd/remit:TestClosedOutput"},
	{"U10", "a home that takes no writes is named, by doctor too", "cmd/remit:TestReadOnlyHome cmd/remit:TestDoctorOfAHome"},
	{"U11", "a bundle is checked without Remit, as the documents say", "cmd/remit/testdata/script/by_hand.txtar cmd/remit:TestBlocksPaste"},
	{"U12", "exit codes follow one rule",
		"cmd/remit/testdata/script/first_mistakes.txtar cmd/remit:TestExitCodes cmd/remit:TestWrongValues cmd/remit:TestWrongWords"},
	{"U13", "--json is JSON", "cmd/remit/testdata/script/first_mistakes.txtar cmd/remit:TestJSONIsJSON"},
	{"U14", "the words on the screen are true and name flags",
		"cmd/remit/testdata/script/first_mistakes.txtar " +
			"cmd/remit/testdata/script/words.txtar cmd/remit:TestHintsNameFlags cmd/remit:TestHelpFits cmd/remit:TestFlagsComplete"},
}

// TestStandingTests holds each of these entries to tests that exist.
func TestStandingTests(t *testing.T) {
	t.Parallel()
	want := strings.Fields("S1 S2 S3 S4 S5 G1 G2 G3 A1 A2 A3 A4 A5 A6 A8 N1 N2 N3 N4 N5 N6 N7 N8 N9 N10 N11 U2 U4 U5 U6 U7 U8 U9 U10 U11 U12 U13 U14")
	var entries []string
	for _, s := range standing {
		entries = append(entries, s.entry)
		tests := strings.Fields(s.tests)
		if s.promise == "" || len(tests) == 0 {
			t.Errorf("%s has no promise or no test", s.entry)
		}
		for _, test := range tests {
			if err := testExists(test); err != nil {
				t.Errorf("%s: %v", s.entry, err)
			}
		}
	}
	if !slices.Equal(entries, want) {
		t.Errorf("entries %q, want %q", entries, want)
	}
}
