package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/migrations"
)

// moveTo records another place as the one where workers served the database.
func (b bundle) moveTo(t *testing.T, change string) {
	t.Helper()
	must(t, b.conn, "SELECT oarlock.vouch()")
	must(t, b.conn, "UPDATE oarlock.installation SET "+change)
}

func (b bundle) installation(t *testing.T) *migrations.Installation {
	t.Helper()
	i, err := migrations.ReadInstallation(t.Context(), b.conn)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestInstallation_IsMadeWithTheSchemaAndTakesAnyPlaceUntilItIsServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustUp(t) // here, where a copy of a template would have been made elsewhere
	made := b.installation(t)
	if made.IsServed || made.Here != made.Served || made.Here.Server == 0 || made.Here.Database == 0 || made.Here.Timeline != 1 || !version7.MatchString(made.ID) {
		t.Errorf("made: %+v", made)
	}
	must(t, b.conn, "SELECT oarlock.vouch()")
	if is := b.installation(t); is.ID != made.ID || !is.InPlace() {
		t.Errorf("the first worker makes %+v of %+v", is, made)
	}
	clone := api(t) // of a template that no worker has served
	template := clone.installation(t)
	if err := template.Judge(false); err != nil {
		t.Error(err)
	}
	must(t, clone.conn, "SELECT oarlock.vouch()")
	if is := clone.installation(t); is.ID == template.ID || !is.InPlace() {
		t.Errorf("a clone of a template is %+v, as the template: %+v", is, template)
	}
}

func TestInstallation_SomebodyVouchesForANewTimelineAlone(t *testing.T) {
	t.Parallel()
	for change, c := range map[string]struct {
		passes, known bool
		says          string
	}{
		"server = server + 1":                        {false, false, "this may be a copy"},
		"database = 1":                               {false, false, "it is in database "},
		"timeline = 7":                               {true, true, "its server is in timeline 1; workers served timeline 7"},
		"server = NULL, timeline = NULL":             {false, true, ""},
		"adopting = true":                            {false, false, "is being made installation"},
		"adopting = true, timeline = 7":              {false, false, "go on with `oarlock migrate adopt --copy`"},
		"served_at = NULL, database = 1, server = 1": {false, true, ""},
	} {
		b := migrated(t)
		b.moveTo(t, change)
		err := b.installation(t).Judge(false)
		var refused *migrations.CopyError
		if is := errors.As(err, &refused); is != (c.says != "") || is && (refused.Passes() != c.passes || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", change, err)
		}
		if err := b.installation(t).Judge(true); (err == nil) != c.known {
			t.Errorf("%s, by a worker that knows it: %v", change, err)
		}
		id := get[*string](t, b.conn, "SELECT oarlock.vouch()::text")
		if is := b.installation(t); is.InPlace() != c.known || (id == nil) == c.known {
			t.Errorf("%s: vouched, it is %+v", change, is)
		}
	}
}

