package cli

import (
	"strings"
	"testing"
)

// A user with only oarlock_submit steers its own runs and reads their logs. For anything else, the hint tells it which role
// to ask for.
func TestSubmitters_SteerTheirOwnRuns(t *testing.T) {
	t.Parallel()
	e := asSubmitter(t)
	for _, c := range []struct {
		line   string
		want   exit
		stdout string
		stderr string
	}{
		{"enqueue etl -o id", exitOK, "1\n", ""},
		{"cancel 99", exitNotFound, "", "there is no run 99, or it is not yours\nhint: `oarlock list` shows the runs you may see\n"},
		{"logs 99", exitNotFound, "", "there is no run 99, or it is not yours"},
		{"cancel --dag etl", exitOK, "run 1: cancel applied (canceled)\n", ""},
		{"logs 1", exitOK, "", "nothing was written"},
		{"retry 1 -p extra=[1]", exitOK, "run 2: a new run, made from run 1", ""},
		{"retry 99 --latest", exitNotFound, "", "there is no run 99, or it is not yours"},
		{"stats", exitError, "", "have an administrator grant oarlock_read to this user"},
		{"top", exitError, "", "have an administrator grant oarlock_read to this user"},
		{"prune --dry-run", exitError, "", "have an administrator grant oarlock_read to this user"},
		{"prune", exitError, "", "have an administrator grant oarlock_admin to this user"},
	} {
		got := invoke(t, e, strings.Fields(c.line)...)
		if got.exit != c.want || !strings.HasPrefix(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.line, got.exit, c.want, got.stdout, got.stderr)
		}
	}
}

// A user with oarlock_read and oarlock_submit still steers only its own runs. The hint names the role that would help, and
// no role that the user has.
func TestSubmitters_SeeWhatTheyMayNotSteer(t *testing.T) {
	t.Parallel()
	e, db := submitterOf(t)
	execFile(t, db, "also_reads.sql")
	if got := invoke(t, testEnv(), "enqueue", "etl", "--database-url", db.URL); got.exit != exitOK {
		t.Fatal(got.stderr)
	}
	for _, c := range []struct {
		line string
		want exit
		hint string
	}{
		{"cancel 1", exitNotFound, "you may steer only your own runs\nhint: have an administrator grant oarlock_admin to this user\n"},
		{"pause 1", exitNotFound, "you may steer only your own runs\nhint: have an administrator grant oarlock_admin to this user\n"},
		{"cancel 2", exitNotFound, "hint: `oarlock list` shows the runs you may see\n"},
	} {
		got := invoke(t, e, strings.Fields(c.line)...)
		if got.exit != c.want || !strings.Contains(got.stderr, c.hint) {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.line, got.exit, c.want, got.stdout, got.stderr)
		}
	}
}

// The command that ends a pause is offered only to a login that may end the pause.
func TestSubmitters_AreOfferedNoPauseToEnd(t *testing.T) {
	t.Parallel()
	e, db := submitterOf(t)
	execFile(t, db, "also_reads.sql")
	for _, line := range []string{"queues pause default", "dag pause etl", "enqueue etl"} {
		if got := invoke(t, testEnv(), append(strings.Fields(line), "--database-url", db.URL)...); got.exit != exitOK {
			t.Fatal(got.stderr)
		}
	}
	const reason, cure = "queue default is paused by ", "  oarlock queues resume default\n  oarlock dag resume etl\n"
	if got := invoke(t, e, "status", "1"); got.exit != exitOK || !strings.Contains(got.stdout, reason) || strings.Contains(got.stdout, "queues resume") {
		t.Errorf("a submitter: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	if got := invoke(t, testEnv(), "status", "1", "--database-url", db.URL); !strings.Contains(got.stdout, cure) {
		t.Errorf("an administrator: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
}

// A login that may not see workers learns too that no worker claims here.
func TestSubmitters_HearOfACopy(t *testing.T) {
	t.Parallel()
	e, db := submitterOf(t)
	execFile(t, db, "elsewhere.sql")
	for _, line := range []string{"enqueue etl", "status 1"} {
		got := invoke(t, e, strings.Fields(line)...)
		if got.exit != exitOK || !strings.Contains(got.stdout, "this may be a copy of installation ") || strings.Contains(got.stdout, "start one with") {
			t.Errorf("%s: exit %d\n%s%s", line, got.exit, got.stdout, got.stderr)
		}
	}
}
