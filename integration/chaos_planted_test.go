package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/chaos/report"
	"github.com/oarlock-dev/oarlock/integration/chaos/traffic"
	"github.com/oarlock-dev/oarlock/internal/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// family is a run that waits for another one, and has logged something.
const family = `
name: family
steps:
  - {id: ask, action: dag.run, with: {dag: child}}
  - {id: say, run: 'true'}
`

// planted is what came of a seed in which nothing went wrong: run 1 asked for run 2 and logged two pieces, which somebody
// followed to the end.
func planted(t *testing.T) *judge {
	t.Helper()
	db := pgtest.New(t)
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	b := &bench{Store: store, db: db, dir: t.TempDir()}
	b.put(t, "name: child\nsteps: [{id: a, action: noop}]\n")
	b.put(t, family)
	if err := script(t.Context(), db.URL, "audit"); err != nil {
		t.Fatal(err)
	}
	parent, child := b.enqueue(t, "family", nil), b.enqueue(t, "child", nil)
	j := &judge{
		arena: &arena{bench: b, asked: newAnswers(), lost: loss{over: make(chan struct{})}},
		t:     t, ctx: t.Context(), conn: db.Conn(t), plan: &traffic.Plan{}, res: &report.Result{},
	}
	for _, statement := range []string{
		"UPDATE oarlock.runs SET parent_run = 1, parent_step = 0, parent_item = '', parent_alt = 0 WHERE run_id = 2",
		"INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq) VALUES (1, 0, 'waiting', 1, 1, 0, 1), (1, 1, 'running', 2, 1, 0, 2)",
		"INSERT INTO oarlock.attempts (run_id, step, item, alt, attempt, generation, state) VALUES (1, 1, '', 0, 1, 1, 'failed')",
		`INSERT INTO oarlock.log_chunks (log_day, run_id, step, item, alt, attempt, seq, stream, at, data)
			SELECT current_date, 1, 1, '', 0, 2, n, 1, now(), 'ab' FROM generate_series(0, 1) n`,
		"INSERT INTO oarlock.events (run_id, kind, message) VALUES (1, 'test', 'a test')",
	} {
		j.plant(statement)
	}
	if parent != 1 || child != 2 {
		t.Fatalf("runs %d and %d, want 1 and 2", parent, child)
	}
	j.asked.note(parent)
	chunk := func(seq int) queue.Chunk {
		return queue.Chunk{Task: dagrun.TaskID{Step: 1}, Attempt: 2, Seq: seq, Data: []byte("ab")}
	}
	j.asked.tails = []*tail{{run: 1, ended: true, chunks: map[logOf][]queue.Chunk{{1, "", 0, 2}: {chunk(0), chunk(1)}}}}
	return j
}

func (j *judge) plant(statement string) {
	j.t.Helper()
	if _, err := j.conn.Exec(j.ctx, statement); err != nil {
		j.t.Fatalf("%s: %v", statement, err)
	}
}

// What a fault run must not overlook, planted by hand.
func TestJudge_FindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("wants a database")
	}
	sql := func(statement string) func(*judge) { return func(j *judge) { j.plant(statement) } }
	for name, test := range map[string]struct {
		plant func(*judge)
		want  []string
	}{
		"nothing":                       {func(*judge) {}, nil},
		"a run is gone":                 {func(j *judge) { j.asked.note(3) }, []string{"S6: run 3 was accepted"}},
		"a task is deleted":             {sql("DELETE FROM oarlock.tasks WHERE step = 1"), []string{"S2: run 1: delete of tasks"}},
		"an attempt is rewritten":       {sql("UPDATE oarlock.attempts SET state = 'succeeded'"), []string{"S2: run 1: update of attempts"}},
		"an event is rewritten":         {sql("UPDATE oarlock.events SET message = '' WHERE kind = 'test'"), []string{"S2: run 1: update of events"}},
		"a piece of a log is rewritten": {sql("UPDATE oarlock.log_chunks SET data = 'xy' WHERE seq = 1"), []string{"S2: run 1: update of log_chunks", "G4: run 1"}},
		"a second child": {sql("INSERT INTO oarlock.runs (run_id, dag_id, version, lane_id, state, params, run_at, logical_at, trigger, root_id, submitted_by, parent_run, parent_step, parent_item, parent_alt) " +
			"OVERRIDING SYSTEM VALUE SELECT 9, dag_id, version, lane_id, state, params, run_at, logical_at, trigger, 9, submitted_by, parent_run, parent_step, parent_item, parent_alt FROM oarlock.runs WHERE run_id = 2"), []string{"A1: run 1: ask has 2 children"}},
		"success without a child's":    {sql("UPDATE oarlock.tasks SET state = 'succeeded', finished_at = now() WHERE step = 0"), []string{"A1: run 1: ask has 1 children, 0 of them succeeded"}},
		"a follower missed the end":    {func(j *judge) { f := j.asked.tails[0]; at := logOf{1, "", 0, 2}; f.chunks[at] = f.chunks[at][:1] }, []string{"G4: run 1"}},
		"a follower missed an attempt": {func(j *judge) { clear(j.asked.tails[0].chunks) }, []string{"G4: run 1"}},
		"a follower heard too much":    {func(j *judge) { f := j.asked.tails[0]; f.chunks[logOf{0, "", 0, 1}] = f.chunks[logOf{1, "", 0, 2}] }, []string{"G4: run 1"}},
		"a follower was cut off":       {func(j *judge) { f := j.asked.tails[0]; f.ended = false; clear(f.chunks) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := planted(t)
			test.plant(j)
			j.runs = j.readRuns()
			j.kept()
			j.tails()
			var got []string
			for i, what := range j.res.Violations {
				if i < len(test.want) && strings.HasPrefix(what, test.want[i]) {
					what = test.want[i]
				}
				got = append(got, what)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("violations (- want, + got)\n%s", diff)
			}
		})
	}
}
