package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"remit/nexus/api"
	"remit/proof/reason"
)

// What the commands of an operator have in common: ids that are found by name
// or as "latest", lists of many pages, and completion that asks the nexus.

// latestItem is the word for the newest of what is listed.
const latestItem = "latest"

// listAll reads a list to its end, or to the most that is wanted.
func listAll[T any](most int, page func(cursor *string) ([]T, *string, error)) ([]T, error) {
	out := []T{}
	for cursor := (*string)(nil); ; {
		items, next, err := page(cursor)
		if err != nil {
			return nil, err
		}
		out = append(out, items...)
		if cursor = next; cursor == nil || len(out) >= most {
			return out[:min(len(out), most)], nil
		}
	}
}

// refuseSecret keeps the text of a token out of URLs and logs when it is given
// where an id or a name belongs.
func refuseSecret(what, given string) error {
	if !strings.HasPrefix(given, "rmt_") {
		return nil
	}
	return usagef("this takes %s, and not the text of a token, which everybody on this machine could read on the command line. Revoke it: its id is in 'remit token list'", what)
}

// listedProviders are those of an owner, by id.
func listedProviders(ctx context.Context, c *api.Client, owner string, retired bool, most int) ([]api.Provider, error) {
	return listAll(most, func(cursor *string) ([]api.Provider, *string, error) {
		got, err := api.ListProviders.Get(ctx, c,
			api.ListProvidersParams{Owner: api.Optional(owner), Retired: api.Optional(retired), Cursor: cursor})
		if err != nil {
			return nil, nil, err
		}
		return got.Items, got.NextCursor, nil
	})
}

// providerID finds a provider by its id or by its name.
func providerID(ctx context.Context, c *api.Client, owner, given string, retired bool) (string, error) {
	if err := refuseSecret("the id or the name of a provider", given); err != nil || strings.HasPrefix(given, "prv_") {
		return given, err
	}
	found, err := providersNamed(ctx, c, owner, given, retired)
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 0:
		return "", unknownProvider(ctx, c, owner, given, retired)
	case 1:
		return found[0], nil
	}
	return "", usagef("%d providers have the name %q: give the id of one, %s", len(found), given, strings.Join(found, " or "))
}

// providersNamed are the ids of the providers with a name.
func providersNamed(ctx context.Context, c *api.Client, owner, name string, retired bool) (ids []string, err error) {
	list, err := listedProviders(ctx, c, owner, retired, maxProviders)
	for _, p := range list {
		if p.Name == name {
			ids = append(ids, p.ProviderID)
		}
	}
	return ids, err
}

// unknownProvider says why a name finds no provider: one that is retired is found by
// 'remit provider delete' alone, and that finds no other.
func unknownProvider(ctx context.Context, c *api.Client, owner, name string, retired bool) error {
	others, err := providersNamed(ctx, c, owner, name, !retired)
	switch {
	case err != nil:
		return err
	case len(others) > 0 && retired:
		return reason.Errorf(reason.Conflict, "provider %s, %q, is not retired", others[0], name).
			WithHint("retire it first: `remit provider retire %s`", others[0])
	case len(others) > 0:
		return reason.Errorf(reason.Conflict, "provider %s, %q, is retired, for good", others[0], name).
			WithHint("`remit provider delete %s` removes it from all lists; the machine may join again, as another provider", others[0])
	}
	return reason.Errorf(reason.NotFound, "no provider %q", name).
		WithHint("`remit provider list` shows ids and names; --owner is for administrators")
}

// listedRuns are the newest ones.
func listedRuns(ctx context.Context, c *api.Client, most int) ([]api.Run, error) {
	return foundRuns(ctx, c, api.ListRunsParams{}, most)
}

// foundRuns are the newest ones that a filter finds.
func foundRuns(ctx context.Context, c *api.Client, filter api.ListRunsParams, most int) ([]api.Run, error) {
	return listAll(most, func(cursor *string) ([]api.Run, *string, error) {
		filter.Cursor, filter.Limit = cursor, new(min(most, 100))
		got, err := api.ListRuns.Get(ctx, c, filter)
		if err != nil {
			return nil, nil, err
		}
		return got.Items, got.NextCursor, nil
	})
}

// runID is an id, or that of the newest run.
func runID(ctx context.Context, c *api.Client, given string) (string, error) {
	if given != latestItem {
		return given, refuseSecret("the id of a run", given)
	}
	list, err := listedRuns(ctx, c, 1)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", reason.Errorf(reason.NotFound, "there is no run yet").
			WithHint("`remit run --nexus URL …` makes one; `remit runs new --repo-ref REPO` one for jobs that are dispatched by hand")
	}
	return list[0].RunID, nil
}

// listedJobs are those of a run in the order of their dispatch.
func listedJobs(ctx context.Context, c *api.Client, run string, most int) ([]api.Job, error) {
	return listAll(most, func(cursor *string) ([]api.Job, *string, error) {
		got, err := api.ListJobs.Get(ctx, c, api.ListJobsParams{RunID: run, Cursor: cursor})
		if err != nil {
			return nil, nil, err
		}
		return got.Items, got.NextCursor, nil
	})
}

// latestRuns bounds in how many runs the newest job is looked for.
const latestRuns = 20

