package queue

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// The server refuses a row with a missing field or a field of another type, each time the flush is tried.
func TestFlush_WritesTheFieldsOfItsTypes(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	b := full(c, 1)
	kept := &b.Records.Tasks[0]
	kept.State, kept.CacheKey, kept.Asks = dagrun.TaskSucceeded, "k", &dagrun.Asks{Open: true}
	b.Chunks = []Chunk{{Run: c.Run}}
	b.Keeps = []Keep{{Task: kept.ID}}
	f := newFlush(y.journal)
	whole := newPendingCommit(b, y.held.of(c)).whole()
	f.fill([]*flushPart{whole})
	f.addRun(2, whole)
	f.addClaim(3, c)
	for i, typ := range []string{"run", "claim", "task", "attempt", "decision", "note", "chunk", "keep", "approval"} { // as groups has them
		want := y.list("SELECT atttypid::text FROM pg_attribute WHERE attrelid = ('oarlock.flush_' || $1)::regclass AND attnum > 0 ORDER BY attnum", typ)
		rows := f.groups()[i]
		if rows.count == 0 {
			t.Errorf("flush_%s: no row", typ)
			continue
		}
		rows.endRow()
		if got := fieldTypes(rows.buf[arrayHeaderBytes:]); rows.columns != len(want) || !slices.Equal(got, want) {
			t.Errorf("flush_%s: a row says that it has %d fields, and has %v; want %d, %v", typ, rows.columns, got, len(want), want)
		}
	}
}

// fieldTypes returns the types of the fields in the first of some encoded rows.
func fieldTypes(rows []byte) (types []string) {
	for row := rows[8 : 4+binary.BigEndian.Uint32(rows)]; len(row) > 0; {
		types = append(types, strconv.FormatUint(uint64(binary.BigEndian.Uint32(row)), 10))
		size := max(0, int32(binary.BigEndian.Uint32(row[4:]))) // -1: null
		row = row[8+size:]
	}
	return types
}

// explained returns the plan of a flush of these parts, executed with ANALYZE.
func (y *journalBundle) explained(conn *pgx.Conn, options string, parts ...*flushPart) *pgtest.Plan {
	y.tb.Helper()
	ctx := context.Background()
	y.must(y.journal.prepare(ctx, conn))
	y.flush.fill(parts)
	text := y.flush.text
	name := "explain_" + options[:4] + text.name
	must(conn.PgConn().Prepare(ctx, name, "EXPLAIN ("+options+", FORMAT JSON) "+text.sql, nil))
	defer func() { y.must(conn.PgConn().Deallocate(ctx, name)) }()
	result := conn.PgConn().ExecPrepared(ctx, name, y.flush.params, y.flush.formats, []int16{0}).Read()
	y.must(result.Err)
	return pgtest.Explained(y.tb, result.Rows[0][0])
}

