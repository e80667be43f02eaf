package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// asking returns a record that an approval waits, or that it waits no more.
func asking(step int, seq int64, open bool) dagrun.TaskRecord {
	t := taskAt(step, seq, dagrun.TaskSucceeded)
	if open {
		t = taskAt(step, seq, dagrun.TaskWaiting)
	}
	t.Asks = &dagrun.Asks{Open: open}
	if open {
		t.Asks.Prompt, t.Asks.Approvers = "Well?", []string{"boss", `le"ad`}
		t.Asks.Inputs = `[{"name": "why", "type": "string", "required": true}]`
	}
	return t
}

// questions lists the open approvals: run step prompt inputs approvers.
func (y *journalBundle) questions() []string {
	y.tb.Helper()
	return y.list("SELECT concat_ws(' ', step, prompt, inputs, approvers::text) FROM oarlock.approvals_open ORDER BY run_id, step")
}

func TestCommit_AQuestionIsOpenFromItsRecordToTheNext(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	y.must(y.commit(t.Context(), batch(c, asking(0, 1, true), asking(1, 2, false))))
	want := []string{`0 Well? [{"name": "why", "type": "string", "required": true}] {boss,"le\"ad"}`}
	if got := y.questions(); !slices.Equal(got, want) {
		t.Errorf("open %q, not %q", got, want)
	}
	again := asking(0, 3, true)
	again.Asks.Prompt, again.Asks.Approvers, again.Asks.Inputs = "Now?", nil, ""
	y.must(y.commit(t.Context(), batch(c, again)))
	if got := y.questions(); !slices.Equal(got, []string{"0 Now? []"}) {
		t.Errorf("asked again, open %q", got)
	}
	y.must(y.commit(t.Context(), batch(c, asking(0, 4, false))))
	if got := y.questions(); len(got) > 0 {
		t.Errorf("decided, open %q", got)
	}
}

func TestCommit_AQuestionNeedsTheClaim(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	opens, closes := y.claim(), y.claim()
	y.must(y.commit(t.Context(), batch(closes, asking(0, 1, true))))
	before := y.questions()
	y.exec("UPDATE oarlock.runs SET claim_id = gen_random_uuid()")
	for _, b := range []*Batch{batch(opens, asking(0, 1, true)), batch(closes, asking(0, 2, false))} {
		if err := y.commit(t.Context(), b); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("got %v, want %v", err, ErrLeaseLost)
		}
	}
	if got := y.questions(); !slices.Equal(got, before) {
		t.Errorf("without a claim %q became %q", before, got)
	}
}

// Parts that few flushes need cost the other flushes nothing, because they are sent without these parts.
func TestFlush_IsSentWithoutTheQuestionsThatItHasNot(t *testing.T) {
	t.Parallel()
	y := newJournalBundle(t)
	c := y.claim()
	for _, tt := range []struct {
		batch *Batch
		text  *flushText
	}{
		{batch(c, taskAt(0, 1, dagrun.TaskRunning)), tasksFlush},
		{parking(c, taskAt(0, 1, dagrun.TaskWaiting)), runsFlush},
		{&Batch{Claim: c, Records: dagrun.Records{Notes: []dagrun.Note{{Kind: "x"}}}}, otherFlush},
		{batch(c, asking(0, 1, true)), wholeFlush},
	} {
		f := newFlush(y.journal)
		f.fill([]*flushPart{newPendingCommit(tt.batch, y.journal.held.of(c)).whole()})
		if f.text != tt.text || tt.text != wholeFlush && strings.Contains(f.text.sql, "approvals_open") {
			t.Errorf("%+v is sent as %s", tt.batch.Records, f.text.name)
		}
	}
}
