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

	"remit/work/gateway/scripted"
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
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
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
