package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	schedulesSQL       = sql.Named("queue/schedules")
	firesSQL           = sql.Named("queue/fires")
	fireTimesSQL       = sql.Named("queue/fire_times")
	putScheduleSQL     = sql.Named("queue/put_schedule")
	dropScheduleSQL    = sql.Named("queue/drop_schedule")
	pauseScheduleSQL   = sql.Named("queue/pause_schedule")
	resumeScheduleSQL  = sql.Named("queue/resume_schedule")
	triggerScheduleSQL = sql.Named("queue/trigger_schedule")
)

// Schedule is a schedule as shown to users.
type Schedule struct {
	dagspec.Schedule // its Enabled is always true

	ID         int64
	DAG        string
	Owner      string // the user that owns the schedule; "": it stands in the DAG's file
	PausedBy   string
	PausedAt   time.Time
	PauseNote  string
	NextAt     time.Time      // when it fires next, including its jitter; zero: never, or it is paused or held back
	HeldFrom   time.Time      // since when an unfinished run, a full queue or an error holds it back; zero: nothing does
	Removed    bool           // the schedule's DAG was removed
	Last       Fire           // the newest decided fire time, without Times and DecidedAt; zero: none is decided
	Unfinished int            // unfinished runs of the schedule
	Failures   int            // consecutive failed runs
	Errors     int            // consecutive tries that could not decide a fire time because of an error of the database
	Error      string         // the error of the last such try
	Backfill   *BackfillState // set if the schedule is a backfill
}

// Key returns the key of exactly this schedule: with its owner, or with OfFile if it has none.
func (s *Schedule) Key() ScheduleKey {
	return ScheduleKey{DAG: s.DAG, Name: s.Name, Owner: s.Owner, OfFile: s.Owner == ""}
}

// ScheduleKey identifies a schedule. Without an owner it means the user's own schedule, or else the file's, or else another
// user's.
type ScheduleKey struct {
	DAG, Name string
	Owner     string
	OfFile    bool // the schedule in the DAG's file, even if a user has one of the same name
}

// args returns the arguments that name the schedule, added to more, which may be nil and is changed.
func (k *ScheduleKey) args(more pgx.StrictNamedArgs) pgx.StrictNamedArgs {
	if more == nil {
		more = pgx.StrictNamedArgs{}
	}
	more["dag"], more["name"], more["owner"] = k.DAG, k.Name, ownerOf(k.Owner, k.OfFile)
	return more
}

// ownerOf returns the owner argument of a statement: "" for a schedule of a DAG's file, and nil if neither an owner nor the file
// is named.
func ownerOf(owner string, ofFile bool) *string {
	if ofFile {
		return new("")
	}
	return given(owner)
}

// ScheduleFilter selects schedules. A zero field filters nothing.
type ScheduleFilter struct {
	DAG, Name string
	Owner     string
	OfFile    bool  // only schedules in the DAGs' files
	After     int64 // number of the last schedule of the page before
	Limit     int   // 0: DefaultPage
}

// Fire is the outcome of one fire time of a schedule, or of several consecutive ones.
type Fire struct {
	LogicalAt time.Time
	Until     time.Time // the last of several fire times; zero: there is only one
	Times     int       // number of fire times; 0: more than 1,000
	Outcome   string    // fired, skipped, dropped or refused
	Run       RunID     // 0: none
	RunState  string    // state of Run; "": the run no longer exists
	Reason    string
	DecidedAt time.Time
}

// Schedules reads the page of schedules that f selects, by number. f.Limit must be from 0 to MaxPage. Readers, workers and
// administrators see all schedules, other users their own.
func (s *Store) Schedules(ctx context.Context, f ScheduleFilter) ([]Schedule, error) {
	const op = "list schedules"
	limit := f.Limit
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 1 || limit > MaxPage {
		return nil, wrapError(op, fmt.Errorf("a page has 1 to %d schedules, not %d", MaxPage, limit))
	}
	schedules, err := list(ctx, s, schedulesSQL, pgx.StrictNamedArgs{
		"dag": given(f.DAG), "name": given(f.Name), "owner": ownerOf(f.Owner, f.OfFile), "after": f.After, "rows": limit,
	}, scanSchedule)
	return schedules, wrapError(op, err)
}

// Fires reads the outcomes of the fire times of a schedule at since or later, newest first, at most limit. A zero since sets no
// bound.
func (s *Store) Fires(ctx context.Context, k ScheduleKey, since time.Time, limit int) ([]Fire, error) {
	fires, err := list(ctx, s, firesSQL, k.args(pgx.StrictNamedArgs{"since": moment(since), "rows": limit}), scanFire)
	return fires, wrapError("list fires", err)
}