// jobID is an id, or that of the newest job of the newest runs.
func jobID(ctx context.Context, c *api.Client, given string) (string, error) {
	if given != latestItem {
		return given, refuseSecret("the id of a job", given)
	}
	runs, err := listedRuns(ctx, c, latestRuns)
	if err != nil {
		return "", err
	}
	newest := api.Job{}
	for _, run := range runs {
		jobs, err := listedJobs(ctx, c, run.RunID, maxListed)
		if err != nil {
			return "", err
		}
		for _, j := range jobs {
			if j.DispatchedAt >= newest.DispatchedAt {
				newest = j
			}
		}
	}
	if newest.JobID == "" {
		return "", reason.Errorf(reason.NotFound, "no job in the newest %d runs", latestRuns).WithHint("give its id, see `remit jobs list RUN`")
	}
	return newest.JobID, nil
}

// maxListed bounds what one command lists.
const maxListed = 10_000

// completeTime is how long a shell waits for words that the nexus knows.
const completeTime = 2 * time.Second

// completion asks the nexus for words that may stand as the first argument.
func completion(nexus *nexusFlags, ask func(context.Context, *api.Client) ([]string, error),
) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || nexus.tokenFile == "-" { // standard input is the shell's
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		nexus.once = true
		c, err := nexus.client(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completeTime)
		defer cancel()
		words, err := ask(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completed bounds the words of a completion.
const completed = 50

func runWords(ctx context.Context, c *api.Client) ([]string, error) {
	list, err := listedRuns(ctx, c, completed)
	words := []string{latestItem}
	for _, r := range list {
		words = append(words, r.RunID+"\t"+plain(string(r.Status)+" "+r.RepoRef))
	}
	return words, err
}

func jobWords(ctx context.Context, c *api.Client) ([]string, error) {
	runs, err := listedRuns(ctx, c, latestRuns)
	if err != nil {
		return nil, err
	}
	words := []string{latestItem}
	for _, r := range runs {
		jobs, err := listedJobs(ctx, c, r.RunID, completed)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			words = append(words, j.JobID+"\t"+plain(string(j.State)+" "+j.JobType))
		}
	}
	return words[:min(len(words), completed)], nil
}

func providerWords(ctx context.Context, c *api.Client) ([]string, error) {
	list, err := listedProviders(ctx, c, "", false, completed)
	var words []string
	for _, p := range list {
		words = append(words, p.ProviderID+"\t"+plain(p.Name), plain(p.Name)+"\t"+p.ProviderID)
	}
	return words, err
}

// nexusItem is a kind of thing at the nexus that a command takes as its only
// argument: how its id is found, and which words complete it.
type nexusItem struct {
	id    func(ctx context.Context, c *api.Client, given string) (string, error)
	words func(context.Context, *api.Client) ([]string, error)
}

var (
	oneRun = nexusItem{runID, runWords}
	oneJob = nexusItem{jobID, jobWords}
)

// command makes a command about one item, which runs act with its id.
func (i nexusItem) command(cmd *cobra.Command, act func(cmd *cobra.Command, c *api.Client, id string) error) *cobra.Command {
	nexus := new(nexusFlags)
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := nexus.client(cmd)
		if err != nil {
			return err
		}
		id, err := i.id(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		return act(cmd, c, id)
	}
	nexus.add(cmd)
	cmd.ValidArgsFunction = completion(nexus, i.words)
	return cmd
}

// listed is the document of a list.
type listed[T any] struct {
	Items []T `json:"items"`
}

// listCommand makes a command that lists what ask finds, at most as many as
// --limit says, as a table or as JSON.
func listCommand[T any](a *app, nexus *nexusFlags, cmd *cobra.Command, most int,
	ask func(cmd *cobra.Command, c *api.Client, args []string, most int) ([]T, error), table func(io.Writer, []T) error,
) *cobra.Command {
	cmd.Flags().IntVar(&most, "limit", most, "list at most this many")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if most < 1 {
			return usagef("--limit %d: must be at least 1", most)
		}
		c, err := nexus.client(cmd)
		if err != nil {
			return err
		}
		list, err := ask(cmd, c, args, most)
		if err != nil {
			return err
		}
		return a.present(cmd.OutOrStdout(), listed[T]{list}, func(w io.Writer) error { return table(w, list) })
	}
	return cmd
}

// addChoice adds a flag that narrows a list to one of a few words.
func addChoice(cmd *cobra.Command, to *string, name string, words []string) {
	cmd.Flags().StringVar(to, name, "", "only those that are "+strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
	choose(cmd, name, words)
}

// present prints a value as JSON, or for people.
func (a *app) present(w io.Writer, v any, people func(io.Writer) error) error {
	if a.json {
		return printJSON(w, v)
	}
	return people(w)
}

// empty says that a list has nothing in it.
func empty(w io.Writer, what string) error {
	_, err := fmt.Fprintf(w, "No %s.\n", what)
	return err
}

// printTable prints a header and a line for each item, in columns that tabs end.
// Of an empty list it says so by what there is none of, if that is named.
func printTable[T any](w io.Writer, what, header string, items []T, line func(T) string) error {
	if len(items) == 0 && what != "" {
		return empty(w, what)
	}
	tab := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tab, header)
	for _, item := range items {
		fmt.Fprintln(tab, line(item))
	}
	return tab.Flush()
}
