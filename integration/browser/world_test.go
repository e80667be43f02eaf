package browser

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
	"github.com/oarlock-dev/oarlock/worker/exec"
)

// hostileJSON holds texts that would run, load, or break out of something if a page took them for more than text. An
// element that one of them makes has the attribute data-xss.
//
//go:embed testdata/hostile.json
var hostileJSON []byte

const (
	worldSlots = 32
	manyItems  = 1000
	feeds      = 3
	worldDay   = "2026-11-22"
)

// world is what the scripts of tools/browser find in the database.
type world struct {
	Nightly   queue.RunID // rollup failed, 20 exports ended and 4 go on, confirm waits for approval
	Succeeded queue.RunID
	Queued    queue.RunID // no worker has the labels it needs
	Waiting   queue.RunID
	Paused    queue.RunID
	Canceled  queue.RunID
	Decided   queue.RunID // waits like Waiting, for the script that decides it
	Scheduled queue.RunID
	Many      queue.RunID // a foreach of 1,000 items
	Hostile   queue.RunID // has each text of hostile.json in each place that takes texts
	Texts     []string    // of hostile.json
	All       bool        // scripts check every part of a page
	States    map[string]queue.RunID
	Feeds     []feedRun // one for each script that needs one
	Control   string    // address of site.control
	Pictures  string    // the folder for pictures
	Person    string    // the name of the user below /signed
	Word      string    // the password of that user
}

// feedRun is a run that goes on, and writes what a script writes to its pipe.
type feedRun struct {
	Run  queue.RunID
	Pipe string
}

// town is a database with a world in it, and the worker that made it.
type town struct {
	*queue.Store
	url  string
	live func() // ends the worker of feeds
}

// populate makes the world, and returns once nothing in it moves.
func populate(t *testing.T) (*town, world) {
	t.Helper()
	db := pgtest.New(t)
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	s := &town{Store: store, url: db.URL}
	var w world
	if err := json.Unmarshal(hostileJSON, &w.Texts); err != nil {
		t.Fatal(err)
	}
	s.putAll(t)
	s.setPools(t)
	if _, err := s.start(t, map[string]string{"room": "<i data-xss>"}); err != nil {
		t.Fatal(err)
	}
	for range feeds {
		pipe := heldGate(t)
		w.Feeds = append(w.Feeds, feedRun{s.enqueue(t, queue.Request{DAG: "feed", Params: map[string]any{"feed": pipe}}), pipe})
	}
	if err := s.swap(t); err != nil {
		t.Fatal(err)
	}
	w.Nightly = s.enqueue(t, queue.Request{
		DAG: "nightly-orders", Key: "nightly-" + worldDay, Manual: true,
		Params: map[string]any{"day": worldDay},
	})
	w.Many = s.enqueue(t, queue.Request{DAG: "month-of-events", Params: map[string]any{"days": days(manyItems)}})
	w.Succeeded = s.enqueue(t, queue.Request{DAG: "order-paid", Params: map[string]any{"order": 99184}, Labels: map[string]string{"shop": "north"}})
	w.Queued = s.enqueue(t, queue.Request{DAG: "thumbnails"})
	w.Scheduled = s.enqueue(t, queue.Request{DAG: "order-paid", Params: map[string]any{"order": 99185}, RunAt: time.Now().Add(6 * time.Hour)})
	for _, run := range []*queue.RunID{&w.Waiting, &w.Paused, &w.Canceled, &w.Decided} {
		*run = s.enqueue(t, queue.Request{DAG: "deploy-web", Params: map[string]any{"ref": "3f9c2e1"}})
		s.awaitState(t, *run, "waiting")
	}
	s.ask(t, queue.Ask{Run: w.Paused, Verb: dagrun.VerbPause})
	s.ask(t, queue.Ask{Run: w.Canceled, Verb: dagrun.VerbCancel})
	w.Hostile = s.enqueueHostile(t, w.Texts)
	w.States = map[string]queue.RunID{
		"running": w.Nightly, "succeeded": w.Succeeded, "queued": w.Queued, "waiting": w.Waiting, "paused": w.Paused,
		"canceled": w.Canceled, "scheduled": w.Scheduled, "failed": w.Hostile,
	}
	for state, run := range w.States {
		s.awaitState(t, run, state)
	}
	s.awaitState(t, w.Many, "succeeded")
	s.awaitTasks(t, w.Nightly, map[string]int{
		"rollup failed": 1, "export succeeded": 20, "export running": 5, "load succeeded": 25, "confirm waiting": 1,
		"rates skipped": 1, "refresh-dashboard upstream_failed": 1, "notify pending": 1,
	})
	for _, feed := range w.Feeds {
		s.awaitTasks(t, feed.Run, map[string]int{"copy running": 1})
	}
	return s, w
}

