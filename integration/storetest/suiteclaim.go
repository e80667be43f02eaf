package storetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

var claimPromises = []promise{
	{"a run is claimed once", claimedOnce},
	{"a claim says what its run is", claimSays},
	{"order is priority, then run_at, then id", claimOrder},
	{"nothing of a paused queue or DAG is claimed", pausedIsNotClaimed},
	{"what a paused DAG has begun goes on", begunGoesOn},
	{"what a paused queue has begun goes on, and obeys", begunInPausedQueue},
	{"a worker claims only what it can serve", servesOnly},
	{"a run waits for its run_at", waitsForRunAt},
	{"a run_key is asked for once", keyIsIdempotent},
	{"params and names are checked", enqueueChecks},
	{"polls and looks say what time it is, as renewals do", callsTellTime},
	{"a look says whether something is due", lookTellsDue},
	{"what has begun is due though the clock went back, and nothing else is", dueAfterTheClock},
	{"queues take turns", queuesTakeTurns},
	{"every second poll takes what is new before what has begun", newBeforeBegun},
	{"one poll of sixteen takes the oldest run, whatever its priority", oldestOfSixteen},
}

func dueAfterTheClock(s *setup) {
	s.put(single)
	begun, fresh := s.enqueue(queue.Request{DAG: "single"}), s.enqueue(queue.Request{DAG: "single"})
	w := s.worker()
	s.stalls(w, s.claimOne(w))
	s.SetBack(time.Hour)
	s.wantState(begun, "queued")
	s.wantState(fresh, "scheduled")
	if again := s.claimOne(w); again.Run != begun {
		s.Errorf("run %d was claimed, which has not begun", again.Run)
	}
	s.idle(w, "the other one starts later")
}

func queuesTakeTurns(s *setup) {
	const each = 4
	s.put("name: a\nqueue: a\nsteps: [{id: a, run: \"true\"}]\n")
	s.put("name: b\nqueue: b\nsteps: [{id: a, run: \"true\"}]\n")
	for _, dag := range []string{"a", "b"} {
		for range each {
			s.enqueue(queue.Request{DAG: dag})
		}
	}
	w, last := s.worker(), ""
	for range 2 * each {
		c := s.claimOne(w)
		if c.Queue == last {
			s.Errorf("queue %s gave two runs in a row", last)
		}
		last = c.Queue
	}
}

func newBeforeBegun(s *setup) {
	const each = 6
	s.put(chain)
	first, w := s.worker(), s.worker()
	for range each {
		s.enqueue(queue.Request{DAG: "chain"})
	}
	for _, c := range s.claim(first, each) {
		s.stalls(first, c)
	}
	for range each {
		s.enqueue(queue.Request{DAG: "chain"})
	}
	for range each {
		if one, other := s.claimOne(w), s.claimOne(w); one.Begun == other.Begun {
			s.Errorf("runs %d and %d: both have begun, or both are new", one.Run, other.Run)
		}
	}
}

func oldestOfSixteen(s *setup) {
	s.put(single)
	low := s.enqueue(queue.Request{DAG: "single", Priority: new(-5)})
	for range queue.TurnEvery {
		s.enqueue(queue.Request{DAG: "single"})
	}
	w := s.worker()
	var polls []int
	for i := range queue.TurnEvery {
		if s.claimOne(w).Run == low {
			polls = append(polls, i+1)
		}
	}
	s.same("the polls that brought it", polls, []int{queue.TurnEvery})
}

func callsTellTime(s *setup) {
	w := s.worker()
	before := s.now(w)
	polled, looked := s.poll(w, queue.Want{Slots: 1, Free: 1}), s.look(w)
	after := s.now(w)
	if polled.Now < before || looked.Now < polled.Now || after < looked.Now {
		s.Errorf("a poll says %d and a look %d, between %d and %d", polled.Now, looked.Now, before, after)
	}
}

func lookTellsDue(s *setup) {
	s.put(single)
	w := s.worker()
	none := func(why string) {
		s.until("a look says that nothing is due: "+why, func() bool {
			s.wantClaims(why, s.poll(w, queue.Want{Slots: 1, Free: 1}).Claims)
			return !s.look(w).Due
		})
	}
	s.enqueue(queue.Request{DAG: "single"})
	s.claimOne(w)
	none("all is claimed")
	at := s.now(w) + dagrun.Time(s.TTL.Milliseconds())
	s.enqueue(queue.Request{DAG: "single", RunAt: moment(at)})
	s.until("a look says that it is due", func() bool {
		looked := s.look(w)
		if looked.Due && looked.Now < at {
			s.Errorf("due at %d, before %d", looked.Now, at)
		}
		return looked.Due
	})
	s.claimOne(w)
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: new(true)}))
	s.enqueue(queue.Request{DAG: "single"})
	none("the queue is paused")
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: new(false)}))
	if !s.look(w).Due {
		s.Error("the queue goes on, and nothing is due")
	}
	s.claimOne(w)
}

