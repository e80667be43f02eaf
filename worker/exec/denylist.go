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

// ParseDenyList parses globs over the names of variables; case does not matter. A list that is not empty also denies every variable
// with a value that contains a URL with credentials. An empty list denies nothing. The error names the first malformed glob.
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

// withSecrets returns globs, followed by the globs in secrets: these are the variables that DAGs may name as secrets, and bodies
// must not inherit them. It leaves out globs such as *, which would deny every variable. If globs is empty it returns globs alone,
// because bodies then inherit everything. It changes neither argument.
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

// CheckNameGlob returns an error if a glob over the names of variables is malformed or empty. The caller must put the glob before
// the message, which begins with "must be".
func CheckNameGlob(glob string) error {
	if _, err := path.Match(glob, ""); err != nil || glob == "" {
		return errors.New("must be a name, with * for any text and ? for any character")
	}
	return nil
}

// Denies reports whether the list denies a variable: its name matches a glob, in capitals or not, or its value contains a URL with
// credentials. An empty list denies nothing.
func (l DenyList) Denies(name, value string) bool {
	upper := strings.ToUpper(name)
	for _, glob := range l.globs {
		if ok, _ := path.Match(glob, upper); ok {
			return true
		}
	}
	return len(l.globs) > 0 && strings.Contains(value, "://") && credentials.MatchString(value)
}
