package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFileBytes bounds the settings file: a larger file is a mistake.
const maxFileBytes = 64 << 10

// File is the text of a settings file, before it is parsed.
type File struct {
	Path string
	text []byte
}

// entry is one key of the file with its value and line.
type entry struct {
	items []string // the values; a Plain setting has one
	line  int
}

// Read returns the settings file at path, without parsing it. It returns FileErrors for a file that is larger than maxFileBytes.
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	file := &File{Path: path, text: bytes.TrimPrefix(text, []byte("\uFEFF"))}
	if len(text) > maxFileBytes {
		return nil, FileErrors{file.problem(1, 1, fmt.Sprintf("the file is larger than %d KiB", maxFileBytes>>10), "is this the right file?")}
	}
	return file, nil
}

// Find reads the first settings file that exists among places. It returns nil without an error if none exists. A place that cannot
// be looked into counts as empty, since HOME may be another user's folder, or /dev/null; but a file that exists and cannot be read
// is an error.
func Find(places []string) (*File, error) {
	for _, path := range places {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		file, err := Read(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return nil, nil
}

// Places lists where a settings file may be, strongest first; lookup reads an environment variable. The working folder is not among
// them: a file from a repository that the user cloned must not decide which database a worker takes its commands from.
func Places(lookup func(string) (string, bool)) []string {
	var places []string
	if dir, ok := lookup("XDG_CONFIG_HOME"); ok && filepath.IsAbs(dir) {
		places = append(places, filepath.Join(dir, "oarlock", "config.yaml"))
	} else if home, ok := lookup("HOME"); ok && filepath.IsAbs(home) {
		places = append(places, filepath.Join(home, ".config", "oarlock", "config.yaml"))
	}
	return append(places, "/etc/oarlock/config.yaml")
}

// entries parses the file, checks it against the keys, and returns the settings of the file by name. It returns FileErrors with all
// problems. A nil file has no settings.
func (f *File) entries(keys []Key) (map[string]entry, error) {
	if f == nil {
		return nil, nil
	}
	tree, err := parser.ParseBytes(f.text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, FileErrors{f.syntaxError(err)}
	}
	r := reader{file: f, keys: keys, found: map[string]entry{}}
	r.documents(tree.Docs)
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	return r.found, nil
}

func (f *File) syntaxError(err error) *FileError {
	if at, ok := errors.AsType[*yaml.SyntaxError](err); ok && at.Token != nil {
		return f.problemAt(at.Token, at.Message, "")
	}
	return f.problem(1, 1, err.Error(), "")
}

func (f *File) problemAt(at *token.Token, msg, hint string) *FileError {
	return f.problem(at.Position.Line, at.Position.Column, msg, hint)
}

// problem returns an error about a place in the file; lines and columns count from 1. It quotes the source line up to its first
// colon only, because the text behind the colon may be a password. It quotes nothing if the line has no colon, or if the column is
// too far behind it.
func (f *File) problem(line, column int, msg, hint string) *FileError {
	e := &FileError{Path: f.Path, Line: line, Column: column, Msg: msg, Hint: hint}
	lines := strings.Split(string(f.text), "\n")
	if line > len(lines) {
		return e
	}
	if key, _, found := strings.Cut(lines[line-1], ":"); found && column <= len(key)+len(": …") {
		e.Source = key + ": …"
	}
	return e
}

// reader walks the syntax tree of one file, and collects settings and problems.
type reader struct {
	file  *File
	keys  []Key
	found map[string]entry
	errs  FileErrors
}

func (r *reader) fail(at *token.Token, hint, format string, args ...any) {
	r.errs = append(r.errs, r.file.problemAt(at, fmt.Sprintf(format, args...), hint))
}

func (r *reader) documents(docs []*ast.DocumentNode) {
	for i, doc := range docs {
		switch body := doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.NullNode:
		case *ast.MappingNode:
			if i > 0 {
				r.fail(body.GetToken(), "keep one document, and delete the `---`", "a settings file holds one document")
				return
			}
			for _, pair := range body.Values {
				r.pair(pair)
			}
		default:
			r.fail(doc.Body.GetToken(), "write lines like `log_level: debug`", "settings are `key: value` lines")
		}
	}
}

func (r *reader) pair(pair *ast.MappingValueNode) {
	at := pair.Key.GetToken()
	key, known := r.key(at.Value)
	if !known {
		hint := DidYouMean(at.Value, r.names())
		if hint == "" {
			hint = "known keys: " + strings.Join(r.names(), ", ")
		}
		r.fail(at, hint, "unknown key %q", at.Value)
		return
	}
	if first, twice := r.found[key.Name]; twice {
		r.fail(at, "delete one of the two lines", "%s is set twice, first in line %d", key.Name, first.line)
		return
	}
	if key.Gone != "" {
		r.found[key.Name] = entry{[]string{""}, at.Position.Line} // a setting without effect: its value is not checked
		return
	}
	items, ok := r.items(key, pair.Value)
	if !ok {
		return
	}
	r.found[key.Name] = entry{items, at.Position.Line}
	for _, item := range items {
		if err := key.checkOne(item); err != nil {
			at := pair.Value.GetToken()
			if key.Shape != Plain {
				at = pair.Key.GetToken() // lists and maps: their own first token is only a bracket or a key
			}
			r.fail(at, DidYouMean(item, key.Allowed), "%s %v", key.Name, err)
		}
	}
}

// items reads a value by the shape of its key. After it has recorded a problem, it returns false. It refuses anchors and aliases:
// settings do not need them, and they can make a small file expand to a huge one.
func (r *reader) items(key Key, node ast.Node) ([]string, bool) {
	switch {
	case key.Shape == List:
		return r.list(key, node)
	case key.Shape == Map:
		return r.mapping(key, node)
	}
	text, ok := r.scalar(key.Name, node)
	return []string{text}, ok
}

func (r *reader) list(key Key, node ast.Node) ([]string, bool) {
	n, ok := node.(*ast.SequenceNode)
	if !ok {
		r.fail(node.GetToken(), "write [a, b], or a line `- a` for each item", "%s takes a list", key.Name)
		return nil, false
	}
	items := []string{}
	for _, value := range n.Values {
		text, ok := r.scalar("an item of "+key.Name, value)
		if !ok {
			return nil, false
		}
		items = append(items, text)
	}
	return items, true
}

func (r *reader) mapping(key Key, node ast.Node) ([]string, bool) {
	n, ok := node.(*ast.MappingNode)
	if !ok {
		r.fail(node.GetToken(), "write an indented line `name: value` for each value", "%s takes values by name", key.Name)
		return nil, false
	}
	items := []string{}
	for _, pair := range n.Values {
		name := pair.Key.GetToken().Value
		if strings.ContainsAny(name, "=\x00") {
			r.fail(pair.Key.GetToken(), "", "%s: a name must not contain = or NUL", key.Name) // name=value is cut at the first
			return nil, false
		}
		text, ok := r.scalar(key.Name+"."+name, pair.Value)
		if !ok {
			return nil, false
		}
		if slices.ContainsFunc(items, func(item string) bool { return strings.HasPrefix(item, name+"=") }) {
			r.fail(pair.Key.GetToken(), "delete one of the two lines", "%s.%s is set twice", key.Name, name)
			return nil, false
		}
		items = append(items, name+"="+text)
	}
	return items, true
}

func (r *reader) scalar(name string, node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	case *ast.NullNode:
		r.fail(node.GetToken(), "give the setting a value, or delete the line", "%s is empty", name)
	default:
		r.fail(node.GetToken(), "", "%s takes one plain value", name)
	}
	return "", false
}

func (r *reader) key(name string) (Key, bool) {
	for _, k := range r.keys {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

func (r *reader) names() []string {
	var names []string
	for _, k := range r.keys {
		if k.Gone == "" {
			names = append(names, k.Name)
		}
	}
	return names
}
