package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tree is the source of one module. Paths are relative to its root, with slashes.
type Tree struct {
	Module string
	Go     []*GoFile
	fset   *token.FileSet
	fsys   fs.FS
	files  map[string]bool
	folder map[string]bool
}

// GoFile is a parsed Go file outside of testdata.
type GoFile struct {
	*ast.File
	Path string
	Dir  string // the package, as a path from the module's root; "." for the root
	Test bool   // its name ends in _test.go
}

// skipped lists folders without files written for the module.
var skipped = []string{".git", ".cache", "bin", "dist", "node_modules", "vendor"}

// Load parses the module in fsys. A Go file that does not parse is an error: no rule can judge it.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{fset: token.NewFileSet(), fsys: fsys, files: map[string]bool{}, folder: map[string]bool{".": true}}
	if err := fs.WalkDir(fsys, ".", t.visit); err != nil {
		return nil, fmt.Errorf("load module: %w", err)
	}
	for line := range strings.SplitSeq(t.Text("go.mod"), "\n") {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			t.Module = strings.TrimSpace(name)
		}
	}
	return t, nil
}

func (t *Tree) visit(p string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case entry.IsDir() && slices.Contains(skipped, entry.Name()):
		return fs.SkipDir
	case entry.IsDir():
		t.folder[p] = true
		return nil
	}
	t.files[p] = true
	if path.Ext(p) == ".go" && !strings.Contains("/"+p, "/testdata/") {
		return t.parse(p)
	}
	return nil
}

func (t *Tree) parse(p string) error {
	source, err := fs.ReadFile(t.fsys, p)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(t.fset, p, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.Go = append(t.Go, &GoFile{
		File: file,
		Path: p,
		Dir:  path.Dir(p),
		Test: strings.HasSuffix(p, "_test.go"),
	})
	return nil
}

// Text returns the content of a file, "" where there is none.
func (t *Tree) Text(p string) string {
	content, err := fs.ReadFile(t.fsys, p)
	if err != nil {
		return ""
	}
	return string(content)
}

// Paths lists the files with this ending, in order.
func (t *Tree) Paths(ext string) []string {
	var paths []string
	for p := range t.files {
		if strings.HasSuffix(p, ext) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// Packages lists the folders that hold Go files, in order.
func (t *Tree) Packages() []string {
	var dirs []string
	for _, f := range t.Go {
		dirs = append(dirs, f.Dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// In lists the Go files of one package.
func (t *Tree) In(dir string) []*GoFile {
	return slices.DeleteFunc(slices.Clone(t.Go), func(f *GoFile) bool { return f.Dir != dir })
}

// at makes a finding at a place in a Go file.
func (t *Tree) at(pos token.Pos, format string, args ...any) Finding {
	place := t.fset.Position(pos)
	return Finding{place.Filename, place.Line, fmt.Sprintf(format, args...)}
}

func (t *Tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

var majorVersion = regexp.MustCompile(`/v\d+$`)

// imported returns the name under which a file knows an import path, "" where it does not.
func (f *GoFile) imported(importPath string) string {
	for _, spec := range f.Imports {
		if unquote(spec.Path) != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(majorVersion.ReplaceAllString(importPath, ""))
	}
	return ""
}

// uses lists where a file mentions a name of an imported package: uses("time", "Sleep").
func (f *GoFile) uses(importPath string, names ...string) []*ast.SelectorExpr {
	local := f.imported(importPath)
	if local == "" {
		return nil
	}
	var found []*ast.SelectorExpr
	ast.Inspect(f.File, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && isIdent(sel.X, local) && slices.Contains(names, sel.Sel.Name) {
			found = append(found, sel)
		}
		return true
	})
	return found
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func unquote(lit *ast.BasicLit) string {
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return lit.Value
	}
	return text
}
