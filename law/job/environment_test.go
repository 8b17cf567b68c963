package job_test

import (
	"strings"
	"testing"

	"remit/law/job"
)

func layerOf(digit string) job.Layer {
	return job.Layer{Key: "sha256:" + strings.Repeat(digit, 64), ContentSHA256: "sha256:" + strings.Repeat("c", 64)}
}

// TestVerdictOnLayers: a success without the layers that were asked for is none.
func TestVerdictOnLayers(t *testing.T) {
	t.Parallel()
	other := layerOf("a")
	other.ContentSHA256 = "sha256:" + strings.Repeat("d", 64)
	for name, c := range map[string]struct {
		asked, had []job.Layer
		status     job.Status
		exits      []int32
		want       job.Outcome
	}{
		"as asked":                {[]job.Layer{layerOf("a")}, []job.Layer{layerOf("a")}, job.Success, []int32{0, 0}, job.Passed},
		"another content":         {[]job.Layer{layerOf("a")}, []job.Layer{other}, job.Success, []int32{0, 0}, job.Passed},
		"variables alone":         {nil, nil, job.Success, []int32{0, 0}, job.Passed},
		"refused":                 {[]job.Layer{layerOf("a")}, nil, job.Failed, []int32{128}, job.JobFailed},
		"without":                 {[]job.Layer{layerOf("a")}, nil, job.Success, []int32{0, 0}, job.ProviderFault},
		"another key":             {[]job.Layer{layerOf("a")}, []job.Layer{layerOf("b")}, job.Success, []int32{0, 0}, job.ProviderFault},
		"another key, and failed": {[]job.Layer{layerOf("a")}, []job.Layer{layerOf("b")}, job.Failed, []int32{1}, job.ProviderFault},
		"one too many":            {[]job.Layer{layerOf("a")}, []job.Layer{layerOf("a"), layerOf("a")}, job.Success, []int32{0, 0}, job.ProviderFault},
		"no content":              {[]job.Layer{layerOf("a")}, []job.Layer{{Key: layerOf("a").Key}}, job.Success, []int32{0, 0}, job.ProviderFault},
	} {
		req := request(t)
		req.Environment = &job.Environment{Base: job.Base{Source: "/r", GitRef: "abc"}, Layers: c.asked}
		req, err := req.Filled()
		if err != nil {
			t.Fatal(err)
		}
		resp := response(c.status, c.exits...)
		resp.EnvInfo.Layers = c.had
		if got := job.Check(req, resp); got.Outcome != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, got.Outcome, c.want, got.Violations)
		}
	}
	served := job.Service{Name: "db", SHA256: layerOf("a").Key}
	for name, c := range map[string]struct {
		had    []job.Service
		status job.Status
		exits  []int32
		want   job.Outcome
	}{
		"as asked":         {[]job.Service{served}, job.Success, []int32{0, 0}, job.Passed},
		"it ended":         {[]job.Service{served}, job.Failed, []int32{128}, job.JobFailed},
		"refused":          {nil, job.Failed, []int32{128}, job.JobFailed},
		"without":          {nil, job.Success, []int32{0, 0}, job.ProviderFault},
		"of the same name": {[]job.Service{{Name: "db", SHA256: layerOf("b").Key}}, job.Success, []int32{0, 0}, job.ProviderFault},
		"one too many":     {[]job.Service{served, served}, job.Failed, []int32{1}, job.ProviderFault},
	} {
		req := request(t)
		req.Environment = &job.Environment{Base: job.Base{Source: "/r", GitRef: "abc"}, Layers: []job.Layer{layerOf("b")}, Head: []job.Layer{layerOf("a")}, Services: []job.Service{served}}
		req, err := req.Filled()
		if err != nil {
			t.Fatal(err)
		}
		resp := response(c.status, c.exits...)
		resp.EnvInfo.Services = c.had
		if c.status == job.Success {
			resp.EnvInfo.Layers = []job.Layer{layerOf("a")}
		}
		if got := job.Check(req, resp); got.Outcome != c.want {
			t.Errorf("services, %s: %s, want %s: %+v", name, got.Outcome, c.want, got.Violations)
		}
	}
	uncalled := response(job.Success, 0, 0)
	uncalled.EnvInfo.Layers = []job.Layer{layerOf("a")}
	if got := job.Check(request(t), uncalled); got.Outcome != job.ProviderFault {
		t.Errorf("layers that the job did not ask for: %+v", got)
	}
}

// TestEnvironmentOfARequest: what a request may say of an environment.
func TestEnvironmentOfARequest(t *testing.T) {
	t.Parallel()
	for environment, wrong := range map[string]string{
		`{"base":{"source":"/r","git_ref":"abc"}}`:             "",
		`{"base":{"source":"/r","git_ref":"abc"},"layers":[]}`: "",
		`{}`:                       "environment.base",
		`{"base":{"source":"/r"}}`: "environment.base",
		`{"base":{"source":"/r","git_ref":"--upload-pack=x"}}`:                              "environment.base",
		`{"base":{"source":"-x","git_ref":"abc"}}`:                                          "environment.base",
		`{"base":{"source":"/r","git_ref":"abc"},"layers":[{"key":"x"}]}`:                   "environment.layers[0]",
		`{"base":{"source":"/r","git_ref":"abc"},"services":[{"name":"db"}]}`:               "environment.services[0]",
		`{"base":{"source":"/r","git_ref":"abc"},"image":"x"}`:                              "image",
		`{"base":{"source":"/r","git_ref":"abc"},"layers":[{},{},{},{},{},{},{},{},{},{}]}`: "environment.layers",
	} {
		_, err := job.ParseSandboxRun([]byte(`{"sandbox":{"image_digest":"host"},"commands":[{"cmd":"x"}],"environment":` + environment + `}`))
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", environment, err)
		}
	}
}
