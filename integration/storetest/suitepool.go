package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Rates, closed pools and calls that come late are promises of the database alone: the store in memory has none of them. Tests of
// package migrations show them.
var poolPromises = []promise{
	{"a pool is new once, and must limit something", poolIsSet},
	{"a pool grants as many permits as it has slots", poolSlots},
	{"a permit takes as many slots as it weighs, and lets lighter ones pass while it waits", poolWeights},
	{"a permit of two pools is granted as a whole or not at all", poolsTogether},
	{"a pool by key has its slots for each key, and another pool ignores keys", poolKeys},
	{"permits go to the run of the highest priority, then to its step, then to the one that waits longest", poolOrder},
	{"a permit that is left out goes to the next worker, which is told", permitGivenBack},
	{"a permit says whether another worker waits for its pool", permitContested},
	{"a permit that a body has comes back after the store lost it", permitComesBack},
	{"a lost worker has no permits", permitsOfTheLost},
	{"a worker that closes has no permits", permitsOfTheClosed},
	{"a permit of a pool that does not exist waits until there is one", poolUnknown},
	{"a key that a service wants left alone grants nothing for a while, and other keys do", poolLeftAlone},
	{"new runs of a lane that a worker skips stay in the queue, and hold up no other", poolSkipped},
}

// setPool makes a pool, or changes it.
func (s *setup) setPool(pool string, limits queue.PoolLimits) {
	s.Helper()
	_, err := s.Admin.SetPool(s.Context(), pool, limits)
	s.must(err)
}

// wanted returns permits with the numbers from 1, one for each list of pools. A worker that has a number must not use it for other
// pools, before it has given the permit back. Pools are written as in "heavy", "heavy=2" for a
// weight, "crm/acme" for a key, or "heavy total" for two pools.
func wanted(lists ...string) []queue.Permit {
	all := make([]queue.Permit, len(lists))
	for i, list := range lists {
		all[i] = queue.Permit{Nth: int64(i + 1), Run: 1}
		for use := range strings.FieldsSeq(list) {
			u := dagrun.PoolUse{Weight: 1}
			use, weight, hasWeight := strings.Cut(use, "=")
			if hasWeight {
				_, _ = fmt.Sscan(weight, &u.Weight)
			}
			u.Pool, u.Key, _ = strings.Cut(use, "/")
			all[i].Pools = append(all[i].Pools, u)
		}
	}
	return all
}

// permits calls Permits, and returns the answers by the numbers of the permits.
func (s *setup) permits(w Session, all []queue.Permit) map[int64]queue.PermitAnswer {
	s.Helper()
	answers, err := w.Permits(s.Context(), all)
	s.must(err)
	byNth := map[int64]queue.PermitAnswer{}
	for _, a := range answers {
		byNth[a.Nth] = a
	}
	if len(byNth) != len(all) {
		s.Errorf("%d answers to %d permits", len(byNth), len(all))
	}
	return byNth
}

// wantGranted calls Permits, and fails the test unless exactly the permits with these numbers are granted.
func (s *setup) wantGranted(w Session, all []queue.Permit, want ...int64) {
	s.Helper()
	answers := s.permits(w, all)
	var got []int64
	for _, p := range all {
		if answers[p.Nth].Granted {
			got = append(got, p.Nth)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Fatalf("the permits %v are granted, not %v", got, want)
	}
}

func poolIsSet(s *setup) {
	for _, want := range []bool{true, false} {
		if isNew, err := s.Admin.SetPool(s.Context(), "heavy", queue.PoolLimits{Slots: 2}); err != nil || isNew != want {
			s.Errorf("new: %t, %v; want %t", isNew, err, want)
		}
	}
	_, err := s.Admin.SetPool(s.Context(), "heavy", queue.PoolLimits{})
	s.wantCode(err, "OA013")
	s.wantGranted(s.worker(), wanted("heavy", "heavy", "heavy"), 1, 2)
}

func poolSlots(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 3})
	s.setPool("other", queue.PoolLimits{Slots: 1})
	a, b := s.worker(), s.worker()
	s.wantGranted(a, wanted("heavy", "heavy"), 1, 2)
	s.wantGranted(a, wanted("heavy", "heavy"), 1, 2) // the second call asks for nothing new
	s.wantGranted(b, wanted("heavy", "heavy", "other"), 1, 3)
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	s.wantGranted(a, wanted("heavy", "heavy"), 1, 2) // what is granted stays
	s.wantGranted(a, wanted("heavy"), 1)
	s.wantGranted(b, wanted("heavy", "heavy", "other"), 1, 3)
	s.wantGranted(a, nil)
	s.wantGranted(b, wanted("heavy", "heavy", "other"), 1, 3)
	s.setPool("heavy", queue.PoolLimits{Slots: 2})
	s.wantGranted(b, wanted("heavy", "heavy", "other"), 1, 2, 3)
}

