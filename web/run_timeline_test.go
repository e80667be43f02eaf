package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/draw"
)

// spansOf writes when each bar of a row begins and ends, in seconds after a moment.
func spansOf(bars []draw.Bar, begin time.Time) string {
	var all []string
	for _, b := range bars {
		all = append(all, fmt.Sprintf("%g-%g", b.From.Sub(begin).Seconds(), b.To.Sub(begin).Seconds()))
	}
	return strings.Join(all, " ")
}

func TestTimeline_LastBarIsLastAttempt(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	p := &runPage{Now: at(30)}
	for name, c := range map[string]struct {
		attemptAt int
		ended     time.Time
		want      string
	}{
		"after the back-off":  {10, at(12), "0-2 10-12"},
		"under way":           {10, time.Time{}, "0-2 10-30"},
		"it waits to go on":   {0, time.Time{}, "0-2 2-30"},
		"without an interval": {2, at(5), "0-2 2-5"},
	} {
		step := queue.StepSummary{Task: queue.Task{AttemptAt: at(c.attemptAt)}, Tries: []queue.Attempt{{Attempt: 1, State: "failed", StartedAt: at(0), FinishedAt: at(2)}}}
		step.State, step.StartedAt, step.FinishedAt = "running", at(0), c.ended
		row := p.row(&step, nil)
		if got := spansOf(row.Bars, begin); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if gap := row.Gaps[0]; !gap.To.Equal(row.Bars[1].From) {
			t.Errorf("%s: the gap ends at %v", name, gap.To)
		}
	}
}

// A foreach step that took ten seconds of an hour has bars for these seconds, and the last bar ends with the step.
func TestTimeline_BandsAreOfTheStepsTime(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	b.put(t, galleryDAG)
	run := b.enqueue(t, queue.Request{DAG: "gallery"})
	begin := time.Now().Truncate(time.Second).Add(-30 * time.Minute)
	b.exec(t, "UPDATE oarlock.runs SET state = 'succeeded', started_at = $2::timestamptz - interval '30 min', finished_at = now(), queue_deadline = NULL WHERE run_id = $1", run, begin)
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, epoch, seq, started_at, finished_at, grown)
		SELECT $1, 1, CASE WHEN i > 0 THEN i::text ELSE '' END, 'succeeded', 1, 1, 1, i, $2::timestamptz + i * interval '1 s', $2::timestamptz + interval '11 s',
		       CASE WHEN i = 0 THEN '{"generation": 1, "items": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}'::jsonb END
		  FROM generate_series(0, 10) i`, run, begin)
	p, err := b.server.readSteps(t.Context(), runQuery{ID: run})
	if err != nil {
		t.Fatal(err)
	}
	bands, err := b.server.readBands(t.Context(), p, p.urgent())
	if err != nil || len(bands) != 1 {
		t.Fatal(bands, err)
	}
	all := bands["resize"]
	if from, to := all[0].From.Sub(begin), all[len(all)-1].To.Sub(begin); len(all) != maxBuckets || from != time.Second || to != 11*time.Second {
		t.Errorf("%d bands from %v to %v", len(all), from, to)
	}
	bars := p.row(p.summary("resize"), all).Bars
	if last := bars[len(bars)-1]; !last.To.Equal(begin.Add(11*time.Second)) || !strings.HasPrefix(spansOf(bars, begin), "1-") {
		t.Errorf("%s", spansOf(bars, begin))
	}
	if i := slices.IndexFunc(bars, func(b draw.Bar) bool { return b.Class == "b-good" }); i != len(bars)-1 {
		t.Errorf("all ended in the last band, but bar %d of %d says so", i, len(bars))
	}
}

// A zoom to a step without a row shows the timeline of the whole run.
func TestTimeline_ZoomsToShownStepsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	run := b.broad(t)
	page := b.page(t, fmt.Sprintf("/runs/%d?zoom=b298", run), http.StatusOK)
	if strings.Contains(page, "Whole run") || !strings.Contains(page, "400 more steps") {
		t.Error(plainText(page))
	}
	wantTexts(t, b.page(t, fmt.Sprintf("/runs/%d?zoom=a0", run), http.StatusOK), "Whole run")
}