// enqueueHostile makes a run out of hostile texts, and rejects its approval with one of them.
func (s *town) enqueueHostile(t *testing.T, texts []string) queue.RunID {
	t.Helper()
	const first = `"><img src=x onerror="alert(1)" data-xss>`
	run := s.enqueue(t, queue.Request{
		DAG: "hostile", Key: first, Params: map[string]any{"text": first, "texts": texts},
		Labels: map[string]string{first: first, "script": "</script><script>alert(1)</script>"},
	})
	s.awaitTasks(t, run, map[string]int{"ask waiting": 1, "refuse waiting": 1, "fail failed": 1, "tell succeeded": len(texts) + 1, "all succeeded": 1})
	s.ask(t, queue.Ask{Run: run, Verb: dagrun.VerbApprove, Step: "ask", Outputs: map[string]any{"answer": first, "comment": first}})
	s.ask(t, queue.Ask{Run: run, Verb: dagrun.VerbReject, Step: "refuse", Reason: first})
	return run
}

// gate returns a pipe without a writer: a task that reads from it waits, at no cost.
func gate(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// heldGate returns a gate that stays open when a writer has gone.
func heldGate(t *testing.T) string {
	t.Helper()
	path := gate(t)
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
	return path
}

func days(n int) []string {
	var list []string
	for day := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC); len(list) < n; day = day.AddDate(0, 0, 1) {
		list = append(list, day.Format(time.DateOnly))
	}
	return list
}

// putAll applies the DAGs of testdata.
func (s *town) putAll(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(err, paths)
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source = bytes.ReplaceAll(source, []byte("GATE"), []byte(gate(t))) // what the slow exports read from
		spec, err := dagspec.Parse(path, source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutDAG(t.Context(), spec, string(source), path); err != nil {
			t.Fatal(err)
		}
	}
}

// setPools makes pools for the page of queues. One is closed, and has a hostile note.
func (s *town) setPools(t *testing.T) {
	t.Helper()
	for name, limits := range map[string]queue.PoolLimits{
		"warehouse": {Slots: 5},
		"shop-api":  {Slots: 2, PerKey: true, Rate: 100, Per: time.Minute, Burst: 20, Note: "<i data-xss>"},
	} {
		if _, err := s.SetPool(t.Context(), name, limits); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ClosePool(t.Context(), "shop-api", "", 0); err != nil {
		t.Fatal(err)
	}
}

// swap ends the worker of feeds, if there is one, and starts another, which takes over its runs.
func (s *town) swap(t *testing.T) (err error) {
	if s.live != nil {
		s.live()
	}
	s.live, err = s.start(t, map[string]string{"desk": "live"})
	return err
}

// start starts a worker with a hostile name. The worker ends with the test, or when end is called.
func (s *town) start(t *testing.T, labels map[string]string) (end func(), err error) {
	rig, err := embed.New(embed.Config{
		Database: queue.Config{URL: s.url}, Name: "worker-b" + hostileName(), Slots: worldSlots, Commands: &exec.Config{}, Folder: t.TempDir(),
		Labels: labels,
	})
	if err != nil {
		return nil, err
	}
	rig.Handle("tell", func(_ context.Context, task *worker.Task) (worker.Outputs, error) {
		text := told(task)
		_, err := io.WriteString(task.Stdout, text+"\n")
		return worker.Outputs{"said": text}, err
	})
	rig.Handle("fail", func(_ context.Context, task *worker.Task) (worker.Outputs, error) {
		_, _ = io.WriteString(task.Stderr, "half a letter: \xc3\n"+told(task)+"\n")
		return nil, worker.Permanent(errors.New(told(task)))
	})
	ended := make(chan error, 1)
	go func() { ended <- rig.Run(context.WithoutCancel(t.Context())) }()
	end = sync.OnceFunc(func() {
		rig.StopNow()
		if err := <-ended; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	t.Cleanup(end)
	return end, nil
}

// told returns the text, or texts, that a step must write.
func told(task *worker.Task) string {
	if text, one := task.Resolved.With["text"].(string); one {
		return text
	}
	return fmt.Sprint(task.Resolved.With["text"])
}

func (s *town) enqueue(t *testing.T, r queue.Request) queue.RunID {
	t.Helper()
	run, err := s.Enqueue(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func (s *town) ask(t *testing.T, a queue.Ask) {
	t.Helper()
	c, err := s.Control(t.Context(), a)
	if err == nil {
		c, err = s.AwaitControl(t.Context(), c)
	}
	if err != nil || !slices.Contains([]dagrun.Outcome{dagrun.Applied, dagrun.Accepted}, c.Outcome) {
		t.Fatalf("%v: %v %v", a.Verb, err, c)
	}
}

func (s *town) awaitState(t *testing.T, run queue.RunID, state string) {
	t.Helper()
	now := ""
	for r, err := range s.Watch(t.Context(), run) {
		if err != nil {
			t.Fatal(err)
		}
		if now = r.State; now == state {
			return
		}
	}
	t.Fatalf("run %d is %s, not %s", run, now, state)
}

// awaitTasks waits until a run has this many tasks of a step in a state. A foreach step itself counts as one.
func (s *town) awaitTasks(t *testing.T, run queue.RunID, want map[string]int) {
	t.Helper()
	await.True(t, fmt.Sprint(want), func() bool {
		tasks, err := s.Tasks(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, task := range tasks {
			counts[task.Step+" "+task.State]++
		}
		for what, n := range want {
			if counts[what] != n {
				return false
			}
		}
		return true
	})
}
