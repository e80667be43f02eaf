package exec

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// StandardDenyList names the variables that bodies do not inherit unless the worker's settings say otherwise.
var StandardDenyList = []string{
	"OARLOCK_*", "DATABASE_URL", "PG*", "AWS_*", "KUBERNETES_*",
	"*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*PASSCODE*", "*PASS", "*_PWD", "*SECRET*", "*TOKEN*", "*CREDENTIAL*", "*_CREDS",
	"*_KEY", "*_KEYS", "*APIKEY*", "*API_KEY*", "*ACCESS_KEY*", "*PRIVATE_KEY*", "*_PAT", "*JWT*", "*BEARER*", "*COOKIE*", "*_SAS",
	"*_AUTH", "*AUTH_CONFIG*", "*_DSN", "*CONNECTION_STRING*", "*CONN_STR*", "*WEBHOOK*",
	"SSH_AUTH_SOCK", "TMOUT", "BASH_ENV", "LD_PRELOAD",
	"NOTIFY_SOCKET", "WATCHDOG_*", // systemd must not take messages from a body
}

// credentials matches URLs with a password. A name without password counts only in http URLs, where it is most often a token; in
// an ssh URL, git@ is none.
var credentials = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s/@:]*:[^\s/]*@|https?://[^\s/@]+@`)

// DenyList decides which variables are not inherited, and not shown where an environment is shown. The zero value denies none.
type DenyList struct {
	globs []string
}

// ParseDenyList parses globs over names; case does not matter. A list that is not empty also denies every variable with a URL
// that contains credentials in its value. An empty list denies nothing.
func ParseDenyList(globs []string) (DenyList, error) {
	list := DenyList{globs: make([]string, len(globs))}
	for i, glob := range globs {
		if err := CheckNameGlob(glob); err != nil {
			return DenyList{}, fmt.Errorf("env_deny: %q %w", glob, err)
		}
		list.globs[i] = strings.ToUpper(glob)
	}
	return list, nil
}

// withSecrets adds the globs of variables that DAGs may name as secrets, without globs that match everything, such as *. A list
// that denies nothing stays empty.
func withSecrets(globs, secrets []string) []string {
	if len(globs) == 0 {
		return globs
	}
	globs = slices.Clone(globs)
	for _, glob := range secrets {
		if strings.Trim(glob, "*?") != "" {
			globs = append(globs, glob)
		}
	}
	return globs
}

// CheckNameGlob returns what is wrong with a glob over the names of variables; nil for nothing.
func CheckNameGlob(glob string) error {
	if _, err := path.Match(glob, ""); err != nil || glob == "" {
		return errors.New("must be a name, with * and ? for what may vary")
	}
	return nil
}

// Denies reports whether the list denies a variable: its name matches a glob, or, unless the list is empty, its value is a URL
// with credentials.
func (l DenyList) Denies(name, value string) bool {
	upper := strings.ToUpper(name)
	for _, glob := range l.globs {
		if ok, _ := path.Match(glob, upper); ok {
			return true
		}
	}
	return len(l.globs) > 0 && strings.Contains(value, "://") && credentials.MatchString(value)
}
