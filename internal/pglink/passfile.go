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

// OpenPassfile is the password file of a URL that others than its owner may read or write, "" if there is none. As psql does,
// Parse ignores such a file: whoever may read it has the password, whoever may write it chooses where it goes.
func OpenPassfile(database string) string {
	path := passfileOf(database)
	if info, err := os.Stat(path); path == "" || err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return path
}

var passfileWord = regexp.MustCompile(`(?:^|\s)passfile\s*=\s*('(?:[^'\\]|\\.)*'|\S*)`)

// passfileOf is what the URL names, or the variable, or the one in the home folder.
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

// withoutPassfile is the same database with an empty password file. Of a keyword that is given twice the last counts; a URL has it
// once.
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
