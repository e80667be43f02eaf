package sql

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed */*.sql
var files embed.FS

var statements = must(load(files))

// Named returns the text of the statement with this name: the path of its file without ".sql". It panics on an unknown name: names
// are written by programmers, never taken from input.
func Named(name string) string {
	text, ok := statements[name]
	if !ok {
		panic(fmt.Sprintf("sql: no statement %q: create sql/%s.sql or fix the name", name, name))
	}
	return text
}

// Names returns the names of all statements in alphabetical order.
func Names() []string {
	return slices.Sorted(maps.Keys(statements))
}

func load(fsys fs.FS) (map[string]string, error) {
	paths, err := fs.Glob(fsys, "*/*.sql")
	if err != nil {
		return nil, err
	}
	loaded := make(map[string]string, len(paths))
	for _, p := range paths {
		source, err := fs.ReadFile(fsys, p)
		if err != nil {
			return nil, err
		}
		text, err := parse(string(source))
		if err != nil {
			return nil, fmt.Errorf("sql/%s: %w", p, err)
		}
		name := strings.TrimSuffix(p, path.Ext(p))
		loaded[name] = "/* oarlock " + name + " */ " + text
	}
	return loaded, nil
}

// headers are the questions a reviewer asks of every statement; a file that leaves one open is refused.
var headers = []string{"-- Purpose:", "-- Index:", "-- Locks:"}

// opaque matches comments and quotes, in which a semicolon separates nothing.
var opaque = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|'[^']*'|"[^"]*"|\$\$.*?\$\$`)

// parse returns the one statement of a file, without header and final semicolon. It fails if a line of the header is missing, and
// if the file has no statement or several. It runs at every start of the program, so the costly search for a second statement is
// left to the few files that have a semicolon inside.
func parse(source string) (string, error) {
	header, text := split(source)
	for _, h := range headers {
		if !hasAnswer(header, h) {
			return "", fmt.Errorf("the header has no %q line", h+" …")
		}
	}
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), ";"))
	if text == "" {
		return "", fmt.Errorf("there is no statement below the header")
	}
	if strings.Contains(text, ";") && strings.Contains(opaque.ReplaceAllString(text, ""), ";") {
		return "", fmt.Errorf("more than one statement: one statement per file")
	}
	return text, nil
}

func split(source string) (header []string, text string) {
	for text = source; strings.HasPrefix(text, "--"); {
		line, rest, _ := strings.Cut(text, "\n")
		header, text = append(header, line), rest
	}
	return header, text
}

func hasAnswer(header []string, question string) bool {
	return slices.ContainsFunc(header, func(line string) bool {
		answer, ok := strings.CutPrefix(line, question)
		return ok && strings.TrimSpace(answer) != ""
	})
}

// must returns loaded, or panics: an embedded file that cannot be read is a fault of the program.
func must(loaded map[string]string, err error) map[string]string {
	if err != nil {
		panic(err)
	}
	return loaded
}