// FireTimes reads the next n fire times of a schedule, 1 to 1,000, without jitter. A pause does not change them.
func (s *Store) FireTimes(ctx context.Context, k ScheduleKey, n int) ([]time.Time, error) {
	times, err := list(ctx, s, fireTimesSQL, k.args(pgx.StrictNamedArgs{"n": n}), pgx.RowTo[time.Time])
	return times, wrapError("list times", err)
}

// PutSchedule makes or changes the user's schedule called put.Name. It ignores put.Enabled. It returns the schedule's number, and
// when the schedule fires next; zero means never, or that it is paused. Missing fields have the same defaults as in a file. The
// DAG must allow schedules of users, unless the user is an administrator.
func (s *Store) PutSchedule(ctx context.Context, dag string, put dagspec.Schedule) (id int64, next time.Time, err error) {
	const op = "put a schedule"
	text, err := json.Marshal(put)
	if err != nil {
		return 0, time.Time{}, wrapError(op, err)
	}
	args := pgx.StrictNamedArgs{"dag": dag, "schedule": string(text)}
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, putScheduleSQL, args).Scan(&id, (*zeronull.Timestamptz)(&next))
	}
	return id, next, wrapError(op, s.write(ctx, askTimeout, do, do))
}

// DropSchedule deletes a schedule of the user; an administrator may delete the schedules of every user. It refuses a schedule in
// a DAG's file, but not a backfill of it. It returns ErrNotFound if there is no such schedule. If the reply to the deletion is
// lost, it finds out that the schedule is gone, and returns nil.
func (s *Store) DropSchedule(ctx context.Context, k ScheduleKey) error {
	const op = "drop a schedule"
	sent := false
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, dropScheduleSQL, k.args(nil))
		return err
	}
	again := func(ctx context.Context, conn *pgxpool.Conn) error {
		sent = true
		return do(ctx, conn)
	}
	err := wrapError(op, s.write(ctx, askTimeout, do, again))
	if sent && errors.Is(err, ErrNotFound) { // the reply to the first try was lost, and that try has deleted it
		return nil
	}
	return err
}

// PauseSchedule stops a schedule from firing until it is resumed. An empty note keeps the old note.
func (s *Store) PauseSchedule(ctx context.Context, k ScheduleKey, note string) error {
	return wrapError("pause a schedule", s.change(ctx, pauseScheduleSQL, k.args(pgx.StrictNamedArgs{"note": given(note)})))
}

// ResumeSchedule resumes a paused schedule, and returns when it fires next. With catchUp, the fire times during the pause are
// decided as if no worker had been running meanwhile. Without it they are passed over.
func (s *Store) ResumeSchedule(ctx context.Context, k ScheduleKey, catchUp bool) (next time.Time, err error) {
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, resumeScheduleSQL, k.args(pgx.StrictNamedArgs{"catch_up": catchUp})).Scan((*zeronull.Timestamptz)(&next))
	}
	return next, wrapError("resume a schedule", s.write(ctx, askTimeout, do, do))
}

// TriggerSchedule starts a run of a schedule now, even if the schedule is held back or paused, and returns the run's number. at
// becomes the run's logical time; zero means now. If at has fired or was triggered already, TriggerSchedule returns that run and
// makes no other. With a zero at, a lost reply is ErrUnknown.
func (s *Store) TriggerSchedule(ctx context.Context, k ScheduleKey, at time.Time) (run RunID, err error) {
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, triggerScheduleSQL, k.args(pgx.StrictNamedArgs{"at": moment(at)})).Scan(&run)
	}
	again := do
	if at.IsZero() {
		again = unknown("look for the run among the newest runs before you repeat the request, or name the time")
	}
	return run, wrapError("trigger a schedule", s.write(ctx, askTimeout, do, again))
}

