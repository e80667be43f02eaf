package exec

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// StandardDenyList names the variables that bodies do not inherit unless somebody says otherwise.
var StandardDenyList = []string{
	"OARLOCK_*", "DATABASE_URL", "PG*", "AWS_*", "KUBERNETES_*",
	"*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*PASSCODE*", "*PASS", "*_PWD", "*SECRET*", "*TOKEN*", "*CREDENTIAL*", "*_CREDS",
	"*_KEY", "*_KEYS", "*APIKEY*", "*API_KEY*", "*ACCESS_KEY*", "*PRIVATE_KEY*", "*_PAT", "*JWT*", "*BEARER*", "*COOKIE*", "*_SAS",
	"*_AUTH", "*AUTH_CONFIG*", "*_DSN", "*CONNECTION_STRING*", "*CONN_STR*", "*WEBHOOK*",
	"SSH_AUTH_SOCK", "TMOUT", "BASH_ENV", "LD_PRELOAD",
	"NOTIFY_SOCKET", "WATCHDOG_*", // a body does not speak for the service
}

// A password in a URL is one wherever it stands; a name alone is only for http, where it is most often a token, as git@ is
// none for ssh.
var credentials = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s/@:]*:[^\s/]*@|https?://[^\s/@]+@`)

// DenyList decides what is not inherited, and what is not shown where an environment is. The zero value trusts all.
type DenyList struct {
	globs []string
}

// ParseDenyList reads globs over names, where case does not matter. A list with anything in it also denies every variable
// whose value holds a URL with credentials; an empty one denies nothing.
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

// withSecrets adds the variables that DAGs may name as secrets; * names none in particular. A list that trusts all stays empty.
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

// CheckNameGlob says what is wrong with a glob over the names of variables.
func CheckNameGlob(glob string) error {
	if _, err := path.Match(glob, ""); err != nil || glob == "" {
		return errors.New("must be a name, with * and ? for what may vary")
	}
	return nil
}

// Denies says whether the list is against a variable.
func (l DenyList) Denies(name, value string) bool {
	upper := strings.ToUpper(name)
	for _, glob := range l.globs {
		if ok, _ := path.Match(glob, upper); ok {
			return true
		}
	}
	return len(l.globs) > 0 && strings.Contains(value, "://") && credentials.MatchString(value)
}
