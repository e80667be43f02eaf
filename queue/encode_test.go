package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func (y *journalBundle) load(c *Claim) *Loaded {
	y.tb.Helper()
	if y.reads == nil {
		y.reads = newDedicatedConn(y.journal.conn.config)
		y.tb.Cleanup(func() { _ = y.reads.close(context.Background()) })
	}
	s := &Session{reads: y.reads}
	loaded, err := s.Load(y.tb.Context(), []*Claim{c})
	if err != nil {
		y.tb.Fatal(err)
	}
	return loaded[0]
}

// anyTask draws a record in which every field may be anything that a row can hold.
func anyTask(r *rapid.T, step int) dagrun.TaskRecord {
	text := rapid.SampledFrom([]string{"", "plain", "two\nlines", `"quotes" \ <&>`, "ünïcødé ✓"})
	number := rapid.SampledFrom([]int{0, 1, 2, 7, 1<<31 - 1})
	at := rapid.SampledFrom([]dagrun.Time{0, 1, -1, 999, 946_684_800_000, 1_795_305_600_123, 253_402_300_799_999, -62_135_596_800_000})
	t := dagrun.TaskRecord{
		ID:  dagrun.TaskID{Step: step, Item: text.Draw(r, "item"), Alt: rapid.IntRange(0, 10).Draw(r, "alt")},
		Seq: int64(step) + 1, Generation: number.Draw(r, "generation"), State: dagrun.State(rapid.IntRange(0, 12).Draw(r, "state")),
		Attempt: number.Draw(r, "attempt"), Reason: text.Draw(r, "reason"), Kind: dagrun.FailureKind(text.Draw(r, "kind")),
		HasExit: rapid.Bool().Draw(r, "has exit"), Signal: number.Draw(r, "signal"),
		Outputs:   dagrun.JSON(rapid.SampledFrom([]string{"", "{}", `{"a":1.50,"b":["x",null,{"c":"<"}]}`, `{"n":12345678901234567890123}`}).Draw(r, "outputs")),
		Tolerated: rapid.Bool().Draw(r, "tolerated"), Retries: number.Draw(r, "retries"), PublishTries: number.Draw(r, "publish tries"),
		Publishing: rapid.Bool().Draw(r, "publishing"), Request: dagrun.Request(rapid.IntRange(0, 4).Draw(r, "request")),
		RequestBy: text.Draw(r, "by"), Marked: rapid.SampledFrom([]dagrun.State{0, dagrun.TaskSucceeded, dagrun.TaskFailed, dagrun.TaskSkipped}).Draw(r, "marked"),
		NextAt: at.Draw(r, "next"), Deadline: at.Draw(r, "deadline"), Ref: text.Draw(r, "ref"), CacheKey: text.Draw(r, "key"),
		StartedAt: at.Draw(r, "started"), AttemptAt: at.Draw(r, "attempted"), FinishedAt: at.Draw(r, "finished"),
	}
	if t.HasExit {
		t.ExitCode = rapid.IntRange(-1, 255).Draw(r, "exit")
	}
	if rapid.Bool().Draw(r, "grew") {
		t.Growth = anyGrowth(r, text)
	}
	return t
}

func anyGrowth(r *rapid.T, text *rapid.Generator[string]) *dagrun.Growth {
	g := &dagrun.Growth{Generation: rapid.IntRange(0, 3).Draw(r, "grew in"), Rule: rapid.IntRange(0, 3).Draw(r, "rule"), FirstAlt: rapid.IntRange(0, 10).Draw(r, "first"), Count: rapid.IntRange(0, 10).Draw(r, "count"), Stderr: text.Draw(r, "stderr")}
	for i := range rapid.IntRange(0, 3).Draw(r, "items") {
		g.Items = append(g.Items, dagrun.Item{Key: fmt.Sprint(i, text.Draw(r, "item key")), Value: `{"b": 1,  "a": "\u0000"}`})
	}
	for i := range rapid.IntRange(0, 3).Draw(r, "choices") {
		g.Choices = append(g.Choices, dagrun.Choice{With: i, Value: dagrun.JSON(text.Draw(r, "chosen"))})
	}
	return g
}

func TestCommit_EveryFieldOfATaskIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	rapid.Check(t, func(r *rapid.T) {
		c := y.claim()
		var want []dagrun.TaskRecord
		for step := range 20 {
			want = append(want, anyTask(r, step))
		}
		y.must(y.commit(t.Context(), batch(c, want...)))
		if diff := cmp.Diff(want, y.load(c).Saved.Tasks); diff != "" {
			r.Fatal(diff)
		}
	})
}

