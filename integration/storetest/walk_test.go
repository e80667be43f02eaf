package storetest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	walkDAGs      = 4
	walkDAGsNight = 60
	walkRuns      = 10 // of each DAG
	walkTurns     = 5  // rounds of requests; between them the runs are driven
)

// walk makes random DAGs with approvals, and makes the owner of the runs send any request.
type walk struct {
	*office
	*rand.Rand
	behind map[string]bool // steps behind an approval that the owner may not decide
	gates  map[string]bool // steps that are approvals or may be replaced by one; true: the approval names another user
	asked  map[queue.RunID][]string
	taken  []int64 // numbers of the retries that the database took
}

func (w *walk) chance(of int) bool { return w.IntN(of) == 0 }

func oneOf[T any](w *walk, from ...T) T { return from[w.IntN(len(from))] }

// dag returns the file of a DAG with up to seven steps.
func (w *walk) dag(name string) string {
	w.behind, w.gates = map[string]bool{}, map[string]bool{}
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\n", name)
	if w.chance(6) {
		fmt.Fprintf(&b, "handler_on: {init: {action: approval, with: {approvers: [%s]}}}\n", w.role("boss"))
		w.gates["@init"] = true
	}
	b.WriteString("steps:\n")
	for i := range 3 + w.IntN(5) {
		fmt.Fprintf(&b, "  - {%s}\n", strings.Join(w.step(i), ", "))
	}
	return b.String()
}

func (w *walk) step(i int) []string {
	id := fmt.Sprintf("s%d", i)
	fields := append([]string{"id: " + id}, w.body(id, i)...)
	var depends []string
	for j := range i {
		parent := fmt.Sprintf("s%d", j)
		if !w.chance(3) && !(j == i-1 && w.chance(2)) {
			continue
		}
		w.behind[id] = w.behind[id] || w.behind[parent] || w.gates[parent]
		depends = append(depends, oneOf(w, parent, parent, parent, "{step: "+parent+", state: started}"))
	}
	w.behind[id] = w.behind[id] || w.gates["@init"]
	fields = append(fields, "depends: ["+strings.Join(depends, ", ")+"]")
	if len(depends) > 0 && w.chance(3) {
		fields = append(fields, "trigger_rule: "+oneOf(w, "all_done", "one_success", "one_done", "none_failed", "all_failed", "one_failed", "none_skipped"))
	}
	return fields
}

// body returns an approval, a wait without end, or a program.
func (w *walk) body(id string, i int) []string {
	approver := oneOf(w, "boss", "boss", "owner")
	approval := fmt.Sprintf("action: approval, with: {approvers: [%s]}", w.role(approver))
	replaced := "on_error: [{do: replace, with: {" + approval + "}}]"
	switch {
	case i == 1 || w.chance(4):
		w.gates[id] = approver == "boss"
		return append([]string{approval}, oneOf(w, nil, nil, []string{"continue_on: skipped"}, []string{"foreach: {items: [a, b]}"}, []string{replaced})...)
	case w.chance(7):
		return []string{"action: wait", "with: {duration: 1000h}"}
	case w.chance(6):
		w.gates[id] = approver == "boss"
		return []string{"run: x", replaced}
	}
	return append([]string{"run: x", "outputs: [v]"}, oneOf(w, nil, []string{"foreach: {items: [a, b]}"}, []string{"precomputable: true"},
		[]string{"on_error: [{do: continue}]"}, []string{"continue_on: failed"}, []string{"continue_on: skipped"})...)
}

var walkRequests = []string{
	"mark($1, $2, 'succeeded', $3)", "mark($1, $2, 'failed', $3)", "mark($1, $2, 'skipped', $3)", "retry($1, 'step', $2, $3)", "retry($1, 'from', $2, $3)",
	"retry($1, 'failed')", "retry($1, 'all')", "cancel($1, $2, $3)", "pause($1, $2, $3)", "resume($1, $2, $3)", "approve($1, $2, $3)", "reject($1, $2, $3)",
	"pause($1)", "resume($1)", "cancel($1)", "cancel($1, now => true)",
}

// asks sends a request of the owner to a run.
func (w *walk) asks(run queue.RunID) {
	request := oneOf(w, walkRequests...)
	step := oneOf(w, "s%d", "s%d", "s%d", "s%d", "s%d", "s%d~1", "s%d~2", "@init")
	if strings.Contains(step, "%") {
		step = fmt.Sprintf(step, w.IntN(8))
	}
	args := []any{run, step, oneOf[any](w, nil, nil, nil, "a", "b")}[:1+2*strings.Count(request, "$2")]
	if strings.HasPrefix(request, "retry") {
		w.retries(run, request, args)
		return
	}
	w.asked[run] = append(w.asked[run], fmt.Sprintf("%s %v: %q", request, args[1:], w.says("owner", request, args...)))
}