func scanSchedule(row pgx.CollectableRow) (s Schedule, err error) {
	var every, window, jitter zeronull.Int8
	var at, start, end zeronull.Timestamptz
	var b BackfillState
	var params []byte
	err = row.Scan(&s.ID, &s.DAG, &s.Name, (*zeronull.Text)(&s.Owner), (*zeronull.Text)(&s.Cron), &every, &at, &s.Timezone, &start, &end,
		&s.Except, &params, &s.Labels, &s.OverlapPolicy, &s.AtOnce, &s.Catchup, &window,
		&s.CatchupMax, &jitter, &s.PauseOnFailure, (*zeronull.Text)(&s.PausedBy), (*zeronull.Timestamptz)(&s.PausedAt),
		(*zeronull.Text)(&s.PauseNote), (*zeronull.Timestamptz)(&s.NextAt), (*zeronull.Timestamptz)(&s.Last.LogicalAt),
		(*zeronull.Text)(&s.Last.Outcome), (*zeronull.Int8)(&s.Last.Run), (*zeronull.Text)(&s.Last.Reason), &s.Unfinished, &s.Failures, &s.Errors, &s.Error,
		(*zeronull.Int8)(&b.Of), (*zeronull.Timestamptz)(&b.From), (*zeronull.Timestamptz)(&b.Until), (*zeronull.Text)(&b.Reprocess), &b.NewestFirst, &b.DecidedAt,
		(*zeronull.Timestamptz)(&s.HeldFrom), &s.Removed)
	if b.Of != 0 {
		s.Backfill = &b
	}
	s.Every, s.CatchupWindow, s.Jitter = dagspec.Duration(every), dagspec.Duration(window), dagspec.Duration(jitter)
	s.At, s.Start, s.End = momentText(time.Time(at)), momentText(time.Time(start)), momentText(time.Time(end))
	s.Enabled = true
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(params))
		d.UseNumber() // a param may hold a number that no float64 does
		err = d.Decode(&s.Params)
	}
	return s, err
}

// momentText formats a time as dagspec.Schedule holds it; "" for the zero time.
func momentText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func scanFire(row pgx.CollectableRow) (f Fire, err error) {
	var times zeronull.Int8
	err = row.Scan(&f.LogicalAt, (*zeronull.Timestamptz)(&f.Until), &times, &f.Outcome, (*zeronull.Int8)(&f.Run), (*zeronull.Text)(&f.RunState),
		&f.Reason, &f.DecidedAt)
	f.Times = int(times)
	return f, err
}

var (
	backfillSQL      = sql.Named("queue/backfill")
	backfillTimesSQL = sql.Named("queue/backfill_times")
)

// Backfill is a request for runs of past fire times of a schedule.
type Backfill struct {
	Of          ScheduleKey
	From, Until time.Time
	AtOnce      int    // most unfinished runs at a time; 0: 1
	Reprocess   string // missing, failed or all; "": missing
	NewestFirst bool
	Params      map[string]any // merged over the schedule's params
}

// BackfillState holds the fields that only a backfill has.
type BackfillState struct {
	Of          int64 // number of the schedule that it fills
	From, Until time.Time
	Reprocess   string // missing, failed or all
	NewestFirst bool
	DecidedAt   time.Time // all fire times up to it are decided; with NewestFirst all from it on
}

// BackfillTime is what a backfill would do with one fire time.
type BackfillTime struct {
	LogicalAt time.Time
	Outcome   string // fires, skipped
	Run       RunID  // the run because of which the time is skipped; 0: none
	Reason    string
}

// Backfill makes a backfill of the schedule b.Of, and returns its number N. The backfill is itself a schedule, called NAME#N
// after the schedule NAME that it fills, and is paused, resumed and dropped like any schedule. Its runs have a lower priority
// than live ones. A lost reply is ErrUnknown.
func (s *Store) Backfill(ctx context.Context, b *Backfill) (id int64, err error) {
	const op = "backfill"
	var merged any
	if b.Params != nil {
		merged = b.Params
	}
	params, err := jsonText("params", merged)
	if err != nil {
		return 0, wrapError(op, err)
	}
	args := b.args()
	args["at_once"], args["params"] = given(b.AtOnce), params
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, backfillSQL, args).Scan(&id)
	}
	return id, wrapError(op, s.write(ctx, askTimeout, do, unknown("look for the backfill among the schedules of the DAG before you repeat the request")))
}

// BackfillTimes reads the outcomes that a backfill b would have at present, for its first limit fire times in its order. limit is
// from 1 to 1,000. It changes nothing.
func (s *Store) BackfillTimes(ctx context.Context, b *Backfill, limit int) ([]BackfillTime, error) {
	args := b.args()
	args["rows"] = limit
	times, err := list(ctx, s, backfillTimesSQL, args, pgx.RowToStructByPos[BackfillTime])
	return times, wrapError("list times of a backfill", err)
}

func (b *Backfill) args() pgx.StrictNamedArgs {
	return b.Of.args(pgx.StrictNamedArgs{
		"from_at": moment(b.From), "until_at": moment(b.Until), "reprocess": given(b.Reprocess), "newest_first": b.NewestFirst,
	})
}
