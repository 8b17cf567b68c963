package gateway

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"remit/law/secret"
	"remit/proof/form"
	"remit/proof/reason"
)

// A cloud gives models of others out under its own addresses, and wants its own
// credential. The protocols are the three that engines speak; where a cloud has
// another path, another header or a signature, that is added here, on the way out.
// The name of the provider says which cloud it is.
const (
	// Azure is Azure OpenAI, by its v1 API: the model is the name of a deployment.
	Azure = "azure"
	// Bedrock is Amazon Bedrock, by its endpoints that speak the protocols of OpenAI
	// and Anthropic. Requests are signed with AWS Signature Version 4 where the
	// credential has a secret key, and have a Bedrock API key otherwise.
	Bedrock = "bedrock"
	// Vertex is Google Vertex AI; the base URL ends in /projects/P/locations/L.
	Vertex = "vertex"
)

// cloud is what an upstream knows of the one that it is at; nil for none.
type cloud struct {
	name            string
	keys            *awsKeys // of a signature
	region, service string   // of its scope
}

// howKeyed says where a credential for a cloud usually comes from.
var howKeyed = map[string]string{
	Azure:   "put the key of the resource in $AZURE_OPENAI_API_KEY, or let --key-command 'az account get-access-token --resource https://cognitiveservices.azure.com --query accessToken -o tsv' print a token",
	Bedrock: "put a Bedrock API key in $AWS_BEARER_TOKEN_BEDROCK, or let --key-command 'aws configure export-credentials --format process' print keys to sign with",
	Vertex:  "let --key-command 'gcloud auth print-access-token' print a token",
}

// newCloud reads the credential as a cloud wants it, nil for a provider that is none.
// Its base URL is given the path that the cloud has, where it has none.
func newCloud(u Upstream, base *url.URL, credential string, o Options) (*cloud, error) {
	hint, is := howKeyed[u.Provider]
	signs := strings.HasPrefix(credential, "{")
	switch {
	case signs && u.Provider != Bedrock:
		return nil, reason.Errorf(reason.AuthUnavailable, "the credential of provider %q is a JSON object, and only %s takes one",
			u.Provider, Bedrock)
	case !is:
		return nil, nil
	case credential == "":
		return nil, reason.Errorf(reason.AuthUnavailable, "provider %q is asked with a credential, and none is named", u.Provider).
			WithHint("%s", hint)
	}
	c := &cloud{name: u.Provider}
	host := strings.ToLower(base.Hostname())
	switch {
	case u.Provider == Azure && base.Path == "":
		base.Path = "/openai/v1"
	case u.Provider == Vertex && !vertexPath().MatchString(base.Path):
		return nil, misconfigured("the address of provider %q does not end in /v1/projects/PROJECT/locations/LOCATION", u.Provider)
	case u.Provider == Bedrock:
		c.service, c.region = "bedrock", regionOf(host, o)
		if strings.Contains(host, "bedrock-mantle") {
			c.service = "bedrock-mantle"
		}
	}
	if !signs {
		return c, nil
	}
	keys, err := parseAWSKeys(credential, now(o))
	if err != nil {
		return nil, err
	}
	if c.keys = keys; c.region == "" {
		return nil, misconfigured("the address of provider %q names no region to sign for, and neither AWS_REGION nor AWS_DEFAULT_REGION is set", u.Provider)
	}
	return c, nil
}

func now(o Options) time.Time {
	if o.Clock != nil {
		return o.Clock()
	}
	return time.Now()
}

var (
	vertexPath = form.Lazy(`^/v1(?:beta1)?/projects/[a-z0-9:.-]+/locations/[a-z0-9-]+$`)
	awsRegion  = form.Lazy(`^[a-z]{2,}(?:-[a-z]+)+-[0-9]+$`)
)

// regionOf is the region in the name of an endpoint, else that of the environment.
func regionOf(host string, o Options) string {
	for label := range strings.SplitSeq(host, ".") {
		if awsRegion().MatchString(label) {
			return label
		}
	}
	lookup := o.LookupEnv
	if lookup == nil {
		lookup = os.LookupEnv
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if v, ok := lookup(name); ok && awsRegion().MatchString(v) {
			return v
		}
	}
	return ""
}

// awsKeys are what a credential process of AWS prints.
type awsKeys struct {
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string `json:"SecretAccessKey"`
	SessionToken    string `json:"SessionToken"`
	Expiration      string `json:"Expiration"`
}

func parseAWSKeys(text string, at time.Time) (*awsKeys, error) {
	k := new(awsKeys)
	if err := json.Unmarshal([]byte(text), k); err != nil || k.AccessKeyID == "" || k.SecretAccessKey == "" {
		return nil, reason.Errorf(reason.AuthUnavailable,
			"the credential of provider %q is no object with AccessKeyId and SecretAccessKey", Bedrock).
			WithHint("%s", howKeyed[Bedrock])
	}
	for _, v := range []string{k.AccessKeyID, k.SecretAccessKey, k.SessionToken} {
		if why := unusable(v); v != "" && why != "" {
			return nil, reason.Errorf(reason.AuthUnavailable, "a key of provider %q %s", Bedrock, why)
		}
	}
	if until, err := time.Parse(time.RFC3339, k.Expiration); err == nil && !until.After(at) {
		return nil, reason.Errorf(reason.AuthUnavailable, "the keys of provider %q have expired at %s", Bedrock,
			until.UTC().Format(time.RFC3339)).
			WithHint("sign in again, for example with `aws sso login`")
	}
	return k, nil
}

