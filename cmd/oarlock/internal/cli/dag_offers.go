package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/doctor"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// sayUnoffered remarks on actions in files that are not built in and that no live worker offers: a typing error, or a
// program that is still to be started. If it cannot read workers it prints nothing, since the files are applied anyway.
func (e *env) sayUnoffered(ctx context.Context, store *queue.Store, files []*dagFile) {
	const prefix = "action:"
	var wanted []string
	for _, f := range files {
		for _, need := range f.spec.Needs() {
			if name, ok := strings.CutPrefix(need, prefix); ok && !slices.Contains(dagspec.Actions(), name) && !slices.Contains(wanted, name) {
				wanted = append(wanted, name)
			}
		}
	}
	if len(wanted) == 0 {
		return
	}
	workers, err := store.Workers(ctx)
	if err != nil {
		return
	}
	known := dagspec.Actions()
	for i := range workers {
		if workers[i].State != queue.WorkerLive {
			continue
		}
		for _, offer := range workers[i].Offers {
			if name, ok := strings.CutPrefix(offer, prefix); ok {
				known = append(known, name)
			}
		}
	}
	for _, name := range wanted {
		if slices.Contains(known, name) {
			continue
		}
		text := fmt.Sprintf("no worker offers the action %s: runs wait until one does", runview.Printable(name))
		if near := config.Near(name, known); near != "" {
			text += fmt.Sprintf("; did you mean %s?", runview.Printable(near))
		}
		e.remark("%s", text)
	}
}

// sayMissingApprovers remarks on approvers of DAGs that are not roles. If it cannot read them it prints nothing, since the
// files are applied anyway.
func (e *env) sayMissingApprovers(ctx context.Context, store *queue.Store, done []jsonApply) {
	names := make([]string, len(done))
	for i := range done {
		names[i] = done[i].DAG
	}
	missing, err := store.MissingApprovers(ctx, names)
	if err != nil {
		return
	}
	for i := range missing {
		e.remark("%s", doctor.MissingApprovers(missing[i]))
	}
}
