package pull

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"remit/proof/reason"
)

// Elsewhere is the error of an answer that the interface of a forge does not give: a
// redirect, or a page for people; nil for any other. To ask once more does not help. The
// token is in no word of it.
func Elsewhere(resp *http.Response, token string) error {
	asked := fmt.Sprintf("%s answers %s %s with status %d", resp.Request.URL.Host, resp.Request.Method, resp.Request.URL.Path, resp.StatusCode)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch page := media == "text/html" || media == "application/xhtml+xml"; {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		host := resp.Request.URL.Host
		if to, err := url.Parse(resp.Header.Get("Location")); err == nil && to.Host != "" {
			host = to.Host
		}
		if host == resp.Request.URL.Host {
			return elsewhere(token, asked+", a redirect to another path", "the repository has moved: give --forge with its address as it is now")
		}
		return elsewhere(token, fmt.Sprintf("%s, a redirect to %.200q", asked, host), strangerHint)
	case page && resp.StatusCode < 300:
		return elsewhere(token, asked+" and a page ("+media+")", strangerHint)
	}
	return nil
}

const strangerHint = "--forge names another host than that of the forge, --forge-kind another kind, or a proxy or a login page stands in between: open the address in a browser"

func elsewhere(token, said, hint string) error {
	if token != "" {
		said = strings.ReplaceAll(said, token, "[the token]")
	}
	return reason.Errorf(reason.ForgeUnknown, "no forge answers there: %s", said).WithHint("%s", hint)
}
