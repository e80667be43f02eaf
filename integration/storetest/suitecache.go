package storetest

import (
	"context"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var cachePromises = []promise{
	{"a result is found by later tasks with the same key, which run no body", cacheHits},
	{"a result is found until its time is over", cacheExpires},
	{"a result is kept with its record or not at all", cacheFenced},
	{"two results with one key in one flush are one", cacheTwice},
	{"a result is found by runs of the same submitter, and by others only where the step shares it", cacheScopes},
	{"what is marked is no result that others take for theirs", cacheTakesNoMarks},
	{"an edited step does not answer with what the old one put out", cacheOfAnEditedStep},
}

const cachedDAG = `name: cached
params: [{name: day, default: mon}]
steps:
  - {id: a, run: "true", outputs: [n], cache: {key: params.day, ttl: 1h}}
  - {id: b, run: "true", outputs: [n], depends: [a], cache: {key: params.day}}
`

// counted makes each body succeed, and counts the bodies in *bodies.
func counted(bodies *int) Behaviour {
	return Behaviour{Body: func(Body) dagrun.Result {
		*bodies++
		return dagrun.Result{Outputs: `{"n":"1"}`}
	}}
}

func cacheHits(s *setup) {
	s.put(cachedDAG)
	w, bodies := s.worker(), 0
	for i, c := range []struct {
		day    string
		bodies int
		reason string
	}{{"mon", 2, "ran"}, {"mon", 2, "cached"}, {"tue", 4, "ran"}, {strings.Repeat("long ", 1000), 6, "ran"}, {strings.Repeat("long ", 1000), 6, "cached"}} {
		id := s.enqueue(queue.Request{DAG: "cached", Params: map[string]string{"day": c.day}})
		s.drive(w, s.claimOne(w), counted(&bodies))
		s.wantState(id, "succeeded")
		if bodies != c.bodies {
			s.Errorf("run %d: %d bodies, not %d", i, bodies, c.bodies)
		}
		for name, task := range s.tasks(id) {
			if task.Reason != c.reason && !(c.reason == "ran" && task.Reason == "") || string(task.Outputs) != `{"n": "1"}` && string(task.Outputs) != `{"n":"1"}` {
				s.Errorf("run %d: task %s is %s: %q, with %s", i, name, task.State, task.Reason, task.Outputs)
			}
		}
	}
}

// kept commits a task that succeeded with a cache key.
func (s *setup) kept(w Session, c *queue.Claim, at dagrun.Time, step string, k queue.Keep) error {
	s.Helper()
	rec := row(k.Task.Step, int64(k.Task.Step)+1, dagrun.TaskSucceeded, at)
	rec.CacheKey, rec.Outputs, k.Step = "k", `{"n":"2"}`, step
	return w.Commit(s.Context(), &queue.Batch{Claim: c, Seen: c.Inbox, Records: dagrun.Records{Tasks: []dagrun.TaskRecord{rec}}, Keeps: []queue.Keep{k}})
}

func (s *setup) found(w Session, run queue.RunID, step string) bool {
	s.Helper()
	outputs, found, err := w.Cached(s.Context(), run, step, "k", false)
	s.must(err)
	if found && outputs != `{"n":"2"}` {
		s.Errorf("found %s of %s", outputs, step)
	}
	return found
}

func cacheExpires(s *setup) {
	s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	other := s.start(lines("another", "b"))
	at := s.now(w)
	s.must(s.kept(w, c, at, "a", queue.Keep{TTL: s.TTL}))
	s.must(s.kept(w, c, at, "b", queue.Keep{Task: dagrun.TaskID{Step: 1}}))
	s.until("the result of a is too old", func() bool { return !s.found(w, c.Run, "a") })
	if !s.found(w, c.Run, "b") {
		s.Error("a result without a TTL is gone")
	}
	if s.found(w, c.Run, "c") || s.found(w, other, "b") {
		s.Error("a result of another step")
	}
	s.must(s.kept(w, c, at, "a", queue.Keep{Task: dagrun.TaskID{Step: 2}})) // replaces the expired result
	if !s.found(w, c.Run, "a") {
		s.Error("a result does not take the place of one that is too old")
	}
}

func cacheFenced(s *setup) {
	s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	next := s.worker(replacing(w))
	if err := s.kept(w, c, at, "a", queue.Keep{}); err == nil {
		s.Error("a lost worker may write")
	}
	if s.found(next, c.Run, "a") {
		s.Error("a lost worker's result was kept")
	}
	again := s.claimOne(next)
	rec := row(0, 1, dagrun.TaskFailed, s.now(next))
	rec.CacheKey = "k"
	s.must(next.Commit(s.Context(), &queue.Batch{
		Claim: again, Seen: again.Inbox, Records: dagrun.Records{Tasks: []dagrun.TaskRecord{rec}}, Keeps: []queue.Keep{{Step: "a"}},
	}))
	if s.found(next, c.Run, "a") {
		s.Error("a failure was kept")
	}
}

func cacheTwice(s *setup) {
	s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	var batch queue.Batch
	for step := range 2 {
		rec := row(step, int64(step+1), dagrun.TaskSucceeded, s.now(w))
		rec.CacheKey, rec.Outputs = "k", `{"n":"2"}`
		batch.Records.Tasks = append(batch.Records.Tasks, rec)
		batch.Keeps = append(batch.Keeps, queue.Keep{Task: rec.ID, Step: "a"})
	}
	batch.Claim, batch.Seen = c, c.Inbox
	s.must(w.Commit(s.Context(), &batch))
	if !s.found(w, c.Run, "a") {
		s.Error("nothing was kept")
	}
}

func cacheScopes(s *setup) {
	s.put("name: scoped\nsteps:\n" +
		"  - {id: own, run: \"true\", outputs: [n], cache: {key: '\"k\"'}}\n" +
		"  - {id: shared, run: \"true\", outputs: [n], cache: {key: '\"k\"', scope: dag}}\n")
	w, bodies := s.worker(), 0
	for i, c := range []struct {
		enqueue func(context.Context, queue.Request) (queue.RunID, error)
		bodies  int
	}{{s.Client.Enqueue, 2}, {s.Client.Enqueue, 2}, {s.EnqueueAsAnother, 3}, {s.EnqueueAsAnother, 3}} {
		_, err := c.enqueue(s.Context(), queue.Request{DAG: "scoped"})
		s.must(err)
		s.drive(w, s.claimOne(w), counted(&bodies))
		if bodies != c.bodies {
			s.Errorf("run %d: %d bodies, not %d", i, bodies, c.bodies)
		}
	}
}

func cacheTakesNoMarks(s *setup) {
	s.put("name: said\nsteps: [{id: a, run: \"true\", outputs: [n], cache: {key: '\"k\"', scope: dag}}]\n")
	w, bodies := s.worker(), 0
	marked := s.enqueue(queue.Request{DAG: "said"})
	s.ask(queue.Ask{Run: marked, Verb: dagrun.VerbMark, Step: "a", As: dagrun.TaskSucceeded, Outputs: map[string]any{"n": "said"}})
	s.drive(w, s.claimOne(w), counted(&bodies))
	s.wantState(marked, "succeeded")
	running := s.enqueue(queue.Request{DAG: "said"})
	s.drive(w, s.claimOne(w), Behaviour{
		Mail: func(Body) bool {
			s.ask(queue.Ask{Run: running, Verb: dagrun.VerbMark, Step: "a", As: dagrun.TaskSucceeded, Outputs: map[string]any{"n": "said"}})
			return true
		},
		Body: func(Body) dagrun.Result { return dagrun.Result{Outputs: `{"n":"put out"}`} },
	})
	s.wantState(running, "succeeded")
	after := s.enqueue(queue.Request{DAG: "said"})
	s.drive(w, s.claimOne(w), counted(&bodies))
	if bodies != 1 {
		s.Errorf("%d bodies ran, not 1: task a has %s", bodies, s.tasks(after)["a"].Outputs)
	}
}

func cacheOfAnEditedStep(s *setup) {
	w, bodies := s.worker(), 0
	for i, c := range []struct {
		body   string
		bodies int
	}{
		{`run: "true"`, 1}, {`run: "true", timeout: 1h`, 1}, {`run: "echo"`, 2}, {`run: "echo", env: {X: y}`, 3}, {`run: "true"`, 3},
	} {
		s.put("name: edited\nsteps: [{id: a, " + c.body + ", outputs: [n], cache: {key: '\"k\"'}}]\n")
		s.enqueue(queue.Request{DAG: "edited"})
		s.drive(w, s.claimOne(w), counted(&bodies))
		if bodies != c.bodies {
			s.Errorf("version %d: %d bodies, not %d", i, bodies, c.bodies)
		}
	}
}
