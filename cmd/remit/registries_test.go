package main

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"remit/work/registry"
)

// The proxy of the environment is that of the registry's own address.
func TestProxyForRegistry(t *testing.T) {
	t.Parallel()
	environment := func(r *http.Request) (*url.URL, error) {
		switch r.URL.Host {
		case "bad.example":
			return nil, errors.New("no URL")
		case "own.example":
			return nil, nil // NO_PROXY
		}
		return url.Parse("http://u:p@proxy.example:3128")
	}
	for address, want := range map[string]string{"https://registry.example/npm": "http://u:p@proxy.example:3128", "sparse+https://index.example/": "http://u:p@proxy.example:3128",
		"https://own.example": "", "https://bad.example": "", "::": ""} {
		if got := proxyFor(registry.Upstream{URL: address}, environment); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