func claimedOnce(s *setup) {
	const runs, sessions = 60, 4
	s.put(single)
	for range runs {
		s.enqueue(queue.Request{DAG: "single"})
	}
	var (
		mu     sync.Mutex
		claims []*queue.Claim
		wg     sync.WaitGroup
	)
	for range sessions {
		w := s.worker()
		wg.Go(func() {
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
				polled, err := w.Poll(s.Context(), queue.Want{Slots: 3, Free: 3})
				mu.Lock()
				claims = append(claims, polled.Claims...)
				done := len(claims) >= runs
				mu.Unlock()
				if err != nil {
					s.Error(err)
				}
				if done || err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	byRun, byID := map[queue.RunID]int{}, map[uuid.UUID]int{}
	for _, c := range claims {
		byRun[c.Run]++
		byID[c.ID]++
		if c.Epoch != 1 || !c.Fresh() {
			s.Errorf("run %d: epoch %d, inbox %d in its first claim", c.Run, c.Epoch, c.Inbox)
		}
	}
	if len(claims) != runs || len(byRun) != runs || len(byID) != runs {
		s.Errorf("%d claims of %d runs with %d ids, want %d of each", len(claims), len(byRun), len(byID), runs)
	}
}

func claimSays(s *setup) {
	put := s.put("name: told\nlabels: {team: a}\nparams: [{name: n, type: integer}]\nsteps: [{id: a, action: noop}]\n")
	logical := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	id := s.enqueue(queue.Request{
		DAG: "told", Params: map[string]any{"n": 7}, Key: "k", Labels: map[string]string{"x": "y"}, LogicalAt: logical,
		Traceparent: "00-1-2-3", Manual: true,
	})
	w := s.worker()
	c := s.claimOne(w)
	if c.Run != id || c.DAG != "told" || c.DAGID != put.ID || c.Version != put.Version || c.Queue != "default" || c.Lane == 0 ||
		!c.LogicalAt.Equal(logical) || c.Trigger != "manual" || c.Key != "k" || c.Traceparent != "00-1-2-3" || c.Root != id ||
		c.Parent != 0 || c.Depth != 0 || c.SubmittedBy == "" || c.Losses != 0 || c.CreatedAt.IsZero() || c.RunAt.IsZero() || c.Precomputed != nil {
		s.Errorf("%+v", c)
	}
	s.same("params", decoded(s, c.Params), map[string]any{"n": 7.0})
	s.same("labels", decoded(s, c.Labels), map[string]any{"team": "a", "x": "y"})
	s.same("row", c.Row, dagrun.RunRecord{Generation: 1, StartedAt: c.Row.StartedAt})
	if r := s.get(id); c.Row.StartedAt == 0 || r.StartedAt.UnixMilli() != int64(c.Row.StartedAt) {
		s.Errorf("started at %v by its claim, at %v by its row", c.Row.StartedAt, r.StartedAt)
	}
	def, err := w.Definition(s.Context(), c.DAGID, c.Version)
	s.must(err)
	if def.Spec.Name != "told" || def.Graph.Len() != 1 {
		s.Errorf("definition %+v", def)
	}
	s.wantState(id, "running")
	if r := s.get(id); r.Epoch != 1 || r.Worker != "w" {
		s.Errorf("run %+v", r)
	}
}

func claimOrder(s *setup) {
	s.put(single)
	high, low := 5, -5
	w := s.worker()
	base := moment(s.now(w)).Add(3 * s.TTL)
	last := s.enqueue(queue.Request{DAG: "single", Priority: &low})
	third := s.enqueue(queue.Request{DAG: "single", RunAt: base.Add(time.Millisecond)})
	first := s.enqueue(queue.Request{DAG: "single", RunAt: base})
	second := s.enqueue(queue.Request{DAG: "single", RunAt: base})
	best := s.enqueue(queue.Request{DAG: "single", Priority: &high})
	s.until("all are due", func() bool { return moment(s.now(w)).After(base.Add(time.Millisecond)) })
	for _, want := range []queue.RunID{best, first, second, third, last} {
		if got := s.claimOne(w); got.Run != want {
			s.Fatalf("claimed %d, want %d of %v", got.Run, want, []queue.RunID{best, first, second, third, last})
		}
	}
}

func pausedIsNotClaimed(s *setup) {
	s.put(single)
	w := s.worker()
	s.idle(w, "there is nothing") // so that the worker knows the state before the pauses
	yes, no := true, false
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: &yes}))
	id := s.enqueue(queue.Request{DAG: "single"})
	s.idle(w, "its queue is paused")
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "single", Paused: &yes}))
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: &no}))
	s.idle(w, "its DAG is paused")
	s.put(chain)
	other := s.enqueue(queue.Request{DAG: "chain"})
	if c := s.claimOne(w); c.Run != other {
		s.Errorf("claimed run %d of a paused DAG instead of %d behind it", c.Run, other)
	}
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "single", Paused: &no}))
	if c := s.claimOne(w); c.Run != id {
		s.Errorf("claimed run %d, not %d", c.Run, id)
	}
}