// copied is a database with runs in each state, said to be served elsewhere: 1 finished, 2 claimed, 3 parked with an
// approval, 4 queued with a key, 5 its child.
func copied(t *testing.T) bundle {
	t.Helper()
	b := apiWithRoles(t)
	for range 3 {
		enqueue(t, b.conn)
	}
	must(t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => 'k')`)
	must(t, b.conn, `SELECT oarlock.enqueue_child(2, 0, '', 0, 1, 1, 'report', '{"day": "x"}')`)
	b.finish(t, 1, 0)
	must(t, b.conn, "DELETE FROM oarlock.controls")
	must(t, b.conn, "UPDATE oarlock.attempts SET started_at = now(), finished_at = now()")
	b.claim(t, 2)
	must(t, b.conn, "INSERT INTO oarlock.fences SELECT worker_id, 'commit' FROM oarlock.workers")
	must(t, b.conn, "INSERT INTO oarlock.tasks (run_id, step, state, attempt, generation, epoch, seq, log_day, attempt_at, started_at) VALUES (2, 0, 'running', 1, 1, 1, 1, '2020-01-01', now(), now())")
	b.claim(t, 3)
	b.waits(t, 3, 2, "sure?", nil)
	b.leave(t, 3, "waiting")
	must(t, b.conn, "SELECT oarlock.pause(3)")
	b.moveTo(t, "database = 1")
	return b
}

func TestAdopt_ACopyEndsTheRunsOfItsOriginal(t *testing.T) {
	t.Parallel()
	b := copied(t)
	was := b.installation(t)
	const call = "SELECT concat_ws(' ', a.canceled, a.is_done) FROM oarlock.adopt($1, false, 3) a"
	if got := get[string](t, b.conn, call, was.ID); got != "3 f" {
		t.Errorf("the first batch: %s", got)
	}
	if err := b.installation(t).Judge(true); err == nil {
		t.Error("a worker may come while runs of the original are open")
	}
	wantCode(t, b.conn, "55000", "SELECT oarlock.adopt($1, true)", was.ID)
	if n, err := migrations.AdoptCopy(t.Context(), b.url, was); err != nil || n != 1 {
		t.Errorf("the rest: %d, %v", n, err)
	}
	if again, err := migrations.AdoptCopy(t.Context(), b.url, was); err != nil || again != 0 {
		t.Errorf("a call whose reply was lost: %d, %v", again, err)
	}
	is := b.installation(t)
	if is.ID == was.ID || is.CopiedFrom != was.ID || !is.InPlace() {
		t.Errorf("it is %+v", is)
	}
	if got := strings.Join(b.list(t, "SELECT run_id || ' ' || state FROM oarlock.runs ORDER BY run_id"), ", "); got != "1 succeeded, 2 canceled, 3 canceled, 4 canceled, 5 canceled" {
		t.Error(got)
	}
	if got := b.list(t, "SELECT DISTINCT reason FROM oarlock.runs WHERE state = 'canceled'"); len(got) != 1 || !strings.HasSuffix(got[0], "this database is a copy, and installation "+was.ID+" goes on with the run") {
		t.Errorf("reasons %q", got)
	}
	pgtest.CheckInvariants(t, b.conn)
}

func TestAdopt_NothingOfTheOriginalIsRetriedInACopy(t *testing.T) {
	t.Parallel()
	b := copied(t)
	was := b.installation(t)
	if _, err := migrations.AdoptCopy(t.Context(), b.url, was); err != nil {
		t.Fatal(err)
	}
	for _, run := range []int64{1, 2, 4} {
		if got := answer(t, b.conn, "retry($1)", run); !strings.HasPrefix(got, "refused") || !strings.Contains(got, "make a new run of it (oarlock retry ") {
			t.Errorf("retry of run %d: %s", run, got)
		}
	}
	again := get[int64](t, b.conn, "SELECT oarlock.rerun(1)")
	own := enqueue(t, b.conn)
	if keyed := get[int64](t, b.conn, `SELECT oarlock.enqueue('report', '{"day": "x"}', run_key => 'k')`); keyed != 4 {
		t.Errorf("the key of run 4 leads to run %d", keyed)
	}
	if !strings.HasPrefix(b.state(t, again), "queued") || !strings.HasPrefix(b.state(t, own), "queued") {
		t.Errorf("new runs are %s and %s", b.state(t, again), b.state(t, own))
	}
	must(t, b.conn, "SELECT oarlock.cancel($1)", own)
	if got := answer(t, b.conn, "retry($1)", own); strings.HasPrefix(got, "refused") {
		t.Errorf("retry of the copy's own run: %s", got)
	}
}

func TestAdopt_WhatMovedGoesOn(t *testing.T) {
	t.Parallel()
	b := copied(t)
	was := b.installation(t)
	before := b.list(t, "SELECT run_id || state || uid FROM oarlock.runs ORDER BY run_id")
	if err := migrations.Adopt(t.Context(), b.url, was); err != nil {
		t.Fatal(err)
	}
	if is := b.installation(t); is.ID != was.ID || !is.InPlace() {
		t.Errorf("it is %+v, and was %+v", is, was)
	}
	if after := b.list(t, "SELECT run_id || state || uid FROM oarlock.runs ORDER BY run_id"); !equal(before, after) {
		t.Errorf("runs changed from %v to %v", before, after)
	}
}

func TestAdopt_IsForTheOwnerWhileNobodyWorks(t *testing.T) {
	t.Parallel()
	b := copied(t)
	was := b.installation(t)
	for _, role := range []string{"oarlock_admin", "oarlock_worker", "oarlock_submit", "oarlock_read"} {
		wantCode(t, b.user(t, role, role), "42501", "SELECT oarlock.adopt($1, true)", was.ID)
	}
	busy := connect(t, b.url)
	must(t, busy, "SELECT set_config('application_name', 'oarlock/' || worker_id, false) FROM oarlock.workers WHERE name = 'w2'")
	wantCode(t, b.conn, "55006", "SELECT oarlock.adopt($1, true)", was.ID)
	if err := migrations.Adopt(t.Context(), b.url, was); err == nil || !strings.Contains(err.Error(), "worker w2 is connected") {
		t.Errorf("with a worker at work: %v", err)
	}
	wantCode(t, b.conn, "55006", "SELECT oarlock.adopt(NULL, true)")
}
