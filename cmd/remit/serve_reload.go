package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"
)

// certificates are those of a nexus with TLS. They are read again while it runs:
// connections that begin afterwards have the new ones.
type certificates struct {
	cert, key, clientCA string
	now                 atomic.Pointer[tls.Config]
}

// tls reads the certificate, if there is one.
func (f serveFlags) tls() (*certificates, error) {
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return nil, usagef("--tls-cert and --tls-key go together")
	}
	if f.tlsCert == "" {
		if f.caFile != "" {
			return nil, usagef("--tls-client-ca needs --tls-cert and --tls-key")
		}
		return nil, nil
	}
	c := &certificates{cert: f.tlsCert, key: f.tlsKey, clientCA: f.caFile}
	return c, c.read()
}

// read takes what the files hold now, all or nothing.
func (c *certificates) read() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("load the certificate: %w", err)
	}
	// HTTP/2 has no upgrade to WebSocket in the standard library; clients of
	// lanes ask for HTTP/1.1 by themselves.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.clientCA != "" {
		pem, err := os.ReadFile(c.clientCA)
		if err != nil {
			return fmt.Errorf("load the client authorities: %w", err)
		}
		// A session that is taken up again would be good for whom the authorities of
		// today do not know.
		config.SessionTicketsDisabled = true
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return usagef("%s holds no certificate in PEM", c.clientCA)
		}
	}
	c.now.Store(config)
	return nil
}

// config answers every handshake with what was read last.
func (c *certificates) config() *tls.Config {
	outer := c.now.Load().Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load(), nil }
	return outer
}

// logFlags say what is logged, and how.
type logFlags struct {
	format, level, levelFile string
	requests, verbose        bool
	given                    *pflag.FlagSet
}

func (f *logFlags) add(flags *pflag.FlagSet) {
	f.given = flags
	flags.StringVar(&f.format, "log-format", "text", "text or json, one line each on standard error")
	flags.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.levelFile, "log-level-file", "", "file with the level, which SIGHUP reads again")
	flags.BoolVar(&f.requests, "log-requests", false, "log a line of each request with its id (default true with --log-format json)")
	flags.BoolVar(&f.verbose, "verbose", false, "the same as --log-level debug")
}

func (f *logFlags) check() error {
	switch {
	case f.format != "text" && f.format != "json":
		return usagef("--log-format %q: must be text or json", f.format)
	case f.levelFile != "" && (f.verbose || f.given.Changed("log-level")):
		return usagef("--log-level-file has the level: leave out --log-level and --verbose")
	}
	_, err := levelOf(f.level)
	if err != nil {
		return usagef("--log-level: %w", err)
	}
	return nil
}

// open makes the log, whose level can be changed.
func (f *logFlags) open(w io.Writer) (*slog.Logger, *logLevel, error) {
	level := &logLevel{file: f.levelFile}
	word := f.level
	if f.verbose {
		word = "debug"
	}
	start, err := levelOf(word)
	if err != nil {
		return nil, nil, err
	}
	level.Set(start)
	if err := level.read(); err != nil {
		return nil, nil, asUsage(err)
	}
	opt := &slog.HandlerOptions{Level: &level.LevelVar}
	if f.format == "json" {
		return slog.New(slog.NewJSONHandler(w, opt)), level, nil
	}
	return slog.New(slog.NewTextHandler(w, opt)), level, nil
}

// requestLevel is that of the line of a request.
func (f *logFlags) requestLevel() slog.Level {
	if f.requests || f.format == "json" && !f.given.Changed("log-requests") {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// logLevel is the level of a log, which a file may say.
type logLevel struct {
	slog.LevelVar
	file string
}

// maxLevelFile bounds what is read as a level, in bytes.
const maxLevelFile = 64

// read takes what the file says, if there is one.
func (l *logLevel) read() error {
	if l.file == "" {
		return nil
	}
	file, err := os.Open(l.file)
	if err != nil {
		return fmt.Errorf("--log-level-file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxLevelFile))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("--log-level-file: %w", err)
	}
	level, err := levelOf(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("--log-level-file %s: %w", l.file, err)
	}
	l.Set(level)
	return nil
}

// levelOf reads one of four words.
func levelOf(word string) (slog.Level, error) {
	for name, level := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"error": slog.LevelError} {
		if strings.EqualFold(word, name) {
			return level, nil
		}
	}
	return 0, fmt.Errorf("%.32q must be debug, info, warn or error", word)
}

// reloadOn reads certificates and level again for each signal. What cannot be
// read stays as it was: a slip in a file ends no nexus. stop waits for it.
func reloadOn(ctx context.Context, signals <-chan struct{}, log *slog.Logger, c *certificates, level *logLevel) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			err := level.read()
			if c != nil {
				err = errors.Join(err, c.read())
			}
			if err != nil {
				log.Error("reloaded in part, or not at all: what could not be read stays as it was", "error", err)
				continue
			}
			log.Log(ctx, cmp.Or(level.Level(), slog.LevelInfo), "reloaded", "certificates", c != nil, "log_level", level.Level().String())
		}
	})
	return func() { cancel(); running.Wait() }
}