func begunGoesOn(s *setup) {
	for _, limit := range []string{"", "max_active_runs: 1\n"} {
		name := "gate" + strconv.Itoa(len(limit))
		id := s.start("name: " + name + "\n" + limit + "steps:\n  - {id: a, action: approval}\n")
		w := s.worker()
		s.drive(w, s.claimOne(w), Behaviour{})
		s.wantState(id, "waiting")
		yes := true
		s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: name, Paused: &yes}))
		fresh := s.enqueue(queue.Request{DAG: name})
		s.ask(queue.Ask{Run: id, Verb: dagrun.VerbApprove, Step: "a"})
		s.drive(w, s.claimOne(w), Behaviour{})
		s.wantState(id, "succeeded")
		s.idle(w, fmt.Sprintf("run %d has not begun", fresh))
	}
}

// Neither a takeover nor an approval nor a cancel waits until a paused queue goes on.
func begunInPausedQueue(s *setup) {
	for limit := range 3 {
		yes, no, most := true, false, 2*(limit%2)
		s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: &no, MaxRunning: &most}))
		name := "held" + strconv.Itoa(limit)
		s.put(fmt.Sprintf("name: %s\nmax_active_runs: %d\nsteps:\n  - {id: a, action: approval}\n", name, 3*(limit/2)))
		var ids [3]queue.RunID
		w, dead := s.worker(), s.worker()
		for i := range ids {
			ids[i] = s.enqueue(queue.Request{DAG: name})
			s.drive(w, s.claimOne(w), Behaviour{})
			s.wantState(ids[i], "waiting")
		}
		s.ask(queue.Ask{Run: ids[0], Verb: dagrun.VerbPause, Step: "a"})
		s.claimOne(dead)
		fresh := s.enqueue(queue.Request{DAG: name})
		s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: &yes}))
		next := s.worker(replacing(dead))
		if c := s.claimOne(w); c.Run != ids[0] || c.Losses != 1 {
			s.Errorf("claimed run %d, not %d of a lost worker", c.Run, ids[0])
		} else {
			s.drive(w, c, Behaviour{})
		}
		s.ask(approve(ids[1], "a"))
		s.drive(next, s.claimOne(next), Behaviour{})
		s.wantState(ids[1], "succeeded")
		s.cancels(ids[2])
		s.idle(w, fmt.Sprintf("run %d has not begun", fresh))
		s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: &no}))
		c := s.claimOne(w)
		if c.Run != fresh {
			s.Errorf("claimed run %d, not %d", c.Run, fresh)
		}
		s.drive(w, c, Behaviour{}) // the run parks
		s.must(w.Close(s.Context()))
		s.must(next.Close(s.Context()))
	}
}

func servesOnly(s *setup) {
	s.put("name: picky\nqueue: far\nworker_selector: {gpu: \"1\"}\nsteps: [{id: a, run: \"true\", slots: 4}]\n")
	id := s.enqueue(queue.Request{DAG: "picky"})
	gpu := func(w *queue.Worker) { w.Labels = map[string]string{"gpu": "1", "arch": "x"} }
	for name, change := range map[string]func(*queue.Worker){
		"it lacks the label":       func(w *queue.Worker) { w.Labels = map[string]string{"gpu": "2"} },
		"it has too few slots":     func(w *queue.Worker) { gpu(w); w.Slots = 3 },
		"it serves another queue":  func(w *queue.Worker) { gpu(w); w.Queues = []string{"default"} },
		"it cannot run a process":  func(w *queue.Worker) { gpu(w); w.Offers = []string{"action:noop"} },
		"it has nothing to offer":  func(w *queue.Worker) { gpu(w); w.Offers = nil },
		"it has no label whatever": func(*queue.Worker) {},
	} {
		s.idle(s.worker(change), name)
	}
	w := s.worker(gpu, func(w *queue.Worker) { w.Slots, w.Queues = 4, []string{"far", "other"} })
	if c := s.claimOne(w); c.Run != id || c.Queue != "far" {
		s.Errorf("claimed %+v", c)
	}
}

