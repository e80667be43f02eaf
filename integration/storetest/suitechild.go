package storetest

import (
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var childPromises = []promise{
	{"a child is asked for once, and knows where it comes from", childOnce},
	{"a run_key gives one run to all that ask by it for the same", childKeyed},
	{"a child starts no earlier than it is to", childLater},
	{"the end of a child wakes its parent", childWakes},
	{"the end of a child moves the inbox of a parent that runs", childMoves},
	{"a child that is canceled or fails tells its parent so", childFails},
}

const parent = "name: parent\nsteps:\n  - {id: a, action: dag.run, with: {dag: single}}\n  - {id: b, run: \"true\", depends: [a]}\n"

func childOnce(s *setup) {
	s.put(single)
	id := s.start(parent)
	w := s.worker()
	c := s.claimOne(w)
	ask := queue.Child{Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: 1, DAG: "single", Labels: map[string]string{"x": "y"}}
	child, err := w.EnqueueChild(s.Context(), ask)
	s.must(err)
	again, err := w.EnqueueChild(s.Context(), ask)
	s.must(err)
	if again != child {
		s.Errorf("runs %d and %d for one attempt", child, again)
	}
	ask.Attempt = 2
	other, err := w.EnqueueChild(s.Context(), ask)
	s.must(err)
	ask.Attempt, ask.Detached = 3, true
	detached, err := w.EnqueueChild(s.Context(), ask)
	s.must(err)
	if other == child || detached == child || detached == other {
		s.Errorf("other attempts gave runs %d, %d and %d", child, other, detached)
	}
	if r := s.get(child); r.Parent != id || r.Root != id || r.Trigger != "child" || r.Labels["x"] != "y" {
		s.Errorf("child %+v", r)
	}
	if r := s.get(detached); r.Parent != 0 || r.Root != detached {
		s.Errorf("detached %+v", r)
	}
	next := s.worker(replacing(w))
	ask.Claim, ask.Attempt, ask.Detached = nil, 1, false
	for _, claimed := range s.claim(next, 4) {
		if claimed.Run == id {
			ask.Claim = claimed
		} else if claimed.Depth != 1 {
			s.Errorf("run %d has depth %d", claimed.Run, claimed.Depth)
		}
	}
	if again, err = next.EnqueueChild(s.Context(), ask); err != nil || again != child {
		s.Errorf("the next driver got run %d, not %d: %v", again, child, err)
	}
	ask.DAG = "none"
	if _, err = next.EnqueueChild(s.Context(), queue.Child{Claim: ask.Claim, Attempt: 9, DAG: "none"}); err == nil {
		s.Error("a child of no DAG")
	}
}

func childKeyed(s *setup) {
	s.put(single)
	s.put(parent)
	w := s.worker()
	first := s.enqueue(queue.Request{DAG: "parent"})
	s.enqueue(queue.Request{DAG: "parent"})
	claims := s.claim(w, 2)
	ask := queue.Child{Claim: claims[0], Attempt: 1, DAG: "single", Detached: true, Key: "daily"}
	child, err := w.EnqueueChild(s.Context(), ask)
	s.must(err)
	for what, change := range map[string]func(*queue.Child){
		"the same":         func(*queue.Child) {},
		"another attempt":  func(c *queue.Child) { c.Attempt = 2 },
		"another parent":   func(c *queue.Child) { c.Claim = claims[1] },
		"another moment":   func(c *queue.Child) { c.RunAt = s.get(first).CreatedAt.Add(time.Hour) },
		"no key, the same": func(c *queue.Child) { c.Key, c.Attempt = "", 3 },
	} {
		again := ask
		change(&again)
		id, err := w.EnqueueChild(s.Context(), again)
		s.must(err)
		if same := again.Key != ""; (id == child) != same {
			s.Errorf("%s: run %d, the first was %d", what, id, child)
		}
	}
	if id := s.enqueue(queue.Request{DAG: "single", Key: "daily"}); id != child {
		s.Errorf("the submitter's own request by this key gave run %d, not %d", id, child)
	}
	if r := s.get(child); r.Key != "daily" || r.Trigger != "child" || r.Parent != 0 {
		s.Errorf("child %+v", r)
	}
	ask.DAG = "parent"
	_, err = w.EnqueueChild(s.Context(), ask)
	s.wantError(err, queue.ErrConflict)
	s.wantCode(err, "OA004")
	_, err = w.EnqueueChild(s.Context(), queue.Child{Claim: claims[1], Attempt: 1, DAG: "single", Key: "waited for"})
	s.wantCode(err, "OA013")
}

func childLater(s *setup) {
	s.put(single)
	s.start(parent)
	w := s.worker()
	c := s.claimOne(w)
	at := moment(s.now(w)).Add(time.Hour)
	child, err := w.EnqueueChild(s.Context(), queue.Child{Claim: c, Attempt: 1, DAG: "single", Detached: true, RunAt: at})
	s.must(err)
	s.wantState(child, "scheduled")
	if r := s.get(child); !r.RunAt.Equal(at) {
		s.Errorf("it is to start at %v, not %v", r.RunAt, at)
	}
	s.idle(w, "its time has not come")
}

func childWakes(s *setup) {
	s.put(single)
	id := s.start(parent)
	w := s.worker()
	if d := s.drive(w, s.claimOne(w), Behaviour{}); d.Leave == nil {
		s.Fatalf("driven %+v", d)
	}
	s.wantState(id, "waiting")
	child := s.claimOne(w)
	if child.Parent != id || child.Root != id || child.Depth != 1 {
		s.Errorf("claimed %+v", child)
	}
	s.drive(w, child, Behaviour{})
	s.wantState(id, "queued")
	c := s.claimOne(w)
	box := s.mail(w, c)
	if len(box.Controls) != 1 || box.Controls[0].Verb != dagrun.VerbChildEnded || box.Controls[0].Step != "a" {
		s.Errorf("mail %+v", box)
	}
	if d := s.drive(w, c, Behaviour{}); d.Verdict == nil || d.Verdict.State != dagrun.RunSucceeded {
		s.Errorf("driven %+v", d)
	}
	s.wantState(id, "succeeded")
}

func childMoves(s *setup) {
	s.put(single)
	s.start(parent)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	child, err := w.EnqueueChild(s.Context(), queue.Child{Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: 1, DAG: "single"})
	s.must(err)
	waits := row(0, 1, dagrun.TaskWaiting, at)
	waits.Ref = fmt.Sprint(child)
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantError(w.Commit(s.Context(), park(c, c.Inbox, 0, waits)), queue.ErrInboxMoved)
	box := s.mail(w, c)
	if len(box.Controls) != 1 || box.Controls[0].Verb != dagrun.VerbChildEnded {
		s.Fatalf("mail %+v", box)
	}
	def, err := w.Definition(s.Context(), c.DAGID, c.Version)
	s.must(err)
	control, err := box.Controls[0].For(def.Graph)
	s.must(err)
	if control.Ref != fmt.Sprint(child) || control.Result == nil || control.Result.Kind != dagrun.KindNone || *control.Task != (dagrun.TaskID{}) {
		s.Errorf("control %+v", control)
	}
	s.drive(w, c, Behaviour{})
}

func childFails(s *setup) {
	s.put(single)
	w := s.worker()
	s.put(parent)
	for name, end := range map[string]func(queue.RunID){
		"canceled": func(child queue.RunID) { s.ask(queue.Ask{Run: child, Verb: dagrun.VerbCancel}) },
		"failed": func(queue.RunID) {
			s.drive(w, s.claimOne(w), Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 2, HasExit: true} }})
		},
	} {
		id := s.enqueue(queue.Request{DAG: "parent"})
		s.drive(w, s.claimOne(w), Behaviour{})
		child := id + 1
		s.until("the child is there", func() bool {
			r, err := s.Client.Get(s.Context(), child)
			if err != nil || r.Parent != id {
				child++
			}
			return err == nil && r.Parent == id
		})
		end(child)
		s.wantState(child, name)
		s.drive(w, s.claimOne(w), Behaviour{})
		if r := s.get(id); r.State != "failed" || s.tasks(id)["a"].FailureKind != "child" {
			s.Errorf("%s: the parent is %s, %s: %+v", name, r.State, r.Reason, s.tasks(id)["a"])
		}
	}
}
