package worker

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"strings"
)

const minURLPart = 16 // bytes of a path, or of one segment of it or of a query: a shorter one may be any word

// urlParts are the pieces in which a request's secrets come back where they stand in its URL: a server repeats the path that
// it does not know, and an error names the host. Each piece is there as JSON and HTML have it, too.
func urlParts(address string, secrets []string) []string {
	var parts []string
	final, err := url.Parse(address)
	if err != nil {
		final = &url.URL{}
	}
	if final.User != nil {
		password, _ := final.User.Password()
		parts = append(parts, base64.StdEncoding.EncodeToString([]byte(final.User.Username()+":"+password)))
	}
	for _, secret := range secrets {
		parts = append(parts, secret)
		if final.Host != "" && strings.Contains(strings.ToLower(secret), strings.ToLower(final.Hostname())) {
			parts = append(parts, final.Host, final.Hostname())
		}
		if u, err := url.Parse(secret); err == nil && u.Host != "" {
			password, _ := u.User.Password()
			parts = append(parts, u.String(), u.RawQuery, u.Host, u.Hostname(), password)
			for _, path := range []string{u.RequestURI(), u.EscapedPath(), u.Path, strings.TrimRight(u.Path, "/")} {
				if len(path) >= minURLPart {
					parts = append(parts, path)
				}
			}
		}
		for _, segment := range strings.FieldsFunc(secret, func(r rune) bool { return strings.ContainsRune("/?&=#:@", r) }) {
			if len(segment) >= minURLPart {
				parts = append(parts, segment)
			}
		}
	}
	var shapes []string
	for _, part := range parts {
		shapes = append(shapes, part, strings.ReplaceAll(part, "/", `\/`), html.EscapeString(part))
		if decoded, err := url.PathUnescape(part); err == nil {
			shapes = append(shapes, decoded, (&url.URL{Path: decoded}).EscapedPath())
		}
		if quoted, err := json.Marshal(part); err == nil {
			shapes = append(shapes, string(quoted[1:len(quoted)-1]))
		}
	}
	return shapes
}