// Parts are the secrets in a credential: the text itself and, of an object with keys,
// each of them. What a search for secrets should find is each part.
func Parts(credential []byte) []string {
	text := strings.TrimSpace(string(credential))
	out := []string{text}
	var k awsKeys
	if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &k) == nil {
		for _, v := range []string{k.SecretAccessKey, k.SessionToken} {
			if v != "" {
				out = append(out, v)
			}
		}
	}
	return out
}

// values are the secrets of a credential, by name.
func values(credential string) []secret.Value {
	out := []secret.Value{}
	for i, text := range Parts([]byte(credential)) {
		out = append(out, secret.Value{Name: []string{"provider", "provider-secret-key", "provider-session-token"}[i], Value: text})
	}
	return out
}

// compacted is a credential that is a JSON object on one line, without spaces.
func compacted(text string) string {
	var out bytes.Buffer
	if strings.HasPrefix(text, "{") && json.Compact(&out, []byte(text)) == nil {
		return out.String()
	}
	return text
}

// target is the path of a request at a cloud, "" where it is that of every provider.
func (c *cloud) target(base string, p Protocol, model string, stream bool) string {
	switch {
	case c.name == Vertex && p == Chat:
		return base + "/endpoints/openapi/chat/completions"
	case c.name == Vertex && p == Messages && stream:
		return base + "/publishers/anthropic/models/" + model + ":streamRawPredict"
	case c.name == Vertex && p == Messages:
		return base + "/publishers/anthropic/models/" + model + ":rawPredict"
	case c.name == Bedrock && base == "" && p == Messages:
		return "/anthropic/v1/messages"
	case c.name == Bedrock && base == "" && c.service == "bedrock":
		return "/openai/v1" + map[Protocol]string{Chat: "/chat/completions", Responses: "/responses"}[p]
	case c.name == Bedrock && base == "":
		return "/v1" + map[Protocol]string{Chat: "/chat/completions", Responses: "/responses"}[p]
	}
	return ""
}

// vertexVersion is what Vertex wants in a body of the messages protocol.
const vertexVersion = "vertex-2023-10-16"

// bare reports whether a body names no model, since its path does.
func (c *cloud) bare(p Protocol) bool { return c != nil && c.name == Vertex && p == Messages }

// answersAs is how the maker of a model calls it: clouds put a prefix before that
// name, and an @ before the date of a release.
func (c *cloud) answersAs(model string) string {
	switch {
	case c == nil:
	case c.name == Vertex:
		return strings.ReplaceAll(model[strings.LastIndex(model, "/")+1:], "@", "-")
	case c.name == Bedrock:
		for _, maker := range []string{"anthropic.", "openai.", "google."} {
			if _, name, ok := strings.Cut(model, maker); ok {
				return name
			}
		}
	}
	return model
}

// signV4 signs a request with AWS Signature Version 4: its method, path, query, host,
// date, content type and body. The secret key stays here; what leaves holds for this
// request and some minutes.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func signV4(req *http.Request, body [sha256.Size]byte, k *awsKeys, region, service string, at time.Time) {
	stamp := at.UTC().Format("20060102T150405Z")
	req.Header.Set("X-Amz-Date", stamp)
	if k.SessionToken != "" {
		req.Header.Set("X-Amz-Security-Token", k.SessionToken)
	}
	signed := map[string]string{"host": req.URL.Host}
	for name, v := range req.Header {
		if name = strings.ToLower(name); name == "content-type" || strings.HasPrefix(name, "x-amz-") {
			signed[name] = strings.Join(strings.Fields(strings.Join(v, ",")), " ")
		}
	}
	names := make([]string, 0, len(signed))
	for name := range signed {
		names = append(names, name)
	}
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + signed[name] + "\n")
	}
	path := req.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	canonical := strings.Join([]string{req.Method, awsEscape(path, true), canonicalQuery(req.URL.Query()), headers.String(),
		strings.Join(names, ";"), hex.EncodeToString(body[:])}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	scope := strings.Join([]string{stamp[:8], region, service, "aws4_request"}, "/")
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + k.SecretAccessKey)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+k.AccessKeyID+"/"+scope+", SignedHeaders="+strings.Join(names, ";")+
		", Signature="+hex.EncodeToString(mac(key, text)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonicalQuery is a query in the order and the spelling that is signed.
func canonicalQuery(q url.Values) string {
	var pairs []string
	for name, all := range q {
		for _, v := range all {
			pairs = append(pairs, awsEscape(name, false)+"="+awsEscape(v, false))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// awsEscape writes every byte as %XX but letters, digits and -_.~, and, of a path, the
// slash.
func awsEscape(s string, path bool) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte(plain, c) >= 0 || path && c == '/' {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return b.String()
}
