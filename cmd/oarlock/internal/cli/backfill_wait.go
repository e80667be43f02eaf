package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// backfillTimesMax is the most times that a backfill can have.
const backfillTimesMax = 100_000

// backfillWatch follows a backfill to its end.
type backfillWatch struct {
	env      *env
	store    *queue.Store
	made     *madeBackfill
	progress progress
	told     string
}

// awaitBackfill follows a backfill to its end and prints the outcome. It fails unless each run of the backfill succeeded.
func (e *env) awaitBackfill(ctx context.Context, store *queue.Store, m *madeBackfill, how waiting) error {
	format := e.settings.Text("output")
	if !isJSON(format) {
		if err := e.say(e.madeAnswer(m)); err != nil {
			return err
		}
	}
	bounded, stop := how.bounded(ctx)
	defer stop()
	w := backfillWatch{env: e, store: store, made: m, progress: how.progress}
	if err := w.follow(bounded); err != nil {
		if ctx.Err() != nil || bounded.Err() == nil {
			return err
		}
		return &failure{
			kind: timedOut, err: fmt.Errorf("backfill %s is not over after %s", runview.InlineText(m.name), dagspec.Duration(how.timeout.Milliseconds())),
			hint: "it goes on: `" + program + " backfill list " + runview.ShellWord(m.of.DAG) + "`",
		}
	}
	key := m.of.Key()
	key.Name = m.name
	fires, err := store.Fires(ctx, key, time.Time{}, backfillTimesMax)
	if err != nil {
		return fmt.Errorf("backfill %s is over, but its times cannot be read: %w", runview.InlineText(m.name), err)
	}
	end := m.end(fires)
	if format != "id" {
		j := m.json()
		j.Ended = &end
		if err := e.say(answer{object: j, text: fmt.Sprintf("%s of %s is over: %s\n", runview.InlineText(m.name), m.of.DAG, end.text())}); err != nil {
			return err
		}
	}
	return m.failure(&end)
}

// follow polls until the backfill is no longer listed: it is over, or was canceled. While the database is away it goes on.
// It fails once the backfill stands still until a person acts: its DAG was removed, or pause_on_failure paused it and no
// run is open.
func (w *backfillWatch) follow(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		found, err := w.store.Schedules(ctx, queue.ScheduleFilter{DAG: w.made.of.DAG, Name: w.made.name})
		i := slices.IndexFunc(found, func(s queue.Schedule) bool { return s.ID == w.made.id })
		switch {
		case err != nil && (ctx.Err() != nil || diagnose(ctx, err).kind != unreachable):
			return err
		case err == nil && i < 0:
			return nil
		case err == nil && found[i].Removed:
			return &failure{
				kind: runCanceled, err: fmt.Errorf("backfill %s stands still: dag %s was removed", runview.InlineText(w.made.name), w.made.of.DAG),
				hint: "it goes on once the DAG is applied again: `" + program + " dag apply FILE`",
			}
		case err == nil && pausedItself(&found[i]) && found[i].Unfinished == 0:
			return w.stopped(&found[i])
		case err == nil && w.progress == progressPlain:
			if err := w.tell(&found[i]); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pausedItself reports whether pause_on_failure paused a schedule. A person that pauses it afterwards takes the pause over.
func pausedItself(s *queue.Schedule) bool { return s.PauseOnFailure > 0 && s.PausedBy == program }

// stopped returns the error that ends the wait if the backfill paused itself.
func (w *backfillWatch) stopped(s *queue.Schedule) error {
	command := "`" + program + " backfill "
	return &failure{
		kind: runFailed, err: fmt.Errorf("backfill %s is paused by %s: %s", runview.InlineText(s.Name), program, runview.InlineText(s.PauseNote)),
		hint: command + "resume " + w.made.words() + "` lets it go on, " + command + "cancel " + w.made.words() + "` ends it",
	}
}

// tell writes a line to standard error for each tenth of the span, and where the backfill is paused or resumed.
func (w *backfillWatch) tell(s *queue.Schedule) error {
	text := runview.GoesOnFrom(s)
	if s.PausedBy != "" {
		text = "is paused by " + runview.InlineText(s.PausedBy)
		if s.PauseNote != "" {
			text += ": " + runview.InlineText(s.PauseNote)
		}
		text += "; `" + program + " backfill resume " + w.made.words() + "` resumes it"
	}
	now := fmt.Sprint(int(toldParts*runview.DecidedShare(s.Backfill)), s.PausedBy)
	if now == w.told {
		return nil
	}
	w.told = now
	_, err := fmt.Fprintf(w.env.Stderr, "%s  %s %s, %s unfinished\n", time.Now().Format(time.TimeOnly), runview.InlineText(s.Name), text, runview.Count(s.Unfinished, "run"))
	if err != nil {
		return fmt.Errorf("write to standard error: %w", err)
	}
	return nil
}

// jsonEnd counts the outcomes of a backfill's times.
type jsonEnd struct {
	Complete   bool `json:"complete"` // false: it was canceled before its last time
	Succeeded  int  `json:"succeeded"`
	Failed     int  `json:"failed"`
	Canceled   int  `json:"canceled"`
	Unfinished int  `json:"unfinished"` // runs that go on after the backfill was canceled
	Skipped    int  `json:"skipped"`
	Refused    int  `json:"refused"`
}

func (m *madeBackfill) end(fires []queue.Fire) (end jsonEnd) {
	for i := range fires {
		f := &fires[i]
		end.Complete = end.Complete || f.LogicalAt.Equal(m.last)
		became := f.Outcome
		if became == "fired" {
			became = f.RunState // "": the run is deleted
		}
		switch became {
		case "":
		case "succeeded":
			end.Succeeded++
		case "failed":
			end.Failed++
		case "canceled":
			end.Canceled++
		case "skipped":
			end.Skipped++
		case "refused":
			end.Refused++
		default:
			end.Unfinished++
		}
	}
	return end
}

// text writes the counts that are not zero: 28 succeeded, 2 failed.
func (j *jsonEnd) text() string {
	var parts []string
	for _, part := range []struct {
		n    int
		word string
	}{
		{j.Succeeded, "succeeded"}, {j.Failed, "failed"}, {j.Canceled, "canceled"}, {j.Unfinished, "unfinished"}, {j.Skipped, "skipped"}, {j.Refused, "refused"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.word))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no time was decided")
}

// failure returns the error with which the command fails because of the backfill's outcome; nil: each run succeeded.
func (m *madeBackfill) failure(end *jsonEnd) error {
	f := failure{hint: "`" + program + " schedules fires " + m.words() + "` lists its times"}
	switch {
	case end.Failed+end.Refused > 0:
		f.kind, f.err = runFailed, fmt.Errorf("backfill %s: %s failed, %s refused", runview.InlineText(m.name), runview.Count(end.Failed, "run"), runview.Count(end.Refused, "time"))
	case !end.Complete:
		f.kind, f.err = runCanceled, fmt.Errorf("backfill %s was canceled", runview.InlineText(m.name))
	case end.Canceled > 0:
		f.kind, f.err = runCanceled, fmt.Errorf("backfill %s: %s canceled", runview.InlineText(m.name), runview.Count(end.Canceled, "run"))
	default:
		return nil
	}
	return &f
}
