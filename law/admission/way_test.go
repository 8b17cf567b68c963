package admission

import (
	"testing"

	"remit/proof/reason"
)

func TestThrough(t *testing.T) {
	t.Parallel()
	hosted := ModelDecision{Class: Hosted, CredentialSource: "environment", Network: "internet"}
	local := ModelDecision{Class: Local, CredentialSource: "none", Network: "loopback"}
	private := ModelDecision{Class: Local, CredentialSource: "file", Network: "private"}
	for name, tc := range map[string]struct {
		record ModelDecision
		way    Way
		holds  bool
	}{
		"as recorded":                   {hosted, Way{Hosted, "environment", "https://api.openai.com/v1"}, true},
		"less than recorded":            {hosted, Way{Hosted, "none", "http://127.0.0.1:8080"}, true},
		"another class":                 {hosted, Way{Local, "environment", "http://127.0.0.1"}, false},
		"a key from elsewhere":          {hosted, Way{Hosted, "file", "https://api.openai.com/v1"}, false},
		"a key where there is none":     {local, Way{Local, "environment", "http://127.0.0.1"}, false},
		"loopback by name":              {local, Way{Local, "none", "http://localhost:8080/v1"}, true},
		"loopback in IPv6":              {local, Way{Local, "none", "http://[::1]:8080/v1"}, true},
		"loopback, mapped":              {local, Way{Local, "none", "http://[::ffff:127.0.0.1]/v1"}, true},
		"a name like loopback":          {local, Way{Local, "none", "http://localhost.example.com/v1"}, false},
		"beyond loopback":               {local, Way{Local, "none", "http://192.168.0.7/v1"}, false},
		"in the own network":            {private, Way{Local, "file", "http://192.168.0.7/v1"}, true},
		"a name in the own network":     {private, Way{Local, "file", "http://gpu/v1"}, true},
		"a public address":              {private, Way{Local, "file", "http://93.184.216.34/v1"}, false},
		"loopback, with a name before":  {local, Way{Local, "none", "http://model.localhost/v1"}, false},
		"loopback, with a dot behind":   {local, Way{Local, "none", "http://127.0.0.1./v1"}, false},
		"a number as an address":        {private, Way{Local, "file", "http://134744072/v1"}, false},
		"a short address":               {private, Way{Local, "file", "http://8.2056/v1"}, false},
		"an octal address":              {private, Way{Local, "file", "http://010.8.8.8/v1"}, false},
		"a hexadecimal address":         {private, Way{Local, "file", "http://0x8080808/v1"}, false},
		"an address in wide digits":     {private, Way{Local, "file", "http://８.８.８.８/v1"}, false},
		"an address as a user":          {private, Way{Local, "file", "http://192.168.0.7@8.8.8.8/v1"}, false},
		"a name with digits":            {private, Way{Local, "file", "http://gpu-1.lan2/v1"}, true},
		"an address that is none":       {hosted, Way{Hosted, "environment", "://"}, true},
		"no address at all":             {local, Way{Local, "none", ""}, true},
		"an address without a scheme":   {local, Way{Local, "none", "127.0.0.1:8080/v1"}, true},
		"a scheme that is none of ours": {local, Way{Local, "none", "ftp://192.168.0.7/v1"}, true},
		"upper case":                    {local, Way{Local, "none", "HTTP://192.168.0.7/v1"}, false},
		"an address that is none, in":   {private, Way{Local, "file", "://"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &Model{ModelDecision: tc.record}
			admitted := Result{Status: StatusAdmitted, RecordID: "id"}
			got := admitted.Through(rec, tc.way)
			if got.Admitted() != tc.holds {
				t.Errorf("%+v", got)
			}
			if !tc.holds && (got.Status != StatusMismatch || got.Code != reason.ModelMismatch || got.Detail == "" || got.RecordID != "id") {
				t.Errorf("%+v", got)
			}
		})
	}
	if r := (Result{Status: StatusMissing}).Through(nil, Way{}); r.Status != StatusMissing {
		t.Errorf("%+v", r)
	}
}
