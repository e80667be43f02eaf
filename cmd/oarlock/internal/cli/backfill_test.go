package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// Submitters backfill their own schedules; readers see backfills and make none; administrators make and steer all.
func TestBackfill_EachRoleMakesItsOwn(t *testing.T) {
	t.Parallel()
	db := withRoleLogins(t)
	file := filepath.Join(t.TempDir(), "x.yaml")
	writeFile(t, file, "name: x\nallow: {schedules: true}\nparams: [{name: day, required: true}, {name: n, default: q}]\nschedule: {name: filed, cron: '@daily', params: {day: a}}\nsteps: [{id: a, action: noop}]\n")
	for _, c := range []struct {
		role, line string
		exit       exit
		want       string // in the output
	}{
		{toAdmin, "dag apply " + file, exitOK, "applied"},
		{toSubmit, "schedules put x mine --cron @daily -p day=b", exitOK, "put mine of x"},
		{toSubmit, "backfill x --from 3d --until 0s", exitOK, "made mine#3 of x: 3 times at most"},
		{toSubmit, "backfill x filed --from 3d --until 0s", exitNotFound, "dag x has no schedule filed\nhint: the DAG has mine"},
		{toRead, "backfill x filed --from 3d --until 0s --dry-run", exitError, "grant oarlock_submit to this user"},
		{toRead, "backfill x filed --from 3d --until 0s", exitError, "grant oarlock_submit to this user"},
		{toAdmin, "backfill x filed --from 3d --until 0s -p n=2", exitOK, "made filed#4 of x: 3 times at most"},
		{toSubmit, "backfill list -o id", exitOK, "x 'mine#3'\n"},
		{toRead, "backfill list -o id", exitOK, "x 'mine#3'\nx 'filed#4'\n"},
		{toRead, "backfill cancel x mine#3", exitError, "grant oarlock_submit to this user"},
		{toSubmit, "backfill pause x", exitOK, "paused mine#3 of x"},
		{toAdmin, "backfill resume x mine#3", exitOK, "resumed mine#3 of x: it goes on from"},
		{toSubmit, "backfill cancel x", exitOK, "canceled mine#3 of x"},
		{"nobody", "backfill list", exitError, "grant oarlock_submit to this user"},
	} {
		got := invoke(t, testEnv(), append(strings.Fields(c.line), "--database-url", loginAs(t, db, c.role))...)
		if got.exit != c.exit || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%s as %s: exit %d, want %d with %q\n%s%s", c.line, c.role, got.exit, c.exit, c.want, got.stdout, got.stderr)
		}
	}
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	b := queue.Backfill{Of: queue.ScheduleKey{DAG: "x", Name: "filed"}, From: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC)}
	for _, b.NewestFirst = range []bool{false, true} {
		want, err := allBackfillTimes(t.Context(), store, b, timesMax)
		if err != nil || len(want) != 7 {
			t.Fatal(want, err)
		}
		for _, page := range []int{3, 4, 7} {
			if got, err := allBackfillTimes(t.Context(), store, b, page); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("in pages of %d, newest first %v: %v, %v, want %v", page, b.NewestFirst, got, err, want)
			}
		}
	}
}
