package runview

import (
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestEnqueueCommand_IsWhatPeopleType(t *testing.T) {
	t.Parallel()
	r := &queue.Request{DAG: "etl"}
	got := EnqueueCommand(r, nil) + "\n" + EnqueueStatement(r)
	*r = queue.Request{
		DAG: "etl", Key: "it's", RunAt: time.Date(2026, 11, 20, 6, 0, 0, 0, time.FixedZone("", 3600)), Priority: new(-5), Queue: "big", Labels: map[string]string{"team": "a b"},
		Params: map[string]any{"day": "o'clock", "n": int64(7)},
	}
	got += "\n" + EnqueueCommand(r, map[string]string{"n": "7", "day": "o'clock"}) + "\n" + EnqueueStatement(r)
	got += "\n" + RerunCommand(41, nil, false) + RerunCommand(41, map[string]string{"n": "7"}, true) + "\n" + RerunStatement(41, nil, false) + "\n" + RerunStatement(41, map[string]any{"n": 7}, true)
	// sql-shown: what a page offers to copy
	want := `oarlock enqueue etl
SELECT oarlock.enqueue('etl');
oarlock enqueue etl -p 'day=o'\''clock' -p n=7 --key 'it'\''s' --at 2026-11-20T05:00:00Z --priority -5 --queue big -l 'team=a b'
SELECT oarlock.enqueue('etl', '{"day":"o''clock","n":7}', run_key => 'it''s', run_at => '2026-11-20T05:00:00Z', priority => -5, queue => 'big', labels => '{"team":"a b"}');
oarlock retry 41 --latest -p n=7
SELECT oarlock.rerun(41);
SELECT oarlock.rerun(41, '{"n":7}', latest => true);`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A text reaches the other side unchanged, even with bytes that cannot be printed.
func TestExactWord_KeepsEveryByte(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "it's \\ $HOME `id`", "two\nlines\ttab", "\u202e\x1b[2J'\\", "\xff\u00a0é😀"} {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+exactWord(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q became %q by %s: %v", text, out, exactWord(text), err)
		}
	}
}
