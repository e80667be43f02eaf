package integration

import (
	"strings"
	"syscall"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

func TestWorker_RunsAGraphOfCommands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: hello
params: [{name: who, default: world}]
steps:
  - {id: a, run: 'echo "hello $PARAM_WHO"; echo "n=42" > $OARLOCK_OUTPUT', outputs: [{name: n, type: number}]}
  - {id: b, depends: [a], run: 'echo "got $N"', env: {N: '${steps.a.outputs.n}'}}
  - {id: c, depends: [b], run: 'exit 3', continue_on: failed}
`)
	b.worker(t, "w1")
	run := b.enqueue(t, "hello", nil)
	if got, want := b.await(t, run), "succeeded a=succeeded b=succeeded c=failed"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWorker_IsToldToStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.worker(t, "w1")
	until(t, "the worker is live", func() bool { return b.live(t) == "w1" })
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := w.exit(t); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if live := b.live(t); live != "" {
		t.Errorf("%s is still registered", live)
	}
}

// A database that refuses a worker is no reason to try for ever: it says what to do, and ends.
func TestWorker_NeedsASchema(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("wants a database")
	}
	b := &bench{db: pgtest.Empty(t), dir: t.TempDir()}
	b.url = b.db.URL
	w := b.worker(t, "w1")
	if code := w.exit(t); code != 5 {
		t.Errorf("it ended with %d, want 5", code)
	}
	if said := w.said.String(); !strings.Contains(said, "oarlock migrate up") {
		t.Errorf("it said %s, not what to do", said)
	}
}