// retries sends a retry, and keeps its number if the database took it.
func (w *walk) retries(run queue.RunID, request string, args []any) {
	w.Helper()
	var control int64
	var outcome *string
	err := w.logins["owner"].QueryRow(w.Context(), "SELECT id, outcome FROM oarlock."+request, args...).Scan(&control, &outcome)
	switch {
	case err != nil:
		w.asked[run] = append(w.asked[run], fmt.Sprintf("%s %v: %v", request, args[1:], err))
	case outcome != nil:
		w.asked[run] = append(w.asked[run], fmt.Sprintf("%s %v: %s", request, args[1:], *outcome))
	default:
		w.asked[run] = append(w.asked[run], fmt.Sprintf("%s %v", request, args[1:]))
		w.taken = append(w.taken, control)
	}
}

// wantTaken requires that no driver refused a retry of an ended run which the database took. Only a cancel before its start undoes
// one.
func (w *walk) wantTaken() {
	w.Helper()
	rows, err := w.conn.Query(w.Context(), `SELECT c.run_id, format('%s %s %s: %s', c.args ->> 'mode', c.step, c.item, c.message) FROM oarlock.controls c
		WHERE c.control_id = ANY ($1) AND c.args ? 'generation' AND c.outcome = 'refused' AND c.message NOT LIKE 'canceled by %'`, w.taken)
	if err != nil {
		w.Fatal(err)
	}
	var run queue.RunID
	var said string
	if _, err := pgx.ForEachRow(rows, []any{&run, &said}, func() error {
		w.Errorf("run %d was opened again for nothing: %s, after\n%s", run, said, strings.Join(w.asked[run], "\n"))
		return nil
	}); err != nil {
		w.Fatal(err)
	}
	w.taken = nil
}

// begin makes a run. Some runs get a precomputed result or start paused.
func (w *walk) begin(dag string) (run queue.RunID) {
	w.Helper()
	given := fmt.Sprintf(`{"s%d": {"outputs": {"v": "x"}}}`, w.IntN(8))
	if w.chance(2) || w.logins["owner"].QueryRow(w.Context(), "SELECT oarlock.enqueue($1, precomputed => $2)", dag, given).Scan(&run) != nil {
		run = w.enqueue("owner", dag)
	}
	if w.chance(3) {
		w.must("owner", "pause($1)", run)
	}
	return run
}

// steps returns the steps of a run of which something ran.
func (w *walk) steps(run queue.RunID) (steps []string) {
	for _, task := range w.ran[run] {
		step, _, _ := strings.Cut(task, "/")
		step, _, _ = strings.Cut(step, "~")
		steps = append(steps, step)
	}
	return steps
}

// unasked returns the steps that run without any mark or retry, whatever the owner decides about its own approvals.
func (w *walk) unasked(dag string) (steps []string) {
	w.Helper()
	for _, verb := range []string{"approve", "reject", ""} {
		run := w.enqueue("owner", dag)
		w.drive()
		const rounds = 4 // a decision may lead to the next approval
		for range rounds {
			granted := false
			for _, step := range slices.Sorted(maps.Keys(w.gates)) { // no other step has an approval
				if verb == "" || w.gates[step] {
					continue // the owner leaves this approval open, or may not decide it
				}
				for _, task := range []any{nil, "a", "b"} {
					for _, name := range []string{step, step + "~1"} {
						granted = w.says("owner", verb+"($1, $2, $3)", run, name, task) == "" || granted
					}
				}
			}
			w.drive()
			if !granted {
				break
			}
		}
		steps = append(steps, w.steps(run)...)
		_ = w.says("admin", "cancel($1, now => true)", run)
	}
	return steps
}

// Whatever the owner of a run asks for, in any order, no step runs behind another user's approval, except steps that run
// there anyway.
func TestSubmitter_WalksPastNoApproval(t *testing.T) {
	t.Parallel()
	w := &walk{office: newOffice(t), Rand: rand.New(rand.NewPCG(7, 7)), asked: map[queue.RunID][]string{}}
	dags := walkDAGs
	if *nightly {
		dags = walkDAGsNight
	}
	for i := range dags {
		name := fmt.Sprintf("walk%d", i)
		source := w.dag(name)
		if _, err := dagspec.Parse("dag.yaml", []byte(source)); err != nil {
			continue // some fields exclude each other
		}
		w.put(source)
		w.failing = oneOf(w, "", "s0", "s2", "s3")
		fine := w.unasked(name)
		var runs []queue.RunID
		for range walkRuns {
			runs = append(runs, w.begin(name))
		}
		w.drive()
		for range walkTurns {
			for _, run := range runs {
				w.asks(run)
				w.asks(run)
			}
			w.drive()
		}
		w.wantTaken()
		for _, run := range runs {
			for _, step := range w.steps(run) {
				if w.behind[step] && !slices.Contains(fine, step) {
					t.Errorf("step %s ran in a run of\n%s, after\n%s", step, source, strings.Join(w.asked[run], "\n"))
				}
			}
			_ = w.says("admin", "cancel($1, now => true)", run)
		}
		w.drive()
	}
}
