package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/ladder"
	"remit/nexus/api"
	"remit/nexus/requester"
	"remit/work/session"
	"remit/work/workspace"
)

func (a *app) ladderGuardCommand() *cobra.Command {
	var repo, ref string
	var nexus nexusFlags
	cmd := &cobra.Command{
		Use: "guard --repo DIR", Short: "Say whether a decision about a repository may be opened now", Args: cobra.NoArgs,
		Long: `Guard looks whether work on a repository is open: linked work trees, uncommitted
changes of tracked files and unfinished operations, sessions of this machine that have
not ended, runs, jobs and approvals of the authority, and files of other users. What
cannot be read, or attributed to an owner, blocks as well.

It changes and reserves nothing, and starts git only on copies of its own. The answer
holds for the moment. Exit code 0 when nothing stands in the way, else 3.`,
		Example: `  remit ladder guard --repo .
  remit ladder guard --repo . --nexus https://nexus.example --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := a.guard(cmd, repo, ref, &nexus)
			if err != nil {
				return err
			}
			if err := a.present(cmd.OutOrStdout(), g, func(w io.Writer) error { return printGuard(w, g) }); err != nil || g.Passed() {
				return err
			}
			return exitCode(codeOf(*g.BlockedReason))
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&repo, "repo", ".", "the repository")
	fl.StringVar(&ref, "repo-ref", "", "how the nexus calls the repository (default: the name of its directory)")
	nexus.addOr(cmd, "the authority of this machine")
	return cmd
}

// guarded gathers the open work of one repository.
type guarded struct {
	app    *app
	source *workspace.Source
	trees  []workspace.Worktree
	refs   []string // what authorities may call it
	open   []ladder.OpenWork
}

func (a *app) guard(cmd *cobra.Command, repo, ref string, nexus *nexusFlags) (*ladder.Guard, error) {
	source, err := workspace.OpenSource(cmd.Context(), repo)
	if err != nil {
		return nil, err
	}
	g := &guarded{app: a, source: source}
	if g.trees, err = source.Worktrees(); err != nil {
		return nil, err
	}
	named := nexus.named()
	for _, dir := range append([]string{repo, source.Root()}, g.paths()...) {
		f := &runFlags{repo: dir, repoRef: ref}
		if name, err := f.repositoryAt(named); err == nil && !slices.Contains(g.refs, name) {
			g.refs = append(g.refs, name)
		}
	}
	g.lookAtTrees(cmd.Context())
	g.lookAtSessions(cmd.Context())
	g.lookAtAuthority(cmd, nexus)
	doc := ladder.JudgeGuard(source.Root(), time.Now().UTC().Format(time.RFC3339), g.open)
	return &doc, nil
}

// paths are the places of the work trees that are there.
func (g *guarded) paths() (all []string) {
	for _, t := range g.trees {
		if !t.Gone {
			all = append(all, t.Path)
		}
	}
	return all
}

func (g *guarded) conflict(check, what, format string, args ...any) {
	g.open = append(g.open, ladder.OpenWork{Check: check, What: what, Why: fmt.Sprintf(format, args...)})
}

func (g *guarded) unclear(check, what, format string, args ...any) {
	g.open = append(g.open, ladder.OpenWork{Check: check, What: what, Why: fmt.Sprintf(format, args...), Unclear: true})
}

// lookAtTrees judges every work tree. The one that was named is the only one that
// may be there and be at rest.
func (g *guarded) lookAtTrees(ctx context.Context) {
	const shown = 5 // changed paths
	for _, t := range g.trees {
		what := t.Path
		switch {
		case what == "":
			what = g.source.Common()
		case !t.Main && !sameDir(t.Path, g.source.Root()):
			g.conflict(ladder.GuardWorktrees, what, "a linked work tree at %s%s", strings.TrimPrefix(t.Head, "refs/heads/"),
				map[bool]string{true: ", locked"}[t.Locked])
		}
		for _, operation := range t.Begun {
			g.conflict(ladder.GuardTree, what, "not finished: %s", operation)
		}
		if t.Gone {
			g.unclear(ladder.GuardOwnership, what, "a work tree whose directory is not there, or belongs to another repository")
			continue
		}
		if t.UID != os.Getuid() {
			g.unclear(ladder.GuardOwnership, what, "the directory belongs to user %d, and this command runs as %d", t.UID, os.Getuid())
		}
		source, err := workspace.OpenSource(ctx, t.Path)
		var dirty []string
		if err == nil {
			dirty, err = source.Dirty(ctx)
		}
		if err != nil {
			g.unclear(ladder.GuardTree, what, "its state cannot be read: %v", err)
		}
		if n := len(dirty); n > 0 {
			more := ""
			if n > shown {
				more = fmt.Sprintf(" and %d more", n-shown)
			}
			g.conflict(ladder.GuardTree, what, "uncommitted changes: %s%s", strings.Join(dirty[:min(n, shown)], ", "), more)
		}
	}
}

func sameDir(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// lookAtSessions finds the runs of this machine that have not ended. One whose
// repository is not known may be of this one.
func (g *guarded) lookAtSessions(ctx context.Context) {
	sessions, err := g.app.home.List()
	if err != nil {
		g.unclear(ladder.GuardSessions, g.app.home.Sessions(), "the sessions cannot be listed: %v", err)
	}
	for _, s := range sessions {
		st, err := s.Inspect()
		if err == nil && st.Phase == session.Sealed {
			continue
		}
		local, localErr := g.app.home.LoadLocal(s.ID)
		mine := localErr == nil && local.Repo != "" && g.isHere(ctx, local.Repo)
		switch {
		case localErr != nil || local.Repo == "":
			g.unclear(ladder.GuardSessions, s.ID, "it has not ended, and its repository is not known here")
		case !mine:
		case err != nil:
			g.unclear(ladder.GuardSessions, s.ID, "it cannot be read: %v", err)
		default:
			g.conflict(ladder.GuardSessions, s.ID, "it is %s at %s", st.Phase, st.At)
		}
	}
}

// isHere reports whether a path is in the repository.
func (g *guarded) isHere(ctx context.Context, path string) bool {
	other, err := workspace.OpenSource(ctx, path)
	return err == nil && sameDir(other.Common(), g.source.Common())
}

// lookAtAuthority asks the nexus that was named, or the authority of this machine.
// One that is not there has no jobs; asking it would make it.
func (g *guarded) lookAtAuthority(cmd *cobra.Command, nexus *nexusFlags) {
	ctx := cmd.Context()
	if nexus.named() == "" {
		if _, err := os.Stat(filepath.Join(g.app.home.AuthorityDir(), "nexus.db")); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	to, err := g.app.authority(cmd, nexus, operator())
	var conn *requester.Connection
	if err == nil {
		conn, err = to(ctx)
	}
	if err == nil {
		err = g.ask(ctx, conn)
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		g.unclear(ladder.GuardJobs, "authority", "it cannot be asked: %v", err)
	}
}

func (g *guarded) ask(ctx context.Context, conn *requester.Connection) error {
	runs, err := listedRuns(ctx, conn.Client, maxListed)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if !slices.Contains(g.refs, r.RepoRef) || r.FinishedAt != nil {
			continue
		}
		g.conflict(ladder.GuardJobs, r.RunID, "a run that is %s", r.Status)
		jobs, err := listedJobs(ctx, conn.Client, r.RunID, maxListed)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if slices.Contains([]api.JobState{api.JobStateQueued, api.JobStateLeased, api.JobStateSubmitted, api.JobStateVerified}, j.State) {
				g.conflict(ladder.GuardJobs, j.JobID, "a job that is %s", j.State)
			}
		}
	}
	return eachApproval(ctx, conn, "", "", func(found api.Approval) (bool, error) {
		if slices.Contains(g.refs, found.RepoRef) && (found.Status == api.ApprovalStatusRequested || found.Status == api.ApprovalStatusGranted) {
			g.conflict(ladder.GuardApprovals, found.ApprovalID, "an approval that is %s", statusWord(found))
		}
		return true, nil
	})
}

func printGuard(w io.Writer, g *ladder.Guard) error {
	for _, c := range g.Checks {
		fmt.Fprintf(w, "%-9s %s\n", c.Status, c.Name)
		for _, open := range g.OpenWork {
			if open.Check == c.Name {
				fmt.Fprintf(w, "          %s: %s\n", plain(open.What), plain(open.Why))
			}
		}
	}
	why := ""
	if g.BlockedReason != nil {
		why = ": " + string(*g.BlockedReason)
	}
	_, err := fmt.Fprintf(w, "\n%s  %s%s\nnext: %s\n", upper(g.GuardStatus), plain(g.Repository), why, g.NextAllowedAction)
	return err
}