func TestCommit_EveryFieldOfARunIsStored(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	b := batch(c)
	b.Records.Run = &dagrun.RunRecord{
		State: dagrun.RunPaused, Reason: "reason", Generation: 1, Ending: dagrun.EndingCancel, EndingBy: "ana", EndingText: "text", PausedBy: "bob",
		StartedAt: 1001, Deadline: 2002, Left: 3003, Tolerated: 4, Counts: dagrun.Counts{Total: 3, Open: 1, Canceled: 2},
	}
	y.must(y.commit(t.Context(), b))
	got := get[string](y, `SELECT concat_ws('|', state, reason, ending, ending_by, ending_text, paused_by, extract(epoch FROM started_at) * 1000,
		extract(epoch FROM deadline) * 1000, left_ms, tolerated, counts ->> 'canceled') FROM oarlock.runs`)
	if want := "paused|reason|cancel|ana|text|bob|1001.000000|2002.000000|3003|4|2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCommit_AttemptsNotesDecisionsAndChunksAreStored(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	control := get[int64](y, "SELECT id FROM oarlock.pause($1)", c.Run)
	task := dagrun.TaskID{Step: 1, Item: "i", Alt: 2}
	b := batch(c)
	b.Records.Attempts = []dagrun.AttemptRecord{{
		ID: task, Attempt: 3, Generation: 4, State: dagrun.TaskFailed, Kind: dagrun.KindExit, ExitCode: 0, HasExit: true, Signal: 9,
		Reason: "why", StartedAt: 86_400_001, FinishedAt: 86_400_002,
	}}
	b.Records.Controls = []dagrun.Decision{{ID: control, Outcome: dagrun.Refused, State: "running", Message: "no"}}
	b.Records.Notes = []dagrun.Note{{At: 5, Kind: "skip", Task: &task, Text: "x"}, {At: 6, Kind: "lost", Text: "y"}}
	b.Chunks = []Chunk{{Run: c.Run, Task: task, Attempt: 3, Day: LogDay(86_400_001), Seq: 7, Stream: StreamStderr, At: time.UnixMicro(1_000_001), Data: []byte{0, 255}, Final: true, Reason: "exit", Dropped: 8, Lines: 9}}
	b.Details = []Detail{{Task: task, Slot: 1, LastLine: "last"}}
	y.must(y.commit(t.Context(), b))
	for query, want := range map[string][]string{
		`SELECT concat_ws('|', step, item, alt, attempt, generation, state, failure_kind, exit_code, signal, reason, worker, log_day, extract(epoch FROM started_at) * 1000) FROM oarlock.attempts`: {"1|i|2|3|4|failed|exit|0|9|why|w1|1970-01-02|86400001.000000"},
		`SELECT concat_ws('|', outcome, state, message, decided_at IS NOT NULL) FROM oarlock.controls`:                                                                                              {"refused|running|no|t"},
		`SELECT concat_ws('|', kind, extract(epoch FROM at) * 1000, worker, epoch, seq, step, item, alt, message) FROM oarlock.events ORDER BY seq`:                                                 {"skip|5.000000|w1|1|0|1|i|2|x", "lost|6.000000|w1|1|1|y"},
		`SELECT concat_ws('|', log_day, step, item, alt, attempt, seq, stream, extract(epoch FROM at), data, final, reason, dropped_bytes, lines) FROM oarlock.log_chunks`:                          {`1970-01-02|1|i|2|3|7|2|1.000001|\x00ff|t|exit|8|9`},
	} {
		if got := y.list(query); !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %v\nwant %v", query, got, want)
		}
	}
}

func TestCommit_KeepsWhatBelongsToTheAttempt(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	b := batch(c, taskAt(0, 1, dagrun.TaskRunning))
	b.Details = []Detail{{Task: dagrun.TaskID{Step: 0}, Slot: 3, LastLine: "line"}}
	y.must(y.commit(t.Context(), b))
	y.exec(`UPDATE oarlock.tasks SET worker = 'before', settled = '{"attempt": 1}'`)
	same := taskAt(0, 2, dagrun.TaskRunning)
	same.AttemptAt = 5 * dayMillis
	y.must(y.commit(t.Context(), batch(c, same)))
	next := taskAt(0, 3, dagrun.TaskRunning)
	next.Attempt, next.AttemptAt = 2, 5*dayMillis
	kept := "SELECT concat_ws('|', worker, slot, last_line, log_day, settled) FROM oarlock.tasks"
	if got, want := get[string](y, kept), `before|3|line|1970-01-01|{"attempt": 1}`; got != want {
		t.Errorf("the same attempt: %s, want %s", got, want)
	}
	superseded := batch(c, next)
	superseded.Records.Attempts = []dagrun.AttemptRecord{{ID: next.ID, Attempt: 1, Generation: 1, State: dagrun.TaskFailed, StartedAt: 1}}
	y.must(y.commit(t.Context(), superseded))
	if got, want := get[string](y, kept), `w1|3|line|1970-01-06`; got != want {
		t.Errorf("the next attempt: %s, want %s", got, want)
	}
	if got := get[string](y, "SELECT worker FROM oarlock.attempts"); got != "before" {
		t.Errorf("the superseded attempt ran on %s", got)
	}
}
