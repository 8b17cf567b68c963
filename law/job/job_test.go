package job_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"remit/law/job"
	"remit/proof/canon"
	"remit/proof/reason"

	"pgregory.net/rapid"
)

const (
	workedExample = `{"commands":[{"cmd":"cargo test","continue_on_fail":false}],"repo":{"git_ref":"abc","mount_path":"/workspace","source":"/r"},"sandbox":{"image_digest":"host","network_policy":"none","provider":"local","resources":{"cpus":1.0,"memory_mb":512,"timeout_secs":60}},"verification":{"adjudication":"none","mode":"objective","redundancy":1}}`
	workedHash    = "05d3da148e94fa16322b0813649e4fc9aae5e5d993c78fcaee290bf078507a70"
	sparse        = `{"sandbox":{"provider":"local","image_digest":"host"},"repo":{"source":"/r","git_ref":"abc"},"commands":[{"cmd":"cargo test"}]}`
)

// The hash is the wire contract: one vector holds it for ever.
func TestHashOfWorkedExample(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{"spelled out": workedExample, "sparse": sparse} {
		r, err := job.ParseSandboxRun([]byte(src))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := string(r.Canonical()); got != workedExample {
			t.Errorf("%s: canonical form\n got %s\nwant %s", name, got, workedExample)
		}
		if r.Hash() != workedHash {
			t.Errorf("%s: hash %s, want %s", name, r.Hash(), workedHash)
		}
	}
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, cmd, cpus, want string }{
		{"html is not escaped", `"a<b>&c"`, "1", `"cmd":"a<b>&c"`},
		{"line separators are not escaped", `"\u2028é"`, "1", "\"cmd\":\"\u2028é\""},
		{"control characters are", `"a\u0001\n\t\"\\b"`, "1", `"cmd":"a\u0001\n\t\"\\b"`},
		{"a whole number of cores has a fraction", `"x"`, "2", `"cpus":2.0`},
		{"a 32-bit fraction is widened", `"x"`, "0.1", `"cpus":0.10000000149011612`},
		{"an exponent is written out", `"x"`, "5e-1", `"cpus":0.5`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, err := job.ParseSandboxRun([]byte(`{"sandbox":{"image_digest":"host","resources":{"cpus":` + test.cpus + `}},"commands":[{"cmd":` + test.cmd + `}]}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Canonical()); !strings.Contains(got, test.want) {
				t.Errorf("%s lacks %s", got, test.want)
			}
		})
	}
}

func TestRequestLimits(t *testing.T) {
	t.Parallel()
	with := func(sandbox, commands, rest string) string {
		return `{"sandbox":{"image_digest":"host"` + sandbox + `},"commands":` + commands + rest + `}`
	}
	one := `[{"cmd":"true"}]`
	tests := []struct{ name, src, field string }{ // field "*": refused, wherever
		{"smallest", with("", one, ""), ""},
		{"no image", `{"sandbox":{},"commands":[{"cmd":"x"}]}`, "sandbox.image_digest"},
		{"network full", with(`,"network_policy":"full"`, one, ""), "sandbox.network_policy"},
		{"network word", with(`,"network_policy":"lan"`, one, ""), "sandbox.network_policy"},
		{"memory at the limit", with(`,"resources":{"memory_mb":8192}`, one, ""), ""},
		{"memory", with(`,"resources":{"memory_mb":8193}`, one, ""), "sandbox.resources.memory_mb"},
		{"no memory", with(`,"resources":{"memory_mb":0}`, one, ""), "sandbox.resources.memory_mb"},
		{"negative memory", with(`,"resources":{"memory_mb":-1}`, one, ""), "sandbox.resources.memory_mb"},
		{"cpus at the limit", with(`,"resources":{"cpus":8}`, one, ""), ""},
		{"cpus", with(`,"resources":{"cpus":8.5}`, one, ""), "sandbox.resources.cpus"},
		{"tiny cpus", with(`,"resources":{"cpus":1e-30}`, one, ""), "sandbox.resources.cpus"},
		{"timeout at the limit", with(`,"resources":{"timeout_secs":300}`, one, ""), ""},
		{"timeout", with(`,"resources":{"timeout_secs":301}`, one, ""), "sandbox.resources.timeout_secs"},
		{"disk", with(`,"resources":{"disk_mb":0}`, one, ""), "sandbox.resources.disk_mb"},
		{"no commands", with("", `[]`, ""), "commands"},
		{"twenty-one commands", with("", `[`+strings.Repeat(`{"cmd":"x"},`, 20)+`{"cmd":"x"}]`, ""), "commands"},
		{"blank command", with("", `[{"cmd":" "}]`, ""), "commands[0].cmd"},
		{"long command", with("", `[{"cmd":"`+strings.Repeat("x", 4097)+`"}]`, ""), "commands[0].cmd"},
		{"NUL in a command", with("", `[{"cmd":"a\u0000b"}]`, ""), "commands[0].cmd"},
		{"workdir outside", with("", `[{"cmd":"x","workdir":"a/../../b"}]`, ""), "commands[0].workdir"},
		{"absolute workdir", with("", `[{"cmd":"x","workdir":"/etc"}]`, ""), "commands[0].workdir"},
		{"workdir inside", with("", `[{"cmd":"x","workdir":"a/b"}]`, ""), ""},
		{"source of a given repo", with("", one, `,"repo":{}`), "repo.source"},
		{"source as an option", with("", one, `,"repo":{"source":"--upload-pack=x"}`), "repo.source"},
		{"ref as an option", with("", one, `,"repo":{"source":"/r","git_ref":"-x"}`), "repo.git_ref"},
		{"mount path", with("", one, `,"repo":{"source":"/r","mount_path":"/a/../b"}`), "repo.mount_path"},
		{"mode of a given verification", with("", one, `,"verification":{}`), "verification.mode"},
		{"subjective", with("", one, `,"verification":{"mode":"subjective"}`), "verification.mode"},
		{"redundancy", with("", one, `,"verification":{"mode":"objective","redundancy":2}`), "verification.redundancy"},
		{"environment", with("", one, `,"env":{"A":"1","b_2":"x"}`), ""},
		{"name in the environment", with("", one, `,"env":{"A=B":"1"}`), "env"},
		{"thirty-three in the environment", with("", one, `,"env":{`+many(33)+`}`), "env"},
		{"unknown key", with(`,"gpu":1`, one, ""), "*"},
		{"key of another case", with(`,"Provider":"x"`, one, ""), "sandbox"},
		{"key that folds", with(",\"net\u017fwork_policy\":\"full\"", one, ""), "sandbox"},
		{"key twice", with(`,"provider":"a","provider":"b"`, one, ""), "sandbox.provider"},
		{"null", with(`,"provider":null`, one, ""), "sandbox.provider"},
		{"half a surrogate pair", with(`,"provider":"\ud800"`, one, ""), "*"},
		{"something behind", with("", one, "") + "1", "*"},
		{"not an object", `[]`, "*"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := job.Parse(job.SandboxRun, []byte(test.src))
			good := test.field == ""
			if good != (err == nil) {
				t.Fatalf("error %v, want accepted=%v", err, good)
			}
			if err == nil {
				return
			}
			var e *reason.Error
			if !errors.As(err, &e) || e.Code != reason.JobInvalid || test.field != "*" && !strings.HasPrefix(e.Field, test.field) {
				t.Errorf("got %v with field %q, want job_invalid at %q", err, e.Field, test.field)
			}
		})
	}
}

func many(n int) string {
	var names []string
	for i := range n {
		names = append(names, `"V`+string(rune('A'+i%26))+string(rune('A'+i/26))+`":"x"`)
	}
	return strings.Join(names, ",")
}

func TestUnknownType(t *testing.T) {
	t.Parallel()
	if _, err := job.Parse("oa.embeddings.v1", []byte(`{}`)); reason.CodeOf(err) != reason.JobUnknownType {
		t.Errorf("got %v", err)
	}
	if _, err := job.ParseResponse("x", []byte(`{}`)); reason.CodeOf(err) != reason.JobUnknownType {
		t.Errorf("got %v", err)
	}
}

// What a request says does not depend on how it was spelled.
func TestHashIsOfTheMeaning(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		disk := rapid.Uint32Range(1, 1000).Draw(t, "disk")
		r := job.SandboxRunRequest{
			Sandbox: job.Sandbox{ImageDigest: "host", Resources: job.Resources{
				CPUs: job.Cores(rapid.Float32Range(0.01, 8).Draw(t, "cpus")), MemoryMB: rapid.Uint32Range(1, 8192).Draw(t, "memory"), DiskMB: &disk,
			}},
			Commands: []job.Command{{Cmd: rapid.StringMatching(`[^\x00 ][^\x00]{0,40}`).Draw(t, "cmd")}},
			Env:      rapid.MapOfN(rapid.StringMatching(`[A-Z_][A-Z0-9_]{0,8}`), rapid.StringMatching(`[^\x00]{0,20}`), 0, 5).Draw(t, "env"),
		}
		r, err := r.Filled()
		if err != nil {
			t.Skip("outside the limits: ", err)
		}
		plain, err := json.MarshalIndent(r, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{plain, r.Canonical()} {
			again, err := job.ParseSandboxRun(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if again.Hash() != r.Hash() {
				t.Fatalf("another spelling has another hash:\n%s\n%s", again.Canonical(), r.Canonical())
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(workedExample))
	f.Add([]byte(sparse))
	f.Add([]byte(`{"sandbox":{"image_digest":"x","image_digest":"y"}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, kind := range job.Types() {
			r, err := job.Parse(kind, src)
			if err != nil {
				if reason.CodeOf(err) == "" {
					t.Fatalf("error without a code: %v", err)
				}
				continue
			}
			again, err := job.Parse(kind, r.Canonical())
			if err != nil || again.Hash() != r.Hash() {
				t.Fatalf("the canonical form is another request: %v", err)
			}
		}
		for _, kind := range job.Types() {
			_, _ = job.ParseResponse(kind, src)
		}
	})
}

func TestEngineRun(t *testing.T) {
	t.Parallel()
	contract := `{"a":1}`
	id := strings.Repeat("a", 40)
	src := `{"contract":"{\"a\":1}","contract_sha256":"` + canon.Digest([]byte(contract)) + `","baseline":{"source":"https://example.org/r.git","commit":"` + id + `","tree":"` + id + `"},"engine":{"name":"fake"},"budget":{"micro_usd":5}}`
	r, err := job.ParseEngineRun([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if r.Needs().TimeoutSecs != 1800 || r.Needs().Capability != job.EngineRun {
		t.Errorf("needs %+v", r.Needs())
	}
	if _, err := job.ParseEngineRun([]byte(strings.Replace(src, `\"a\":1`, `\"a\":2`, 1))); reason.CodeOf(err) != reason.JobInvalid {
		t.Errorf("a contract under another digest: %v", err)
	}
	digest := canon.Digest(nil)
	pass := `{"status":"success","exit_code":0,"bundle_sha256":"` + digest + `","head_tree":"` + id + `","verification":[{"command":"go test","exit_code":0,"duration_ms":1}],"artifacts":[{"path":"bundle.zip","sha256":"` + digest + `","size_bytes":0}],"micro_usd":5}`
	tests := []struct {
		name, src string
		want      job.Outcome
	}{
		{"passed", pass, job.Passed},
		{"over budget", strings.Replace(pass, `"micro_usd":5`, `"micro_usd":6`, 1), job.ProviderFault},
		// What the last request costs is not known before: a run that is late by it
		// is no success, and no fault of the provider.
		{"late and failed", strings.NewReplacer("success", "failed", `"exit_code":0,"bundle`, `"exit_code":3,"bundle`, `"micro_usd":5`, `"micro_usd":6,"cost_known":true`).Replace(pass), job.JobFailed},
		{"late and timed out", `{"status":"timeout","exit_code":3,"usage":{"wall_ms":1800000},"micro_usd":9}`, job.JobFailed},
		{"earned by asking", strings.Replace(pass, `"micro_usd":5`, `"micro_usd":-5`, 1), job.ProviderFault},
		{"cost in part", strings.Replace(pass, `"micro_usd":5`, `"micro_usd":5,"cost_known":false`, 1), job.Passed},
		{"no bundle", strings.Replace(pass, "bundle.zip", "other.zip", 1), job.ProviderFault},
		{"success that failed", strings.Replace(pass, `"exit_code":0,"duration_ms"`, `"exit_code":1,"duration_ms"`, 1), job.ProviderFault},
		{"failed", strings.NewReplacer("success", "failed", `"exit_code":0,"bundle`, `"exit_code":2,"bundle`).Replace(pass), job.JobFailed},
		{"timed out", `{"status":"timeout","exit_code":3,"usage":{"wall_ms":1800000}}`, job.JobFailed},
		{"gave up", `{"status":"timeout","exit_code":3,"usage":{"wall_ms":1000}}`, job.ProviderFault},
	}
	for _, test := range tests {
		resp, err := job.ParseEngineRunResponse([]byte(test.src))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if v := job.Check(r, resp); v.Outcome != test.want || v.Passed != (test.want == job.Passed) {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
	if v := job.Check(r, job.SandboxRunResponse{}); v.Outcome != job.ProviderFault {
		t.Errorf("a response of another type: %+v", v)
	}
}
