package task

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"remit/proof/reason"
)

func TestEnvironmentIsRead(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, `environment:
  prepare:
    - ecosystem: npm
    - {ecosystem: pip, dir: tools/lint, build: ["python3 -m compileall ."], paths: [.venv]}
  env: {NODE_ENV: test, TZ: UTC}
`)
	want := Environment{Dependencies: DependenciesBase, Env: map[string]string{"NODE_ENV": "test", "TZ": "UTC"}, Prepare: []Prepare{
		{Ecosystem: NPM, Dir: "."},
		{Ecosystem: Pip, Dir: "tools/lint", Build: []string{"python3 -m compileall ."}, Paths: []string{".venv"}}}}
	if got := p.Surroundings(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := (*Policy)(nil).Surroundings(); !reflect.DeepEqual(got, Environment{}) {
		t.Errorf("without a policy: %+v", got)
	}
	for _, same := range []string{"environment: {prepare: [{ecosystem: npm}]}",
		"environment: {dependencies: base, prepare: [{dir: ., ecosystem: npm}]}"} {
		a, err := mustPolicy(t, same+"\n").Digest()
		b, err2 := mustPolicy(t, "environment: {prepare: [{ecosystem: npm, dir: \".\"}]}\n").Digest()
		if err != nil || err2 != nil || a != b {
			t.Errorf("%s has another digest", same)
		}
	}
}

func TestServicesAreRead(t *testing.T) {
	t.Parallel()
	e := mustPolicy(t, `environment:
  env: {TZ: UTC}
  services:
    - name: db
      prepare: initdb -D /tmp/db
      run: postgres -D /tmp/db
      ready: pg_isready
      env: {DATABASE_URL: "postgres://127.0.0.1/"}
    - {name: cache, run: redis-server, ready: redis-cli ping, timeout_seconds: 5}
`).Surroundings()
	want := []Service{
		{Name: "db", Prepare: "initdb -D /tmp/db", Run: "postgres -D /tmp/db", Ready: "pg_isready", Env: map[string]string{"DATABASE_URL": "postgres://127.0.0.1/"}, TimeoutSeconds: 30},
		{Name: "cache", Run: "redis-server", Ready: "redis-cli ping", TimeoutSeconds: 5}}
	if !reflect.DeepEqual(e.Services, want) {
		t.Errorf("got %+v", e.Services)
	}
	if got := e.Variables(); !reflect.DeepEqual(got, map[string]string{"TZ": "UTC", "DATABASE_URL": "postgres://127.0.0.1/"}) || e.Empty() {
		t.Errorf("variables: %v", got)
	}
	a, err := want[0].Digest()
	want[0].Run += " -F"
	if b, err2 := want[0].Digest(); err != nil || err2 != nil || a == b {
		t.Errorf("digests: %s %s %v %v", a, b, err, err2)
	}
}

func TestEnvironmentThatIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		code  reason.Code
		field string
	}{
		"prepare: [{dir: web}]":                                                     {reason.ContractMissingKey, "environment.prepare[0].ecosystem"},
		"prepare: [{ecosystem: npn}]":                                               {reason.ContractValue, "environment.prepare[0].ecosystem"},
		"prepare: [{ecosystem: npm, dir: ../up}]":                                   {reason.ContractValue, "environment.prepare[0].dir"},
		"prepare: [{ecosystem: npm, dir: /etc}]":                                    {reason.ContractValue, "environment.prepare[0].dir"},
		"prepare: [{ecosystem: npm, dir: a/.GIT/b}]":                                {reason.ContractValue, "environment.prepare[0].dir"},
		"prepare: [{ecosystem: npm, paths: [.]}]":                                   {reason.ContractValue, "environment.prepare[0].paths[0]"},
		"prepare: [{ecosystem: npm, paths: [a/../b]}]":                              {reason.ContractValue, "environment.prepare[0].paths[0]"},
		"prepare: [{ecosystem: npm, paths: [a, a/b]}]":                              {reason.ContractValue, "environment.prepare[0].paths[1]"},
		"prepare: [{ecosystem: npm, build: [\"\"]}]":                                {reason.ContractValue, "environment.prepare[0].build[0]"},
		"prepare: [{ecosystem: npm}, {ecosystem: npm}]":                             {reason.ContractValue, "environment.prepare[1]"},
		"prepare: [{ecosystem: npm, network: true}]":                                {reason.ContractUnknownKey, "environment.prepare[0].network"},
		"prepare: [{ecosystem: npm, groups: [dev]}]":                                {reason.ContractValue, "environment.prepare[0].groups"},
		"prepare: [{ecosystem: uv, groups: [--all]}]":                               {reason.ContractValue, "environment.prepare[0].groups[0]"},
		"prepare: [{ecosystem: poetry, groups: [a, a]}]":                            {reason.ContractValue, "environment.prepare[0].groups[1]"},
		"prepare: {ecosystem: npm}":                                                 {reason.ContractType, "environment.prepare"},
		"dependencies: head":                                                        {reason.ContractValue, "environment.dependencies"},
		"image: debian":                                                             {reason.ContractValue, "environment.image"},
		"image: debian:12":                                                          {reason.ContractValue, "environment.image"},
		"image: debian@sha256:abc":                                                  {reason.ContractValue, "environment.image"},
		"image: [debian]":                                                           {reason.ContractType, "environment.image"},
		"image: \"@sha256:" + strings.Repeat("a", 64) + "\"":                        {reason.ContractValue, "environment.image"},
		"image: \"a b@sha256:" + strings.Repeat("a", 64) + "\"":                     {reason.ContractValue, "environment.image"},
		"env: {PATH: /workspace/bin}":                                               {reason.ContractValue, "environment.env.PATH"},
		"env: {LD_PRELOAD: /workspace/x.so}":                                        {reason.ContractValue, "environment.env.LD_PRELOAD"},
		"env: {GIT_DIR: x}":                                                         {reason.ContractValue, "environment.env.GIT_DIR"},
		"env: {NODE_OPTIONS: --require=./x}":                                        {reason.ContractValue, "environment.env.NODE_OPTIONS"},
		"env: {NPM_CONFIG_REGISTRY: x}":                                             {reason.ContractValue, "environment.env.NPM_CONFIG_REGISTRY"},
		"env: {npm_config_registry: x}":                                             {reason.ContractValue, "environment.env.npm_config_registry"},
		"env: {PYTHONPATH: /workspace}":                                             {reason.ContractValue, "environment.env.PYTHONPATH"},
		"env: {RUSTC_WRAPPER: ./x}":                                                 {reason.ContractValue, "environment.env.RUSTC_WRAPPER"},
		"env: {NPM_TOKEN: x}":                                                       {reason.ContractValue, "environment.env.NPM_TOKEN"},
		"env: {A: \"x\\ny\"}":                                                       {reason.ContractValue, "environment.env.A"},
		"env: {A: 1}":                                                               {reason.ContractType, "environment.env.A"},
		"services: {name: db}":                                                      {reason.ContractType, "environment.services"},
		"services: [{run: a, ready: b}]":                                            {reason.ContractMissingKey, "environment.services[0].name"},
		"services: [{name: db, ready: b}]":                                          {reason.ContractMissingKey, "environment.services[0].run"},
		"services: [{name: db, run: a}]":                                            {reason.ContractMissingKey, "environment.services[0].ready"},
		"services: [{name: ../db, run: a, ready: b}]":                               {reason.ContractValue, "environment.services[0].name"},
		"services: [{name: DB, run: a, ready: b}]":                                  {reason.ContractValue, "environment.services[0].name"},
		"services: [{name: db, run: \"a\\0b\", ready: b}]":                          {reason.ContractValue, "environment.services[0].run"},
		"services: [{name: db, run: \"a\\x1bb\", ready: b}]":                        {reason.ContractValue, "environment.services[0].run"},
		"services: [{name: db, run: a, ready: b, ports: [1]}]":                      {reason.ContractUnknownKey, "environment.services[0].ports"},
		"services: [{name: db, run: a, ready: b, env: {LD_X: a}}]":                  {reason.ContractValue, "environment.services[0].env.LD_X"},
		"services: [{name: db, run: a, ready: b, env: {PATH: a}}]":                  {reason.ContractValue, "environment.services[0].env.PATH"},
		"services: [{name: db, run: a, ready: b, timeout_seconds: 0}]":              {reason.ContractValue, "environment.services[0].timeout_seconds"},
		"services: [{name: db, run: a, ready: b, timeout_seconds: 601}]":            {reason.ContractValue, "environment.services[0].timeout_seconds"},
		"services: [{name: db, run: a, ready: b}, {name: db, run: a, ready: b}]":    {reason.ContractValue, "environment.services[1].name"},
		"env: {A: b}, services: [{name: db, run: a, ready: b, env: {A: c}}]":        {reason.ContractValue, "environment.services[0].env.A"},
		"services: [" + strings.Repeat("{name: db, run: a, ready: b}, ", 100) + "]": {reason.ContractValue, "environment.services"},
		"prepare: [" + strings.Repeat("{ecosystem: npm}, ", 9) + "]":                {reason.ContractValue, "environment.prepare"},
	} {
		_, err := ParsePolicy(PolicyFile, fmt.Appendf(nil, "environment: {%s}\n", text))
		first, ok := errors.AsType[*reason.Error](err)
		if !ok || first.Code != want.code || first.Field != want.field || first.Line == 0 {
			t.Errorf("%s: got %v, want %s at %s", text, err, want.code, want.field)
		}
	}
}