func poolWeights(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 4})
	w := s.worker()
	all := wanted("heavy=3", "heavy=2", "heavy", "heavy")
	s.wantGranted(w, all, 1, 3)
	s.wantGranted(w, all[1:], 2, 3, 4)
}

func poolsTogether(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	s.setPool("total", queue.PoolLimits{Slots: 1})
	a, b, c := s.worker(), s.worker(), s.worker()
	s.wantGranted(a, wanted("total"), 1)
	s.wantGranted(b, wanted("total heavy"))
	s.wantGranted(c, wanted("heavy"), 1) // what waits for both has taken none
	s.wantGranted(a, nil)
	s.wantGranted(b, wanted("total heavy"))
	s.wantGranted(a, wanted("total"), 1)
	s.wantGranted(c, nil)
	s.wantGranted(a, nil)
	s.wantGranted(b, wanted("total heavy"), 1)
	s.wantGranted(a, wanted("total", "heavy"))
	s.wantGranted(b, nil)
	s.wantGranted(a, wanted("total", "heavy"), 1, 2)
}

func poolKeys(s *setup) {
	s.setPool("crm", queue.PoolLimits{Slots: 1, PerKey: true})
	s.setPool("heavy", queue.PoolLimits{Slots: 2})
	a, b := s.worker(), s.worker()
	s.wantGranted(a, wanted("crm/acme", "crm/acme", "crm/bolt", "heavy/acme"), 1, 3, 4)
	s.wantGranted(b, wanted("crm/acme", "crm", "heavy/bolt", "heavy"), 2, 3)
	s.wantGranted(a, nil)
	s.wantGranted(b, wanted("crm/acme", "crm", "heavy/bolt", "heavy"), 1, 2, 3, 4)
}

func poolOrder(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	a, b := s.worker(), s.worker()
	s.wantGranted(a, wanted("heavy"), 1)
	all := wanted("heavy", "heavy", "heavy", "heavy", "heavy")
	all[1].StepPriority, all[2].Priority, all[3].Priority, all[3].StepPriority = 9, 1, 1, 1
	s.wantGranted(b, all)
	s.wantGranted(a, nil)
	for _, next := range []int64{4, 3, 2, 1, 5} {
		s.wantGranted(b, all, next)
		all = slices.DeleteFunc(all, func(p queue.Permit) bool { return p.Nth == next })
	}
}

func permitGivenBack(s *setup) {
	s.put(single)
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	a, b, c := s.worker(), s.worker(), s.worker()
	s.listens(b)
	s.wantGranted(a, wanted("heavy"), 1)
	s.wantGranted(b, wanted("heavy"))
	s.wantGranted(c, wanted("heavy"))
	s.wantGranted(a, nil)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		heard, err := b.Hear(ctx)
		s.must(err)
		if heard.Permits {
			break
		}
	}
	s.wantGranted(c, wanted("heavy"))
	s.wantGranted(b, wanted("heavy"), 1)
}

func permitContested(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	s.setPool("crm", queue.PoolLimits{Slots: 1, PerKey: true})
	a, b := s.worker(), s.worker()
	all := wanted("heavy", "crm/acme", "heavy")
	want := func(why string, heavy, crm bool) {
		s.Helper()
		answers := s.permits(a, all)
		if answers[1].Contested != heavy || answers[2].Contested != crm {
			s.Errorf("%s: %+v", why, answers)
		}
	}
	want("only the worker itself waits", false, false)
	s.wantGranted(b, wanted("heavy", "crm/bolt"), 2)
	want("another worker waits, and has another key", true, false)
	s.wantGranted(b, nil)
	s.wantGranted(b, wanted("heavy", "crm/acme"))
	want("another worker waits for both", true, true)
	if b := s.permits(b, wanted("heavy", "crm/acme")); !b[1].Contested || b[2].Contested {
		s.Errorf("the first worker waits for one more of heavy, and for none of crm: %+v", b)
	}
	s.wantGranted(b, nil)
	want("the other worker waits no more", false, false)
}

func permitComesBack(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	a, b, c := s.worker(), s.worker(), s.worker()
	s.wantGranted(a, wanted("heavy"), 1)
	held := wanted("heavy")
	held[0].Held = true
	s.wantGranted(b, held, 1) // the pool has more than it allows
	s.wantGranted(c, wanted("heavy"))
	s.wantGranted(a, nil)
	s.wantGranted(c, wanted("heavy"))
	s.wantGranted(b, nil)
	s.wantGranted(c, wanted("heavy"), 1)
}

