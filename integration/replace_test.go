package integration

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A driver is killed while the program of do: ask runs, and again while what it chose runs. The program is asked once more after the
// first loss, and never after the second, although it would choose something else by then.
func TestReplace_AChoiceOutlivesItsDriver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: asks
steps:
  - id: a
    run: echo "no memory" >&2; exit 4
    outputs: [{name: n, type: number}]
    on_error:
      - when: error.stderr_tail == "no memory"
        do: ask
        ask: {run: '. $DIR/lib; see start; hold choice; cat $DIR/choice'}
        with:
          - id: big
            run: exit 1
          - id: small
            env: {N: '${item.n}', WHY: '${error.stderr_tail}, ${error.exit_code}'}
            run: . $DIR/lib; see start; hold go; [ "$WHY" = "no memory, 4" ]; echo "n=$N" >> "$OARLOCK_OUTPUT"
  - {id: b, depends: [a], env: {SUM: '${= sum(steps.a.replacements, .outputs.n)}'}, run: '. $DIR/lib; see "sum-$SUM"'}
`)
	b.worker(t, "w1", anHour...)
	run := b.enqueue(t, "asks", nil)
	b.untilSeen(t, run, "tick a~1#1")
	id, pid := b.driver(t, "w1")
	signal(t, syscall.SIGKILL, pid)
	b.untilSeen(t, run, "tick a~1#2")

	b.write(t, "choice.new", `[{"use": "small", "item": {"n": 3}}, {"use": "small", "item": {"n": 4}}]`)
	if err := os.Rename(filepath.Join(b.dir, "choice.new"), filepath.Join(b.dir, "choice")); err != nil {
		t.Fatal(err)
	}
	b.untilSeen(t, run, "tick a~2#1")
	b.untilSeen(t, run, "tick a~3#1")
	b.write(t, "choice", `[{"use": "big"}]`)
	_, pid = b.driver(t, "w1", id)
	signal(t, syscall.SIGKILL, pid)
	b.untilSeen(t, run, "tick a~2#2")
	b.untilSeen(t, run, "tick a~3#2")
	b.write(t, "go", "")

	want := "succeeded a=replaced a~1=replaced a~2=succeeded a~3=succeeded b=succeeded"
	if got := b.await(t, run); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, run, "start a~1#1", "start a~1#2", "sum-7 b")
	if n := b.seen(t, run, "start a~1"); n != 2 {
		t.Errorf("the program was asked %d times", n)
	}
	b.checkEpochs(t)
}