// own returns a connection with the settings of a journal's.
func (y *journalBundle) own() *pgx.Conn {
	y.tb.Helper()
	conn, err := pgx.ConnectConfig(y.tb.Context(), y.journal.conn.config)
	y.must(err)
	y.tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// full returns a batch with a row for every table.
func full(c *Claim, seq int64) *Batch {
	b := batch(c, taskAt(0, seq, dagrun.TaskRunning), taskAt(1, seq+1, dagrun.TaskRunning))
	b.Records.Run = &dagrun.RunRecord{State: dagrun.RunRunning}
	b.Records.Attempts = []dagrun.AttemptRecord{{ID: dagrun.TaskID{Step: 0}, Attempt: int(seq)}}
	b.Records.Controls = []dagrun.Decision{{ID: seq, Outcome: dagrun.Applied}}
	b.Records.Notes = []dagrun.Note{{At: 1, Kind: "skip"}}
	return b
}

// A flush leaves out the parts of its statement that it has no rows for, and reaches existing rows by their keys.
func TestFlush_ReachesWhatItNeedsByItsKey(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	over := func(c *Claim, seq int64) *Batch {
		b := batch(c, taskAt(0, seq, dagrun.TaskSucceeded))
		b.Result = &dagrun.Verdict{State: dagrun.RunSucceeded}
		return b
	}
	drained := func(c *Claim, _ int64) *Batch { return &Batch{Claim: c, Leave: &dagrun.Leave{Drained: true}} }
	records := func(c *Claim, seq int64) *Batch { return batch(c, taskAt(0, seq, dagrun.TaskRunning)) }
	tasks := []string{"fences fences_pkey", "followers followers_pkey", "runs runs_pkey"}
	whole := []string{"controls controls_open", "fences fences_pkey", "followers followers_pkey", "runs runs_parent", "runs runs_pkey", "tasks tasks_pkey"}
	flushes := []struct {
		batch func(*Claim, int64) *Batch
		text  *flushText
		reads []string
	}{{records, tasksFlush, tasks}, {over, runsFlush, tasks}, {full, otherFlush, whole}, {drained, otherFlush, whole}}
	many := 20_000
	if *nightly {
		many = 200_000
	}
	for _, runs := range []int{1_000, many} {
		y.exec(`INSERT INTO oarlock.runs (dag_id, version, lane_id, run_at, ready_at, logical_at, trigger, root_id, submitted_by)
			SELECT 1, 1, 1, now(), now(), now(), 'sql', 1, 'test' FROM generate_series(1, $1::int)`, runs)
		y.exec(`INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq)
			SELECT r.run_id, s, 'pending', 0, 1, 0, 0 FROM oarlock.runs r, generate_series(0, 0) s ON CONFLICT DO NOTHING`)
		y.exec("ANALYZE oarlock.runs, oarlock.tasks")
		c := y.claim()
		for _, f := range flushes {
			plan := y.explained(y.own(), "COSTS off", newPendingCommit(f.batch(c, 1), y.held.of(c)).whole())
			if y.flush.text != f.text {
				t.Errorf("it was sent as %s, want %s", y.flush.text.name, f.text.name)
			}
			if got := y.looked(plan); !slices.Equal(got, f.reads) {
				t.Errorf("%d runs: %s reads %v, want %v", runs, f.text.name, got, f.reads)
			}
		}
	}
}

// looked lists the tables in which a plan looks something up, each with the index that it uses.
func (y *journalBundle) looked(plan *pgtest.Plan) []string {
	var reads []string
	plan.Walk(func(n *pgtest.Plan) {
		switch {
		case n.Relation == "" || n.Node == "ModifyTable":
		case n.Index == "":
			y.tb.Errorf("%s of %s", n.Node, n.Relation)
		default:
			reads = append(reads, n.Relation+" "+n.Index)
		}
	})
	slices.Sort(reads)
	return slices.Compact(reads)
}

// flushesEnv makes TestFlush_CostsTheSame do more flushes.
const flushesEnv = "OARLOCK_TEST_FLUSHES"

func TestFlush_CostsTheSameUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	flushes := 2_000
	if n, err := strconv.Atoi(os.Getenv(flushesEnv)); err == nil {
		flushes = n
	}
	y := newJournalBundle(t)
	reader := y.begin()
	y.in(reader, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	y.in(reader, "SELECT count(*) FROM oarlock.runs") // from now on no row version is ever cleaned up
	cost := func() int {
		c := y.claim()
		b := batch(c, taskAt(0, 1, dagrun.TaskRunning))
		conn := y.own()
		var plan *pgtest.Plan
		for range 3 { // the first on a connection also reads the catalogue
			plan = y.explained(conn, "ANALYZE, BUFFERS, COSTS off, TIMING off", newPendingCommit(b, y.held.of(c)).whole())
			b.Records.Tasks[0].ID.Step++
		}
		total := 0 // what is below a part counts again there, which is as good a measure
		plan.Walk(func(n *pgtest.Plan) { total += n.Buffers() })
		return total
	}
	before := cost()
	c := y.claim()
	for i := range flushes { // a task's row is written as often as its state changes, however long its run is
		y.must(y.commit(t.Context(), batch(c, taskAt(i/2, int64(i+1), []dagrun.State{dagrun.TaskRunning, dagrun.TaskSucceeded}[i%2]))))
	}
	after := cost()
	t.Logf("%d buffers before, %d after %d flushes", before, after, flushes)
	if after > before+5 {
		t.Errorf("%d buffers before, %d after %d flushes", before, after, flushes)
	}
	if got := get[int](y, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'fences'"); got != 0 {
		t.Errorf("fences were updated %d times", got)
	}
}
