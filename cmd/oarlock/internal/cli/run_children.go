package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// startedBeside finds the files for the DAGs that a file starts, directly or through each other, in the folder of the file.
// missing are the names of DAGs without a file there.
func (e *env) startedBeside(file *dagFile) (files []*dagFile, missing []string, err error) {
	wanted := file.spec.Starts()
	if len(wanted) == 0 {
		return nil, nil, nil
	}
	byName, err := e.dagsBeside(file)
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(wanted); i++ {
		name := wanted[i]
		switch found := byName[name]; {
		case name == file.spec.Name:
		case len(found) == 0:
			missing = append(missing, name)
		case len(found) > 1:
			return nil, nil, &failure{
				kind: invalid, err: fmt.Errorf("%s starts the DAG %s, and both %s and %s describe it", file.name, name, found[0].name, found[1].name),
				hint: "leave one of them out, or give it another name",
			}
		default:
			files = append(files, found[0])
			for _, next := range found[0].spec.Starts() {
				if !slices.Contains(wanted, next) {
					wanted = append(wanted, next)
				}
			}
		}
	}
	return files, missing, nil
}

// dagsBeside reads the other DAG files in the folder of a file. It ignores files with problems.
func (e *env) dagsBeside(file *dagFile) (map[string][]*dagFile, error) {
	byName := map[string][]*dagFile{}
	if file.path == "" {
		return byName, nil
	}
	names, err := e.dagsIn(filepath.Dir(file.path))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := e.readDAG(name)
		if err == nil && f.spec != nil && f.path != file.path {
			f.name = runview.Printable(filepath.Base(name))
			byName[f.spec.Name] = append(byName[f.spec.Name], f)
		}
	}
	return byName, nil
}

// putStarted registers the DAGs that a file starts. It refuses a DAG that is neither registered nor beside the file:
// otherwise each step that starts the DAG would fail.
func (e *env) putStarted(ctx context.Context, store *queue.Store, h *here) error {
	for _, name := range h.missing {
		_, err := store.GetDAG(ctx, name, 0)
		if errors.Is(err, queue.ErrNotFound) {
			return &failure{
				kind: invalid, err: fmt.Errorf("%s starts the DAG %s, which is not registered, and no file beside it describes it", h.file.name, name),
				hint: "put its file into the same folder, or register it: `oarlock dag apply FILE`",
			}
		}
		if err != nil {
			return err
		}
	}
	for _, child := range h.children {
		put, err := store.PutDAGUnscheduled(ctx, child.spec, child.source, child.path)
		if err != nil {
			return fmt.Errorf("%s: %w", child.name, err)
		}
		if put.IsNew {
			e.remark("applied %s version %d from %s: %s starts it", child.spec.Name, put.Version, child.name, h.file.spec.Name)
		}
	}
	return nil
}
