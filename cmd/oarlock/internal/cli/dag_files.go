package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

const (
	stdinWord = "-"
	stdinName = "stdin"
)

var dagExtensions = []string{".yaml", ".yml", ".json"}

// dagFile is a DAG file after it was read and checked.
type dagFile struct {
	name   string // as the user typed it
	path   string // absolute; "" for standard input
	source string
	spec   *dagspec.Spec // nil: the file has the problems in problems
	graph  *dagrun.Graph

	problems dagspec.Errors
}

// readDAGs reads and checks the given files, the DAG files of the given folders, and standard input for "-".
func (e *env) readDAGs(args []string) ([]*dagFile, error) {
	names, err := e.dagPaths(args)
	if err != nil {
		return nil, err
	}
	files := make([]*dagFile, len(names))
	for i, name := range names {
		if files[i], err = e.readDAG(name); err != nil {
			return nil, err
		}
	}
	refuseTwins(files)
	return files, nil
}

// dagPaths replaces folders by their DAG files, and drops repeated files.
func (e *env) dagPaths(args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		found := []string{arg}
		if info, err := os.Stat(e.absolute(arg)); arg != stdinWord && err == nil && info.IsDir() {
			if found, err = e.dagsIn(arg); err != nil {
				return nil, err
			}
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// dagsIn lists the DAG files that stand directly in a folder.
func (e *env) dagsIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(e.absolute(folder))
	if err != nil {
		return nil, unreadable(folder, err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && hasDAGExtension(entry.Name()) {
			names = append(names, filepath.Join(folder, entry.Name()))
		}
	}
	if len(names) == 0 {
		return nil, &failure{
			kind: notFound, err: fmt.Errorf("there is no DAG file in %s", folder),
			hint: "the files of a folder that count end in .yaml, .yml or .json; folders in it are not searched",
		}
	}
	return names, nil
}

func hasDAGExtension(name string) bool { return slices.Contains(dagExtensions, filepath.Ext(name)) }

func (e *env) readDAG(name string) (*dagFile, error) {
	f := &dagFile{name: runview.Printable(name)} // any user may have named a file in a folder
	in := e.Stdin
	if name == stdinWord {
		f.name = stdinName
	} else {
		f.path = e.absolute(name)
		file, err := os.Open(f.path)
		if err != nil {
			return nil, unreadable(name, err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, dagspec.MaxBytes+1)) // dagspec refuses a text that is longer by one byte
	if err != nil {
		return nil, unreadable(f.name, err)
	}
	f.source = string(text)
	f.check(text)
	return f, nil
}

func (f *dagFile) check(text []byte) {
	spec, err := dagspec.Parse(f.name, text)
	if err == nil {
		f.graph, err = spec.Graph()
	}
	if err == nil {
		f.spec = spec
		return
	}
	if problems, ok := errors.AsType[dagspec.Errors](err); ok {
		f.problems = problems
		return
	}
	f.problems = dagspec.Errors{{Path: f.name, Msg: err.Error()}}
}

// refuseTwins reports two files for one DAG as a problem: the last one would win, only because of its name.
func refuseTwins(files []*dagFile) {
	first := map[string]*dagFile{}
	for _, f := range files {
		switch {
		case f.spec == nil:
		case first[f.spec.Name] == nil:
			first[f.spec.Name] = f
		default:
			f.problems = dagspec.Errors{{
				Path: f.name, Msg: fmt.Sprintf("dag %q is described by %s already", f.spec.Name, first[f.spec.Name].name),
				Hint: "leave one of them out, or give it another name",
			}}
			f.spec = nil
		}
	}
}

func unreadable(name string, err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err // inner has an absolute path, longer than the path that the user typed
	}
	return &failure{kind: notFound, err: fmt.Errorf("cannot read %s: %w", name, err), hint: "name a file that this user may read"}
}

func (e *env) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(e.Dir, path)
}

// invalidFiles returns the error for files with problems; nil: no file has any.
func invalidFiles(files []*dagFile) error {
	problems, bad := 0, []string{}
	for _, f := range files {
		if n := len(f.problems); n > 0 {
			problems += n
			bad = append(bad, f.name)
		}
	}
	switch {
	case problems == 0:
		return nil
	case len(bad) == 1:
		return &failure{kind: invalid, err: fmt.Errorf("%s in %s", runview.Count(problems, "problem"), bad[0])}
	}
	return &failure{kind: invalid, err: fmt.Errorf("%s in %d of %s", runview.Count(problems, "problem"), len(bad), runview.Count(len(files), "file"))}
}

// problems writes the problems of files, with an empty line behind each.
func (p painter) problems(files []*dagFile, columns int) string {
	var b strings.Builder
	for _, f := range files {
		for _, problem := range f.problems {
			b.WriteString(p.problem(problem, columns) + "\n")
		}
	}
	return b.String()
}

// problem writes place and message, then the source line with a caret, then the hint.
func (p painter) problem(problem dagspec.Error, columns int) string {
	place := problem.Path + ":"
	if problem.Line > 0 {
		place += fmt.Sprintf("%d:%d:", problem.Line, problem.Column)
	}
	text := p.bold(place) + " " + problem.Msg + "\n"
	if quote := p.snippet(problem.Line, problem.Source, problem.Caret, columns); quote != "" {
		text += quote + "\n"
	}
	if problem.Hint != "" {
		text += "  " + p.note("hint:") + " " + problem.Hint + "\n"
	}
	return text
}

type jsonProblem struct {
	Path    string  `json:"path"`
	Line    *int    `json:"line"`
	Column  *int    `json:"column"`
	Message string  `json:"message"`
	Hint    *string `json:"hint"`
}

func problemJSON(p dagspec.Error) jsonProblem {
	j := jsonProblem{Path: p.Path, Message: p.Msg, Hint: runview.TextOrNull(p.Hint)}
	if p.Line > 0 {
		j.Line, j.Column = &p.Line, &p.Column
	}
	return j
}
