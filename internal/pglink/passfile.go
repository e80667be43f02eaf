package pglink

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// OpenPassfile returns the path of the password file for a database URL if users other than its owner have any right to it. It
// returns "" if they have none, and if there is no such file. Parse ignores an open file, as psql does: a user that can read it has
// the password, and a user that can write it can direct the password to another server.
func OpenPassfile(database string) string {
	path := passfileOf(database)
	if info, err := os.Stat(path); path == "" || err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return path
}

var passfileWord = regexp.MustCompile(`(?:^|\s)passfile\s*=\s*('(?:[^'\\]|\\.)*'|\S*)`)

// passfileOf returns the path of the password file, which need not exist: the one that the URL names, or else PGPASSFILE, or else
// .pgpass in the home folder. It returns "" if there is no home folder.
func passfileOf(database string) (path string) {
	if isURL(database) {
		if u, err := url.Parse(database); err == nil {
			path = u.Query().Get("passfile")
		}
	} else if found := passfileWord.FindStringSubmatch(database); found != nil {
		path = strings.Trim(found[1], "'")
	}
	path = cmp.Or(path, os.Getenv("PGPASSFILE"))
	if home, err := os.UserHomeDir(); path == "" && err == nil {
		path = filepath.Join(home, ".pgpass")
	}
	return path
}

// withoutPassfile returns the URL or keyword=value string with /dev/null as its password file. It appends the setting to a string,
// where the last value of a keyword counts. In a URL it replaces the setting, because a URL must have each key only once.
func withoutPassfile(database string) string {
	const none = "passfile=" + os.DevNull
	if !isURL(database) {
		return database + " " + none
	}
	before, query, _ := strings.Cut(database, "?")
	words := slices.DeleteFunc(strings.Split(query, "&"), func(word string) bool { return word == "" || strings.HasPrefix(word, "passfile=") })
	return before + "?" + strings.Join(append(words, none), "&")
}

func isURL(database string) bool {
	return strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://")
}
