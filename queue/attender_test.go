package queue_test

import "testing"

const hourlyDAG = "name: hourly\nschedule: {name: hourly, every: 1h, catchup: true}\nsteps: [{id: a, run: \"true\"}]\n"

// passed sets the schedule of hourly back by an hour, as if an application had moved it in a transaction that stayed open until
// now.
func (f *sessionBundle) passed(t *testing.T) {
	t.Helper()
	for _, statement := range []string{
		"UPDATE oarlock.schedules SET decided_at = decided_at - interval '1 hour'",
		"UPDATE oarlock.agenda SET at = at - interval '1 hour'",
	} {
		if _, err := f.conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// Looks begin above the moment up to which nothing was due. An application may later commit an item that was due before that
// moment.
func TestAttend_FindsWhatBecomesDueLate(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, hourlyDAG)
	s := f.register(t)
	if look(t, s).Attend {
		t.Error("nothing is due, and it is to attend")
	}
	f.passed(t)
	sweep(t, s)
	if !look(t, s).Attend {
		t.Fatal("after a sweep it is not to attend to what is due")
	}
	done, err := s.Attend(t.Context())
	if err != nil || len(done.Decisions) != 1 || done.Decisions[0].Outcome != "fired" || done.Decisions[0].Schedule != "hourly" {
		t.Errorf("it did %+v, %v", done, err)
	}
	if look(t, s).Attend {
		t.Error("what was done is due still")
	}
}

// A due item stays due for looks, however long no worker attends to it.
func TestAttend_WhatIsDueStaysDue(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.put(t, hourlyDAG)
	s := f.register(t)
	f.passed(t)
	for n := range 3 {
		if !look(t, s).Attend {
			t.Fatalf("look %d: it is not to attend to what is due", n+1)
		}
	}
	if done, err := s.Attend(t.Context()); err != nil || len(done.Decisions) != 1 {
		t.Errorf("it did %+v, %v", done, err)
	}
}
