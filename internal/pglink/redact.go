package pglink

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const mask = "xxxxx"

// secrets matches, leftmost first: a URL; a setting such as password=…, PGPASSWORD: … or "password": "…"; SQL with PASSWORD
// '…'. An unquoted value extends to the next space, because it may hold any other character.
var secrets = regexp.MustCompile("(?i)" +
	`([a-z][a-z0-9+.-]*://[^\s"'<>` + "`" + `]+)` +
	`|(password["']?\s*[=:]\s*)(?:'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\S+)` +
	`|(password\s+)'(?:[^']|'')*'?`)

var quoted = regexp.MustCompile("(?s)\"[^\"]*\"|'[^']*'|`[^`]*`")

// Redact hides the credentials in a text: in a URL, a keyword=value string, a message that quotes either, or a statement
// that sets a password. If a malformed URL does not show where the password ends and the host begins, Redact hides both.
func Redact(s string) string {
	return secrets.ReplaceAllStringFunc(s, func(found string) string {
		m := secrets.FindStringSubmatch(found)
		if m[1] != "" {
			return redactURL(found)
		}
		return m[2] + m[3] + mask
	})
}

func redactURL(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	if at := credentialsEnd(rest); at >= 0 {
		if user, _, ok := strings.Cut(rest[:at], ":"); ok {
			rest = user + ":" + mask + rest[at:]
		}
	}
	path, query, ok := strings.Cut(rest, "?")
	if !ok {
		return scheme + "://" + rest
	}
	return scheme + "://" + path + "?" + redactQuery(query)
}

// credentialsEnd returns the index of the @ that ends user:password in a URL without its scheme, or -1 if there is no password. A
// password may hold @ / ? # unescaped, so the last @ before the query counts. If there is none, the last @ of all counts, unless
// the text after the colon is a port.
func credentialsEnd(rest string) int {
	path, _, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(path, '@'); at >= 0 {
		return at
	}
	authority := rest[:strings.IndexAny(rest+"/", "/?#")]
	_, port, ok := strings.Cut(authority, ":")
	if !ok || strings.Trim(port, "0123456789,") == "" {
		return -1
	}
	return strings.LastIndexByte(rest, '@')
}

// redactQuery hides the values of keys that contain "password", also if they are percent-encoded, and of keys that cannot be
// decoded.
func redactQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		key, _, ok := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(key); ok && (err != nil || strings.Contains(strings.ToLower(plain), "password")) {
			pairs[i] = key + "=" + mask
		}
	}
	return strings.Join(pairs, "&")
}

// parseError returns an error with the driver's reason why a URL cannot be read. It leaves out all text that the reason quotes,
// because a malformed string may hold its password anywhere. It does not wrap the driver's error, which carries the whole string.
func parseError(err error) error {
	var parse *pgconn.ParseConfigError
	if !errors.As(err, &parse) {
		return fmt.Errorf("database URL: %s", quoted.ReplaceAllString(Redact(err.Error()), "…"))
	}
	reason := parse.Error()
	if i := strings.LastIndex(reason, "`: "); i >= 0 {
		reason = reason[i+len("`: "):]
	}
	if strings.HasPrefix(reason, "failed to parse") {
		reason += "; write postgres://user@host:port/database or host=… dbname=…"
	}
	return fmt.Errorf("database URL: %s", quoted.ReplaceAllString(Redact(reason), "…"))
}
