package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/engine/acp"
	"remit/work/git"
	"remit/work/route"
	"remit/work/sandbox"
	"remit/work/session"
)

// checkup is one line of remit doctor.
type checkup struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, limited, or missing
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

const (
	fine    = "ok"
	limited = "limited"
	missing = "missing"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what this machine can do, and what is missing", Args: cobra.NoArgs,
		Long: `Doctor really tries what a run needs: git, the sandbox driver and its limits, the
place for sessions, the toolchains that verification commands may want, and whether the
proofs that come with the program hold for it. It lists the agents that it finds, with
version, digest, admission, and whether the remit.yaml of the current directory switches
them on. Exit code 3 when a run would be blocked here.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, agents := a.examine(cmd.Context()), a.examineAgents(cmd.Context())
			blocked := false
			for _, c := range checks {
				blocked = blocked || c.Status == missing
			}
			var err error
			if a.json {
				err = printJSON(cmd.OutOrStdout(), map[string]any{"version": version, "commit": commit, "usable": !blocked, "checks": checks,
					"agents": agents})
			} else {
				printCheckups(cmd.OutOrStdout(), checks)
				printAgents(cmd.OutOrStdout(), agents)
			}
			if err == nil && blocked {
				err = exitCode(3)
			}
			return err
		},
	}
}

func (a *app) examine(ctx context.Context) []checkup {
	checks := []checkup{
		{"remit", fine, fmt.Sprintf("%s (%s), %s/%s", version, commit, runtime.GOOS, runtime.GOARCH), ""},
		examineGit(),
	}
	checks = append(checks, a.examineSandbox(ctx)...)
	checks = append(checks, a.examineHome(), a.examineCache())
	checks = append(checks, a.examineProofs()...)
	for _, tool := range []string{"go", "python3", "node"} {
		checks = append(checks, examineTool(tool))
	}
	return checks
}

func examineGit() checkup {
	b, err := git.Find()
	if err != nil {
		return checkup{"git", missing, err.Error(), adviceOn(err)}
	}
	return checkup{"git", fine, b.Version + " at " + b.Path, ""}
}

func (a *app) examineSandbox(ctx context.Context) []checkup {
	opt := a.home.SandboxOptions()
	opt.Fresh = true
	driver, err := sandbox.Open(ctx, opt)
	if err != nil {
		return []checkup{{"sandbox", missing, err.Error(), adviceOn(err)}}
	}
	d := driver.Describe()
	checks := []checkup{{"sandbox", fine, fmt.Sprintf("%s %s, workspace as %s", d.Driver, d.Version, d.Layer), ""}}
	for _, what := range d.NotEnforced {
		checks = append(checks, checkup{"sandbox limit", limited, what,
			"the report of every run says so; root can enforce cpu, memory and pids, and a user whose control groups are delegated with them"})
	}
	return checks
}

func (a *app) examineHome() checkup {
	if err := os.MkdirAll(a.home.Dir, 0o700); err != nil {
		return checkup{"sessions", missing, err.Error(), "set REMIT_HOME to a directory that you can write"}
	}
	if err := unix.Access(a.home.Dir, unix.W_OK|unix.X_OK); err != nil { // it is there, and may be read-only
		return checkup{"sessions", missing, fmt.Sprintf("%s cannot be written: %v", a.home.Dir, err),
			"set REMIT_HOME to a directory that you can write"}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(a.home.Dir, &st); err != nil {
		return checkup{"sessions", missing, err.Error(), "set REMIT_HOME to a directory that you can write"}
	}
	free := st.Bavail * uint64(st.Bsize) >> 20
	c := checkup{"sessions", fine, fmt.Sprintf("%s, %d MiB free", a.home.Dir, free), ""}
	const little = 512
	if free < little {
		c.Status, c.Hint = limited, "free some space: a full disk ends a run as artifact_write_failure"
	}
	if sessions, err := (session.Home{Dir: a.home.Dir}).List(); err == nil {
		c.Detail += fmt.Sprintf(", %d session(s)", len(sessions))
	}
	return c
}

// shownDirs are the directories of programs that every sandbox shows.
var shownDirs = []string{"/usr/local/go/bin", "/usr/local/bin", "/usr/bin", "/bin"}

// examineTool looks for a toolchain where the sandbox would show it.
func examineTool(name string) checkup {
	for _, dir := range shownDirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return checkup{name, fine, path, ""}
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return checkup{name, limited, path + " lies in a place that the sandbox does not show",
			"install it below /usr, or lend its directory with --toolchain DIR"}
	}
	return checkup{name, limited, "not found: verification commands that need it will fail", "install it below /usr"}
}

func printCheckups(w io.Writer, checks []checkup) {
	for _, c := range checks {
		fmt.Fprintf(w, "%-8s %-14s %s\n", c.Status, c.Check, plain(c.Detail))
		if c.Hint != "" && c.Status != fine {
			fmt.Fprintf(w, "%23s hint: %s\n", "", c.Hint)
		}
	}
}

// agentCheckup is what doctor says of an engine that drives a foreign agent.
type agentCheckup struct {
	Engine    string `json:"engine"`
	Program   string `json:"program,omitempty"` // of an engine that drives several
	Version   string `json:"version"`           // "" where the agent is not found
	SHA256    string `json:"sha256"`
	Admission string `json:"source_admission_status"` // "" as above
	Switch    string `json:"switch"`                  // on, off, or unset, by the remit.yaml of the current directory
	Detail    string `json:"detail"`
	Hint      string `json:"hint,omitempty"` // the next step to a run with it
}

// examineAgents looks for the agents where their engines would, digests them and
// asks the records and the policy. No agent is started, and none has to be
// there.
func (a *app) examineAgents(ctx context.Context) []agentCheckup {
	policy, _, err := policyOf(ctx, ".", "", true)
	if err != nil {
		policy = nil // no repository here
	}
	var out []agentCheckup
	for _, name := range engineNames() {
		programs := []string{""}
		if name == acp.Name {
			programs = acp.Known()
		}
		for _, program := range programs {
			if eligibility.AdmissionRequired(name) {
				out = append(out, agentCheckup{Engine: name, Program: program, Switch: switchOf(policy, name)})
			}
		}
	}
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() { out[i].look(ctx, route.Records(a.home.Dir, policy.SignedRecords(), nil)) })
	}
	all.Wait()
	return out
}

func switchOf(policy *task.Policy, engine string) string {
	switch enabled, stated := policy.Engine(engine); {
	case !stated:
		return "unset"
	case enabled:
		return "on"
	}
	return "off"
}

func (c *agentCheckup) look(ctx context.Context, records admission.Store) {
	e, err := engineNamed(c.Engine, c.Program)
	if err == nil {
		build, identityErr := e.Identity(ctx)
		if err = identityErr; err == nil {
			c.Version, c.SHA256 = build.Version, build.SHA256
			admitted, _ := route.Admission(records, build)
			c.Admission, c.Detail, c.Hint = admitted.SourceStatus, admitted.Detail, admitted.Remedy
			if c.Hint == "" && c.Switch != "on" {
				c.Hint = fmt.Sprintf("engines.%s.enabled: true in the remit.yaml of a repository switches it on there", c.Engine)
			}
			return
		}
	}
	c.Detail, c.Hint = err.Error(), adviceOn(err)
	if coded, ok := errors.AsType[*reason.Error](err); ok {
		c.Detail = coded.Message
	}
}

func printAgents(w io.Writer, agents []agentCheckup) {
	fmt.Fprintln(w, "\nagents")
	for _, c := range agents {
		status := limited
		if c.Version != "" && c.Admission == string(eligibility.ModelAdmitted) && c.Switch == "on" {
			status = fine
		}
		detail := c.Detail
		if c.Version != "" {
			detail = fmt.Sprintf("%s, %s, source %s, switched %s here", c.Version, c.SHA256, cmp.Or(c.Admission, "not looked up"), c.Switch)
		}
		fmt.Fprintf(w, "%-8s %-14s %s\n", status, cmp.Or(c.Program, c.Engine), plain(detail))
		if c.Hint != "" && status != fine {
			fmt.Fprintf(w, "%23s hint: %s\n", "", plain(c.Hint))
		}
	}
}
