package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"remit/proof/atomicfile"
	"remit/work/agentconf"
	"remit/work/gateway"
)

// prices states a price for a model of the user's own, where none is known. A budget
// in dollars stops a run without a known price, and a model on one's own
// machine costs nothing; the file says so, where its owner can say otherwise.
func (s *setup) prices(context.Context) error {
	known, err := s.model.prices()
	if err != nil || !s.model.local || s.model.pricesFile != "" || gateway.PriceKnown(s.model.provider, s.model.model, known) {
		return err
	}
	path := filepath.Join(s.home.Dir, agentconf.Dir, agentconf.NameOf(s.conf.Engine, s.conf.Command)+".prices.yaml")
	text := fmt.Sprintf("# What the model costs, in dollars per million tokens; written by remit agent setup.\n# A model of your own is counted as costing nothing. If it does, say it here.\n%q: {in: 0, cache_read: 0, cache_write: 0, out: 0}\n",
		s.model.provider+"/"+s.model.model)
	s.model.pricesFile, s.conf.Model.PricesFile = path, path
	if had, err := s.model.prices(); err == nil && gateway.PriceKnown(s.model.provider, s.model.model, had) {
		return nil // of an earlier setup, and perhaps edited since
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.ReplaceDurably(path, []byte(text), 0o600); err != nil {
		return err
	}
	s.did("prices", true, "%s of %s is counted as costing nothing; %s says otherwise if it does", s.model.model, s.model.provider,
		filepath.Join("$REMIT_HOME", agentconf.Dir, filepath.Base(path)))
	return nil
}
