package queue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

func TestLogTails_AreThoseOfEachLog(t *testing.T) {
	t.Parallel()
	w, run := interleaved(t)
	tasks := []LogOf{{"a", ""}, {"c", "i"}, {"none", ""}, {"a", ""}}
	for _, item := range found[[]string](t, w.room, "SELECT array_agg(DISTINCT item) FROM oarlock.log_chunks WHERE run_id = $1 AND item <> ''", run) {
		tasks = append(tasks, LogOf{"c", item})
	}
	if len(tasks) < 6 {
		t.Fatalf("%+v", tasks)
	}
	for _, lines := range []int{1, 2, 100} {
		tails, err := w.store.LogTails(t.Context(), run, tasks, lines)
		if err != nil || len(tails) != len(tasks) {
			t.Fatalf("%d of %d, %v", len(tails), len(tasks), err)
		}
		for i, task := range tasks {
			if task.Step == "none" || task.Item == "i" {
				if tails[i].Attempt != 0 || tails[i].Lines != nil {
					t.Errorf("%+v has a log: %+v", task, tails[i])
				}
				continue
			}
			want := window(t, w.store, LogWindowQuery{Run: run, Step: task.Step, Item: task.Item, Lines: lines})
			if got := tails[i]; got.Attempt != want.Attempt || got.Attempt == 0 || got.Begin != want.Begin || got.End != want.End || got.Total != want.Total || got.Final != want.Final {
				t.Errorf("%+v by %d: %+v, want %+v", task, lines, got, want)
			}
			wantLogLines(t, fmt.Sprintf("%+v by %d", task, lines), tails[i].Lines, want.Lines)
		}
	}
	if none, err := w.store.LogTails(t.Context(), run+777, tasks, 1); err != nil || none[0].Attempt != 0 {
		t.Errorf("of a run that is not there: %+v, %v", none, err)
	}
	for lines, logs := range map[int]int{0: 1, MaxWindowLines + 1: 1, 1: MaxLogTails + 1} {
		if _, err := w.store.LogTails(t.Context(), run, make([]LogOf, logs), lines); err == nil {
			t.Errorf("%d lines of %d logs", lines, logs)
		}
	}
}

func TestLogTails_ReadLittleOfLongLogs(t *testing.T) {
	t.Parallel()
	w, claim, log := logging(t)
	w.long(t, log, 16_000, 60)
	w.room.exec(t, "ANALYZE oarlock.log_chunks")
	steps := strings.Split(strings.Repeat("a ", MaxLogTails-1)+"a", " ")
	var p *pgtest.Plan
	for range 2 { // catalogs are read once
		var text []byte
		if err := w.room.conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+logTailsSQL, pgx.StrictNamedArgs{
			"run": claim.Run, "steps": steps, "items": make([]string, len(steps)), "most": 20, "bytes": tailBytes,
		}).Scan(&text); err != nil {
			t.Fatal(err)
		}
		p = pgtest.Explained(t, text)
	}
	t.Logf("%v rows, %d buffers", p.Rows, p.Buffers())
	if p.Rows == 0 || p.Buffers() > MaxLogTails*100 {
		t.Errorf("%v rows, %d buffers", p.Rows, p.Buffers())
	}
}