// Commands with a way out are for connect alone, which says what they reach and make, and
// never for the code of a change. Manifests that are code have no ecosystem.
func TestConnectThatIsRefused(t *testing.T) {
	t.Parallel()
	const whole = "ecosystem: connect, fetch: [x], hosts: [a.example], paths: [m]"
	if _, err := ParsePolicy(PolicyFile, []byte("environment: {prepare: [{"+whole+"}]}\n")); err != nil {
		t.Errorf("the control: %v", err)
	}
	for entry, want := range map[string]struct {
		code  reason.Code
		field string
	}{
		"ecosystem: npm, fetch: [x]":                                               {reason.ContractValue, ".fetch"},
		"ecosystem: npm, hosts: [a.example]":                                       {reason.ContractValue, ".hosts"},
		"ecosystem: connect, hosts: [a.example], paths: [m]":                       {reason.ContractMissingKey, ".fetch"},
		"ecosystem: connect, fetch: [x], paths: [m]":                               {reason.ContractMissingKey, ".hosts"},
		"ecosystem: connect, fetch: [x], hosts: [a.example]":                       {reason.ContractMissingKey, ".paths"},
		strings.Replace(whole, "a.example", "127.0.0.1", 1):                        {reason.ContractValue, ".hosts[0]"},
		strings.Replace(whole, "a.example", "localhost", 1):                        {reason.ContractValue, ".hosts[0]"},
		strings.Replace(whole, "a.example", "'*.a.example'", 1):                    {reason.ContractValue, ".hosts[0]"},
		strings.Replace(whole, "a.example", "'a.example:22'", 1):                   {reason.ContractValue, ".hosts[0]"},
		strings.Replace(whole, "[x]", "['']", 1):                                   {reason.ContractValue, ".fetch[0]"},
		whole + "}], dependencies: prepare, services: [{name: a, run: b, ready: c": {reason.ContractValue, ""},
		"ecosystem: composer":                                                      {reason.ContractValue, ".ecosystem"},
		"ecosystem: maven":                                                         {reason.ContractValue, ".ecosystem"},
		"ecosystem: gradle":                                                        {reason.ContractValue, ".ecosystem"},
	} {
		_, err := ParsePolicy(PolicyFile, []byte("environment: {prepare: [{"+entry+"}]}\n"))
		first, ok := errors.AsType[*reason.Error](err)
		if !ok || first.Code != want.code || first.Field != "environment.prepare[0]"+want.field || first.Line == 0 {
			t.Errorf("%s: got %v, want %s at %s", entry, err, want.code, want.field)
		}
	}
}

// The author of a task file is the person who wants the change.
func TestNoTaskFileStatesAnEnvironment(t *testing.T) {
	t.Parallel()
	_, err := Parse("task.yaml", []byte("task_id: x\nenvironment: {env: {A: b}}\n"))
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	for _, problem := range problems {
		if problem.Field == "environment" && problem.Code == reason.ContractUnknownKey {
			return
		}
	}
	t.Errorf("got %v", err)
}

func TestDocumentedEnvironmentKeys(t *testing.T) {
	t.Parallel()
	var real []string
	for _, k := range environmentKeys(&Environment{}) {
		real = append(real, k.name)
		if k.name == "prepare" {
			real = append(real, "prepare[].ecosystem", "prepare[].dir", "prepare[].build", "prepare[].paths", "prepare[].groups",
				"prepare[].fetch", "prepare[].hosts")
		}
		if k.name == "services" {
			real = append(real, "services[].name", "services[].prepare", "services[].run", "services[].ready", "services[].env", "services[].timeout_seconds")
		}
	}
	same(t, "environment", column(table(t, "environment"), 0), real)
}
