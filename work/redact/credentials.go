package redact

import (
	"net/url"
	"slices"
	"strings"

	"remit/law/secret"
	"remit/proof/form"
)

// credentialEndings are the endings of names of environment variables that
// hold a credential.
var credentialEndings = []string{
	"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS",
	"API_KEY", "APIKEY", "ACCESS_KEY", "SECRET_KEY", "PRIVATE_KEY", "SIGNING_KEY", "ENCRYPTION_KEY", "MASTER_KEY", "DEPLOY_KEY", "AUTH_KEY",
}

// credentialNames are such names without an ending that says so.
var credentialNames = []string{"AWS_ACCESS_KEY_ID", "MYSQL_PWD", "PGPASSWORD", "SSHPASS"}

// credentialFamilies are beginnings of names of which all are credentials, but
// for the settings in plainEndings.
var credentialFamilies = []string{"AWS_", "ANTHROPIC_", "OPENAI_"}

var plainEndings = []string{
	"_REGION", "_PROFILE", "_FILE", "_PATH", "_DIR", "_URL", "_URI", "_ENDPOINT", "_MODEL", "_OUTPUT", "_VERSION", "_NAME", "_ARN", "_ID", "_ENV",
	"_ORGANIZATION", "_ORG", "_PROJECT", "_HOST", "_TYPE", "_MODE", "_PAGER", "_BUNDLE", "_TIMEOUT", "_ATTEMPTS", "_ENABLED", "_DISABLED", "_LOG", "_LEVEL", "_BETAS",
}

// plainName is a name that may stand in evidence.
var plainName = form.Lazy(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// EnvironmentCredentials are the credentials that an environment holds, in the
// order of their names: the values of variables whose name says that they are
// one, and the passwords of URLs in any variable. They are what evidence is
// searched for; nothing else is done with them.
func EnvironmentCredentials(environ []string) []secret.Value {
	var out []secret.Value
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		value = strings.TrimSpace(value)
		if value == "" {
			continue
		}
		shown := name
		if !plainName().MatchString(name) {
			shown = "UNNAMED"
		}
		if isCredential(strings.ToUpper(name)) {
			out = append(out, secret.Value{Name: shown, Value: value})
		}
		if u, err := url.Parse(value); err == nil && u.User != nil {
			if password, stated := u.User.Password(); stated && password != "" {
				out = append(out, secret.Value{Name: shown, Value: password})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b secret.Value) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func isCredential(name string) bool {
	if slices.Contains(credentialNames, name) {
		return true
	}
	for _, ending := range credentialEndings {
		if name == ending || strings.HasSuffix(name, "_"+ending) {
			return true
		}
	}
	plain := slices.ContainsFunc(plainEndings, func(ending string) bool { return strings.HasSuffix(name, ending) })
	return !plain && slices.ContainsFunc(credentialFamilies, func(family string) bool { return strings.HasPrefix(name, family) })
}
