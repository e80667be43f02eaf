package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// Submitters have their own schedules if a DAG allows that; readers see all and steer none; administrators steer all.
func TestSchedules_EachRoleSteersItsOwn(t *testing.T) {
	t.Parallel()
	db := withRoleLogins(t)
	file := filepath.Join(t.TempDir(), "x.yaml")
	writeFile(t, file, "name: x\nallow: {schedules: true}\nschedule: {name: filed, cron: '@daily'}\nsteps: [{id: a, action: noop}]\n")
	closed := filepath.Join(t.TempDir(), "closed.yaml")
	writeFile(t, closed, "name: closed\nsteps: [{id: a, action: noop}]\n")
	for _, c := range []struct {
		role, line string
		exit       exit
		want       string // in the output
	}{
		{toAdmin, "dag apply " + file + " " + closed, exitOK, "applied"},
		{toSubmit, "schedules", exitOK, "there is no schedule that you may see"},
		{toSubmit, "schedules put x mine --cron @hourly", exitOK, "put mine of x: it fires next"},
		{toSubmit, "schedules put closed mine --cron @hourly", exitInvalid, "hint: have it say allow: {schedules: true}"},
		{toSubmit, "schedules put y mine --cron @hourly", exitNotFound, "`oarlock dag list` is for logins with oarlock_read"},
		{toSubmit, "schedules -o id", exitOK, "x mine\n"},
		{toSubmit, "schedules pause x filed", exitNotFound, "dag x has no schedule filed\nhint: the DAG has mine"},
		{toSubmit, "schedules trigger x mine -o id", exitOK, "1\n"},
		{toSubmit, "schedules fires x mine", exitOK, "fired"},
		{toSubmit, "schedules pause x", exitOK, "paused mine of x"},
		{toRead, "schedules -o id", exitOK, "x filed\nx mine\n"},
		{toRead, "schedules pause x filed", exitError, "grant oarlock_submit to this user"},
		{toRead, "schedules next x filed", exitOK, "in "},
		{toAdmin, "schedules resume x mine", exitOK, "resumed mine of x: it fires next"},
		{toAdmin, "schedules rm x mine", exitOK, "removed mine of x"},
		{"nobody", "schedules", exitError, "grant oarlock_submit to this user"},
	} {
		got := invoke(t, testEnv(), append(strings.Fields(c.line), "--database-url", loginAs(t, db, c.role))...)
		if got.exit != c.exit || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%s as %s: exit %d, want %d with %q\n%s%s", c.line, c.role, got.exit, c.exit, c.want, got.stdout, got.stderr)
		}
	}
	execFile(t, db, "also_reads_all.sql")
	got := invoke(t, testEnv(), "schedules", "pause", "x", "filed", "--database-url", loginAs(t, db, toSubmit))
	if got.exit != exitNotFound || !strings.Contains(got.stderr, "belongs to the DAG's file: you may steer only your own schedules\nhint: have an administrator grant oarlock_admin to this user") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}
