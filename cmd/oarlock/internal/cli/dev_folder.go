package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// dev is the state of `oarlock dev` from its start to Ctrl-C.
type dev struct {
	env     *env
	store   *queue.Store
	folder  string
	workers []*devWorker
	seen    map[string]fileState // files of the folder at the last look
	applied map[string]string    // the DAG that a file holds, by file
	told    map[queue.RunID]bool // runs that are known to have ended
	away    string               // why the folder or the database cannot be used; "": both can
}

// fileState identifies the content of a file: it differs after each change.
type fileState struct {
	modified time.Time
	size     int64
}

// look applies the files that changed since the last look. If a file could not be applied because the database was away,
// the next look applies it as if it were new.
func (d *dev) look(ctx context.Context) {
	now, err := d.files()
	if err != nil {
		d.trouble(err)
		return
	}
	var changed []string
	for name, state := range now {
		if d.seen[name] != state {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	for _, name := range changed {
		if err := d.apply(ctx, name); err != nil {
			d.trouble(err)
			return
		}
		d.seen[name] = now[name]
	}
	for name := range d.seen {
		if _, there := now[name]; !there {
			d.gone(name)
		}
	}
	d.away = ""
}

func (d *dev) files() (map[string]fileState, error) {
	entries, err := os.ReadDir(d.env.absolute(d.folder))
	if err != nil {
		return nil, unreadable(d.folder, err)
	}
	found := map[string]fileState{}
	for _, entry := range entries {
		if entry.Name()[0] == '.' || !hasDAGExtension(entry.Name()) {
			continue
		}
		info, err := os.Stat(filepath.Join(d.env.absolute(d.folder), entry.Name()))
		if err == nil && info.Mode().IsRegular() { // otherwise the file has been removed since the folder was listed
			found[entry.Name()] = fileState{info.ModTime(), info.Size()}
		}
	}
	return found, nil
}

// apply registers the DAG of a file, or prints the problems of the file. It returns an error only for reasons outside the
// file.
func (d *dev) apply(ctx context.Context, name string) error {
	e := d.env
	file, err := e.readDAG(filepath.Join(d.folder, name))
	if err != nil {
		return err
	}
	if len(file.problems) > 0 {
		_, err := io.WriteString(e.Stderr, e.stderrPaint().problems([]*dagFile{file}, e.StderrColumns))
		return err
	}
	for other, dag := range d.applied {
		if dag == file.spec.Name && other != name {
			e.remark("%s: dag %q is described by %s already: give one of them another name", file.name, dag, runview.Printable(other))
			return nil
		}
	}
	before, err := schedulesOfFile(ctx, d.store, file)
	if err != nil {
		return err
	}
	put, err := d.store.PutDAG(ctx, file.spec, file.source, file.path)
	if err != nil {
		if p := diagnose(ctx, err); p.kind == invalid {
			e.remark("%s: %s", file.name, p.message)
			return nil
		}
		return err
	}
	d.applied[name] = file.spec.Name
	if paint := e.stderrPaint(); put.IsNew {
		e.remark("%s %s version %d from %s", paint.good("applied"), file.spec.Name, put.Version, file.name)
	} else {
		e.remark("%s", paint.dim(fmt.Sprintf("unchanged %s version %d", file.spec.Name, put.Version)))
	}
	after, err := schedulesOfFile(ctx, d.store, file)
	if err != nil {
		return err
	}
	for _, s := range nextOf(after) {
		e.remark("  %s", s.says)
	}
	for _, name := range goneFrom(before, after) {
		e.remark("  %s is gone", runview.InlineText(name))
	}
	return nil
}

func (d *dev) gone(name string) {
	delete(d.seen, name)
	if dag := d.applied[name]; dag != "" {
		d.env.remark("%s is gone; its DAG stays until `%s dag rm %s`", runview.Printable(name), program, dag)
		delete(d.applied, name)
	}
}

// trouble prints an error once, until the error is over or another one comes.
func (d *dev) trouble(err error) {
	p := diagnose(context.Background(), err)
	if p.message != d.away {
		d.env.report(p, nil)
	}
	d.away = p.message
}
