# Remit. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build install uninstall run vignette agents runners real proofs test race soak screenshots bench lint fuzz release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## check and install what is needed (git, bubblewrap, python3, go)
	@scripts/setup.sh test

build: ## build bin/remit
	@scripts/setup.sh build
	@scripts/build.sh bin/remit

install: ## program, man pages and completions to PREFIX (/usr/local as root, else ~/.local); DESTDIR for packages
	@[ -x bin/remit ] && ! command -v go >/dev/null || $(MAKE) --no-print-directory build
	@scripts/install.sh

uninstall: ## remove what install has put there
	@scripts/install.sh uninstall

run: ## build, and take a shipped issue through the whole pipeline
	@scripts/setup.sh run
	@scripts/build.sh bin/remit
	@scripts/demo.sh $(FIXTURE) $(FIXTURE_LANG)
	@echo "  make vignette                      # the same with a nexus, two providers and money: Gate L"

vignette: ## Gate L: issue to verified, paid and mirrored change, with its failure cases
	@scripts/vignette-phase0-issue-to-pr.sh

agents: ## install the tested versions of pi, codex, claude and two agents for acp below .tools/agents
	@scripts/agents.sh

runners: ## install the test runners of npm that the verifier is tried with below .tools/runners
	@scripts/runners.sh

real: ## take real projects from npm and Debian through init, runs and reproduce; prints the table (INSTALL=1 installs Debian packages that their tests need)
	@scripts/setup.sh run
	@scripts/build.sh bin/remit
	@scripts/real-projects.sh

proofs: ## make the ladder's proofs of fake and command anew, which come with the program: after a change of the verifier or of an adapter
	@scripts/setup.sh run
	@go test ./work/prove -run '^TestBuiltInProofs$$' -count=1 -update

test: ## the tests, long ones by turn (REMIT_TURN=all: everything, with the race detector), the second verifier; counts at the end
	@scripts/setup.sh test
	@scripts/test.sh

race: ## the tests of what runs side by side, with the race detector
	@scripts/setup.sh test
	@scripts/test.sh --race

soak: ## crash loop, the authority under fire, agents, escape suite and failure matrix for SOAK_TIME (default 10m); tables at the end
	@scripts/setup.sh test
	@scripts/soak.sh

screenshots: ## pictures of every page of the panel, in both themes, from fixtures; CHECK=1 says which of the README's are stale
	@scripts/setup.sh test
	@REMIT_SCREENSHOTS=$(if $(CHECK),check,write) go test ./nexus/panel -run '^TestScreenshots$$' -count=1 -v

bench: ## benchmarks, and whole runs against plain git; results in bench/latest.txt
	@scripts/setup.sh run
	@scripts/build.sh bin/remit
	@scripts/bench.sh

lint: ## gofmt, go vet, shellcheck, golangci-lint, actionlint, govulncheck
	@scripts/setup.sh build
	@scripts/lint.sh

fuzz: ## every fuzz target for FUZZTIME each (default 10s)
	@scripts/setup.sh build
	@scripts/fuzz.sh

release: ## reproducible binaries and their sums in dist/
	@scripts/setup.sh build
	@scripts/release.sh

clean: ## remove what the other targets made
	@rm -rf bin dist bench .remit-demo .tools
