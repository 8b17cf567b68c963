package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/secret"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/gateway"
	"remit/work/gateway/scripted"
	"remit/work/harness"
	"remit/work/keycommand"
	"remit/work/route"
)

func (a *app) modelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "model", Short: "Try engines without a model, and without a key",
		Long: `A model answers the prompts of an engine. These commands have to do with models
themselves; which of them a run may ask is decided by its contract and policy.`,
	}
	cmd.AddCommand(a.modelScriptCommand())
	return cmd
}

func (a *app) modelScriptCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "script FILE", Short: "Serve a model that says what a script tells it to", Args: cobra.ExactArgs(1),
		Long: `Script serves a model that answers over the chat, responses and messages protocols
with what the script in FILE says: texts, calls of tools, and every way in which a
model can fail. It asks for no key and sends nothing anywhere. The format is
described in docs/engines.md.

It prints its URL when it takes requests, and at its end what it was asked and
which usage it reported. GET /scripted/counts says the same at any time.

Exit code 3 when the script cannot be read; every mistake in it is named.`,
		Example: `  remit model script fix.yaml
  remit model script fix.yaml --listen 127.0.0.1:8080`,
		RunE: func(cmd *cobra.Command, args []string) error {
			script, err := scripted.Load(args[0])
			if err != nil {
				return err
			}
			return a.serveScript(cmd, script, listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on; port 0 takes a free one")
	return cmd
}

func (a *app) serveScript(cmd *cobra.Command, script *scripted.Script, address string) error {
	ctx := cmd.Context()
	listener, err := listenAt(ctx, address)
	if err != nil {
		return err
	}
	model := scripted.New(script, scripted.Options{})
	if err := a.announceModel(cmd.OutOrStdout(), "http://"+listener.Addr().String()); err != nil {
		return errors.Join(err, listener.Close())
	}
	// Requests end with the command: some scripts leave clients waiting for ever.
	h := &http.Server{Handler: model, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	err = h.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if !a.json { // which is to be one document
		printCounts(cmd.OutOrStdout(), model.Count())
	}
	return err
}

// announceModel says where the model is, for each kind of client.
func (a *app) announceModel(out io.Writer, url string) error {
	if a.json {
		return printJSON(out, map[string]any{"url": url, "base_urls": map[scripted.Protocol]string{
			scripted.Chat: url + "/v1", scripted.Responses: url + "/v1", scripted.Messages: url}})
	}
	_, err := fmt.Fprintf(out, "scripted model at %s\n  base URL for chat and responses: %s/v1\n  base URL for messages: %s\n", url, url, url)
	return err
}

func printCounts(out io.Writer, c scripted.Counts) {
	fmt.Fprintf(out, "%d requests: %d completed, %d refused, %d broken off, %d not in the script; %d elsewhere\n",
		c.Requests, c.Completed, c.Refused, c.Broken, c.Unscripted, c.Elsewhere)
	fmt.Fprintf(out, "tokens reported: %d in, %d read from the cache, %d written to it, %d out (%d reasoning)\n",
		c.InUncached, c.CacheRead, c.CacheWrite, c.Out, c.Reasoning)
	if len(c.Models) > 0 {
		fmt.Fprintf(out, "models asked for: %s\n", plainText(strings.Join(c.Models, ", ")))
	}
}

// modelFlags say which model an engine may ask, and how it is reached. There is
// no flag for a key: command lines are visible to everybody on the machine.
type modelFlags struct {
	bin, preset, provider, model, engineModel                string
	baseURL, keyEnv, keyFile, keyCommand, caFile, pricesFile string
	local, stored                                            bool

	ofSession bool // a follow-up takes provider and model from its session, and the command line says nothing
}

func (f *modelFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.bin, "bin", "", "the agent's program or its package (default: what make agents installed, else PATH)")
	fl.StringVar(&f.provider, "model-provider", "", "whose model the engine asks: openai, anthropic or a name of yours")
	fl.StringVar(&f.model, "model", "", "the one model that it may ask, exactly as its admission names it")
	f.addPreset(cmd)
	fl.StringVar(&f.engineModel, "engine-model", "", "how the engine calls the model, when it knows it by another name")
	fl.StringVar(&f.baseURL, "base-url", "", "address of the provider, without the protocol's path (default: the well-known one)")
	fl.StringVar(&f.keyEnv, "key-env", "", "variable that holds the provider's key (default OPENAI_API_KEY or ANTHROPIC_API_KEY)")
	fl.StringVar(&f.keyFile, "key-file", "", "file that holds the provider's key")
	fl.StringVar(&f.keyCommand, "key-command", "", "program and arguments that print the provider's key, e.g. 'pass show openai'; no shell")
	fl.StringVar(&f.caFile, "model-ca", "", "PEM file of a further authority for the provider's certificate")
	fl.StringVar(&f.pricesFile, "prices", "", "price table (YAML or JSON): PROVIDER/MODEL: {in, cache_read, cache_write, out} in dollars per million tokens")
	fl.BoolVar(&f.stored, "stored-state", false, "let the engine use what is stored at the provider under the key: files, containers, earlier answers")
	fl.BoolVar(&f.local, "local-model", false, "the provider is on this machine or in this network, and may need no key")
}

// route is the way to the model, nil for an engine that asks none.
func (f *modelFlags) route(e engine.Engine, records admission.Store, policy *task.Policy) (*harness.ModelRoute, error) {
	prices, err := f.prices()
	if err != nil {
		return nil, err
	}
	if _, asks := e.(engine.Modelled); !asks {
		if f.model != "" || f.provider != "" {
			return nil, usagef("--model and --model-provider are for engines that ask a model")
		}
		return nil, nil
	}
	if f.provider == "" || f.model == "" {
		return nil, usagef("this engine asks a model: give --model-provider and --model")
	}
	m, err := f.named()
	if err != nil {
		return nil, err
	}
	u, source := m.Upstream()
	if err := policy.CheckModel(task.ModelAsk{Provider: u.Provider, Class: u.Class, BaseURL: u.BaseURL, Credential: source}); err != nil {
		return nil, err
	}
	r := m.Route(records, prices)
	r.StoredState = f.stored
	r.KeepBodies = policy != nil && policy.Model.KeepBodies
	return r, nil
}

// words are the flags that say where agent and model are, for another command.
func (f *modelFlags) words() string {
	var b strings.Builder
	for _, w := range []struct{ flag, value string }{{"bin", f.bin}, {"engine-model", f.engineModel}, {"base-url", f.baseURL}, {"key-env", f.keyEnv}, {"key-file", f.keyFile},
		{"key-command", f.keyCommand}, {"model-ca", f.caFile}, {"prices", f.pricesFile}} {
		if w.value != "" {
			b.WriteString(" --" + w.flag + " " + form.ShellWord(w.value))
		}
	}
	if f.local {
		b.WriteString(" --local-model")
	}
	return b.String()
}

// variableName is how a variable can be called that a key is in.
var variableName = form.Lazy(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// noKey refuses a key in the place of a variable's name, and does not say it
// again: what a message holds is printed, and recorded.
func noKey(name string) error {
	found := 0
	err := secret.New(nil).Scan(strings.NewReader(name), secret.All, func(secret.Finding, []byte) { found++ })
	if name != "" && (!variableName().MatchString(name) || err != nil || found > 0) {
		return usagef("--key-env takes the name of a variable that holds the key (given was something else, which is not repeated here)")
	}
	return nil
}

// warnOfKeyFile says that others can read the key. It is no refusal: where
// secrets are mounted into a container, everybody there can.
func (f *modelFlags) warnOfKeyFile(w io.Writer) {
	if mode, shared := route.ReadByOthers(f.keyFile); shared {
		fmt.Fprintf(w, "remit: the file of --key-file can be read by others (mode %o); chmod 600 it\n", mode)
	}
}

// named is the model of the flags.
func (f *modelFlags) named() (route.Model, error) {
	m := route.Model{Provider: f.provider, Name: f.model, EngineName: f.engineModel, BaseURL: f.baseURL, Local: f.local, CAFile: f.caFile,
		KeyEnv: f.keyEnv, KeyFile: f.keyFile}
	err := noKey(f.keyEnv)
	if err != nil {
		return m, err
	}
	if f.keyCommand != "" {
		if m.KeyCommand, err = keycommand.Split(f.keyCommand); err != nil {
			return m, usagef("--key-command: %w", err)
		}
	}
	return m, nil
}

// prices are those of the user's table; nil without one.
func (f *modelFlags) prices() (map[string]gateway.Price, error) {
	if f.pricesFile == "" {
		return nil, nil
	}
	table, err := task.LoadPrices(f.pricesFile)
	if err != nil {
		return nil, err
	}
	return route.Prices(table), nil
}

// engineBuild is what an engine would execute. The engines that are built in have
// no record that asks, and their identity is their name.
type engineBuild struct {
	name     string
	asked    bool
	identity evidence.EngineIdentity
	err      error
}

func buildOf(ctx context.Context, e engine.Engine, name string) engineBuild {
	b := engineBuild{name: name, asked: eligibility.AdmissionRequired(name), identity: evidence.EngineIdentity{Name: name}}
	if b.asked {
		b.identity, b.err = e.Identity(ctx)
	}
	return b
}

// admission is what the records and the policy say of an engine.
func (b engineBuild) admission(records admission.Store, policy *task.Policy) (harness.Admission, error) {
	switch {
	case reason.CodeOf(b.err) == reason.ProviderUnavailable:
		return harness.Admission{Unavailable: b.err}, nil
	case !b.asked || b.err != nil:
		return harness.Admission{}, b.err
	}
	admitted, _ := route.Admission(records, b.identity) // the run tells what the record says
	enabled, stated := policy.Engine(b.name)
	admitted.Enabled = enabled && stated
	return admitted, nil
}

// records are the admission records of the home, as a run under a contract and a
// policy asks them.
func (a *app) records(c *task.Contract, policy *task.Policy, policySHA256, repo string, build engineBuild) (admission.Store, error) {
	facts := admission.Facts{}
	if policySHA256 != "" { // else the contract is not known whole, and a trigger on it would fire for nothing
		var err error
		if facts, err = admission.FactsOf(c, policySHA256); err != nil {
			return admission.Store{}, err
		}
	}
	if build.asked && build.err == nil {
		facts[admission.OnEngineDigest] = build.identity.SHA256
	}
	if path, err := targetPath(repo); err == nil {
		facts[admission.OnTargetPath] = admission.TargetDigest(path)
	}
	return route.Records(a.home.Dir, policy.SignedRecords(), facts), nil
}

// targetAdmission is what the records say of the repository of a run that touches
// it.
func targetAdmission(records admission.Store, c *task.Contract, repo string) (harness.TargetAdmission, error) {
	if !c.MutationMode.Exceeds(task.SandboxRepo) {
		return harness.TargetAdmission{}, nil
	}
	path, err := targetPath(repo)
	if err != nil {
		return harness.TargetAdmission{Code: reason.TargetRecordMissing, Detail: "the target has no path that a record could name"}, nil //nolint:nilerr // the gate refuses
	}
	result, rec := records.TargetResult(path, c)
	t := harness.TargetAdmission{Admitted: result.Admitted(), Code: result.Code, Detail: result.Detail}
	if rec != nil {
		t.Status = string(rec.Status)
		t.SHA256, err = canon.DigestOf(rec)
	}
	return t, err
}

// disabled reports whether the policy switches an engine off.
func disabled(policy *task.Policy, engine string) bool {
	enabled, stated := policy.Engine(engine)
	return stated && !enabled
}