func waitsForRunAt(s *setup) {
	s.put(single)
	w := s.worker()
	due := moment(s.now(w)).Add(2 * s.TTL)
	id := s.enqueue(queue.Request{DAG: "single", RunAt: due})
	if state := s.get(id).State; state != "scheduled" && moment(s.now(w)).Before(due) {
		s.Errorf("run %d is %s", id, state)
	}
	s.claimOne(w)
	if now := moment(s.now(w)); now.Before(due.Truncate(time.Millisecond)) {
		s.Errorf("run %d was claimed at %v, before %v", id, now, due)
	}
}

func keyIsIdempotent(s *setup) {
	s.put("name: keyed\nparams: [{name: n, type: integer}]\nsteps: [{id: a, action: noop}]\n")
	r := queue.Request{DAG: "keyed", Params: map[string]any{"n": 1}, Key: "k"}
	ids := make([]queue.RunID, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := s.Client.Enqueue(s.Context(), r)
			if err != nil {
				s.Error(err)
			}
			ids[i] = id
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == 0 {
			s.Fatalf("one key, runs %v", ids)
		}
	}
	if len(s.claim(s.worker(), 1)) != 1 {
		s.Error("the one run cannot be claimed")
	}
	s.idle(s.worker(), "one key is one run")
	r.Params = map[string]any{"n": 2}
	_, err := s.Client.Enqueue(s.Context(), r)
	s.wantError(err, queue.ErrConflict)
	s.wantCode(err, "OA004")
	r.Key = "other"
	if id := s.enqueue(r); id == ids[0] {
		s.Error("another key gave the same run")
	}
}

func enqueueChecks(s *setup) {
	s.put("name: strict\nparams: [{name: n, type: integer, required: true}]\nsteps: [{id: a, action: noop}]\n")
	s.put("name: free\nparams: [{name: v, type: json}]\nsteps: [{id: a, action: noop, precomputable: true}]\n")
	deep := json.RawMessage(strings.Repeat("[", dagspec.MaxValueDepth+1) + strings.Repeat("]", dagspec.MaxValueDepth+1))
	for name, c := range map[string]struct {
		ask  queue.Request
		code string
	}{
		"no such DAG":     {queue.Request{DAG: "none"}, "OA001"},
		"no such version": {queue.Request{DAG: "strict", Version: 9, Params: map[string]any{"n": 1}}, "OA001"},
		"missing param":   {queue.Request{DAG: "strict"}, "OA003"},
		"wrong type":      {queue.Request{DAG: "strict", Params: map[string]any{"n": "x"}}, "OA003"},
		"unknown param":   {queue.Request{DAG: "strict", Params: map[string]any{"n": 1, "m": 1}}, "OA003"},
		"no such queue":   {queue.Request{DAG: "strict", Params: map[string]any{"n": 1}, Queue: "none"}, "OA013"},
		"deep param":      {queue.Request{DAG: "free", Params: map[string]any{"v": deep}}, "OA012"},
		"deep result":     {queue.Request{DAG: "free", Precomputed: json.RawMessage(`{"a": {"outputs": {"x": ` + string(deep) + `}}}`)}, "OA012"},
		"late run_at":     {queue.Request{DAG: "free", RunAt: time.Date(9900, 1, 1, 0, 0, 0, 0, time.UTC)}, "OA013"},
		"old logical_at":  {queue.Request{DAG: "free", LogicalAt: time.Date(19, 12, 31, 0, 0, 0, 0, time.UTC)}, "OA013"},
	} {
		_, err := s.Client.Enqueue(s.Context(), c.ask)
		if err == nil {
			s.Errorf("%s: accepted", name)
			continue
		}
		s.wantCode(err, c.code)
	}
	s.idle(s.worker(), "nothing was accepted")
	_, err := s.Client.Get(s.Context(), 12345)
	s.wantError(err, queue.ErrNotFound)
}