func permitsOfTheLost(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	a, b := s.worker(s.shortLived), s.worker()
	s.wantGranted(a, wanted("heavy"), 1)
	s.until("a look asks for a sweep", func() bool {
		s.wantGranted(b, wanted("heavy")) // silence alone frees nothing
		return s.look(b).Sweep
	})
	s.until("the silent worker is lost", func() bool { s.look(b); return len(s.sweep(b).Lost) > 0 })
	s.wantGranted(b, wanted("heavy"), 1)
	_, err := a.Permits(s.Context(), wanted("heavy"))
	s.wantError(err, queue.ErrNoPermits)
	s.wantGranted(b, wanted("heavy"), 1)
}

func permitsOfTheClosed(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	a, b := s.worker(), s.worker()
	s.wantGranted(a, wanted("heavy", "heavy"), 1)
	s.must(a.Close(s.Context()))
	s.wantGranted(b, wanted("heavy"), 1)
}

func poolUnknown(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	w := s.worker()
	s.wantGranted(w, wanted("later", "heavy", "heavy later"), 2)
	s.wantGranted(w, wanted("later"))
	s.setPool("later", queue.PoolLimits{Slots: 1})
	s.wantGranted(w, wanted("later"), 1)

	// Permits may wait by key before it is known that the pool ignores keys.
	other := s.worker()
	s.wantGranted(w, nil)
	s.wantGranted(w, wanted("last/acme"))
	s.wantGranted(other, wanted("last/bolt"))
	s.setPool("last", queue.PoolLimits{Slots: 1})
	s.wantGranted(w, wanted("last/acme"), 1)
	s.wantGranted(other, wanted("last/bolt"))
}

// Of these DAGs the first begins with a pool, and has a lane of its own.
const (
	begins   = "name: begins\nsteps: [{id: a, run: x, pool: heavy}, {id: b, run: x, depends: [a]}]\n"
	goesOn   = "name: goeson\nsteps: [{id: a, action: approval}, {id: b, run: x, depends: [a], pool: heavy}]\n"
	usesNone = "name: none\nsteps: [{id: a, action: approval}]\n"
)

func poolSkipped(s *setup) {
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	for _, source := range []string{begins, goesOn, usesNone} {
		s.put(source)
	}
	w := s.worker()
	ids := make([]queue.RunID, 5)
	for i, dag := range []string{"begins", "begins", "begins", "goeson", "none"} {
		ids[i] = s.enqueue(queue.Request{DAG: dag})
	}
	first := s.poll(w, queue.Want{Slots: 1, Free: 1}).Claims[0]
	want := func(skip []int, runs ...queue.RunID) {
		s.Helper()
		s.look(w)
		var got []queue.RunID
		for _, c := range s.poll(w, queue.Want{Slots: 100, Free: 100, Skip: skip}).Claims {
			got = append(got, c.Run)
		}
		slices.Sort(got)
		if !slices.Equal(got, runs) {
			s.Fatalf("claimed the runs %v without lanes %v, want %v", got, skip, runs)
		}
	}
	s.wantGranted(w, wanted("heavy", "heavy"), 1)
	want([]int{first.Lane, 12345}, ids[3], ids[4])
	if r := s.get(ids[1]); r.Reason != "waits for pool heavy, for which other runs wait already" {
		s.Errorf("it %s", r.Reason)
	}
	s.must(w.Release(s.Context(), first, true, 0))
	want([]int{first.Lane})
	want(nil, ids[0], ids[1], ids[2])
}

func poolLeftAlone(s *setup) {
	s.setPool("crm", queue.PoolLimits{Slots: 2, PerKey: true})
	s.setPool("heavy", queue.PoolLimits{Slots: 1})
	w := s.worker()
	all := wanted("crm/acme", "crm/bolt", "heavy", "crm/acme")
	s.wantGranted(w, all[:1], 1)
	leave := func(pause time.Duration) {
		s.must(w.LeaveAlone(s.Context(), 1, []dagrun.PoolUse{{Pool: "crm", Key: "acme"}, {Pool: "heavy"}, {Pool: "gone"}}, pause))
	}
	leave(time.Hour)
	leave(time.Millisecond) // a longer pause stays
	s.wantGranted(w, all, 1, 2, 3)
	if answers := s.permits(w, all); !answers[1].Once || answers[2].Once {
		s.Errorf("the closed key has %+v, the open one %+v", answers[1], answers[2])
	}
}
