package storetest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/dagrun/schedule"
	"github.com/oarlock-dev/oarlock/queue"
)

// Bounds of lateness, with the values that the database uses.
const (
	lateAfter  = time.Minute
	lateAtMost = 10 * time.Minute // without catchup: a fire is dropped at half the interval, or at this lateness
	fullFor    = time.Minute      // how long a fire waits for a full queue, under overlap policies that wait for nothing else
	blockedFor = time.Minute      // when a schedule that is held back is attended to again, unless a run ends before
)

// scheduleRow is a schedule of a DAG's file.
type scheduleRow struct {
	id       int64
	dag      *dag
	spec     dagspec.Schedule
	clock    *schedule.Clock
	decided  time.Time // the newest fire time that is decided
	at       time.Time // when to attend to it; zero: never
	held     time.Time // fire times since then do not count as late; zero: nothing is held back
	failures int       // failed runs in a row
	paused   string    // why it is paused; "": it is not
	fires    []Fire
}

// Fire is the outcome of one fire time of a schedule.
type Fire struct {
	At      time.Time
	Outcome string
	Run     queue.RunID
}

// Fires returns the decided fire times of a DAG's schedule, in the order of the decisions.
func (m *Memory) Fires(dag, name string) []Fire {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.schedules {
		if s.dag.name == dag && s.spec.Name == name {
			return slices.Clone(s.fires)
		}
	}
	return nil
}

// syncSchedules replaces a DAG's schedules by those of its current version.
func (m *Memory) syncSchedules(d *dag) error {
	var kept []*scheduleRow
	for _, spec := range d.current.spec.Schedule {
		if !spec.Enabled {
			continue
		}
		clock, err := schedule.New(spec.Timing())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(m.schedules, func(s *scheduleRow) bool { return s.dag == d && s.spec.Name == spec.Name })
		if i < 0 {
			m.scheduleIDs++
			s := &scheduleRow{id: m.scheduleIDs, dag: d, spec: spec, clock: clock, decided: m.now()}
			s.arm()
			kept = append(kept, s)
			continue
		}
		s := m.schedules[i]
		moved := string(spell(s.spec.Timing())) != string(spell(spec.Timing()))
		if moved {
			for _, at := range s.due(m.now()) {
				s.fires = append(s.fires, Fire{At: at, Outcome: "dropped"})
			}
			s.decided = later(s.decided, m.now())
		}
		if s.spec, s.clock = spec, clock; moved {
			s.arm()
		}
		kept = append(kept, s)
	}
	m.schedules = slices.DeleteFunc(m.schedules, func(s *scheduleRow) bool { return s.dag == d })
	m.schedules = append(m.schedules, kept...)
	return nil
}

// placeSchedules lets a DAG's schedules count from now on, because the DAG was taken out of service or back into it.
func (m *Memory) placeSchedules(d *dag) {
	for _, s := range m.schedules {
		if s.dag == d {
			s.decided = later(s.decided, m.now())
			s.arm()
		}
	}
}

// arm puts the next fire time on the agenda.
func (s *scheduleRow) arm() {
	s.at, s.held = time.Time{}, time.Time{}
	if next, ok := s.clock.Next(s.decided); ok && s.paused == "" && !s.dag.removed {
		s.at = next.Add(s.jitter(next))
	}
}

// putOff attends to a schedule again after a pause. Fire times since the first delay do not count as late.
func (s *scheduleRow) putOff(now time.Time, pause time.Duration) {
	if s.held.IsZero() {
		s.held = s.at
	}
	s.at = now.Add(pause)
}

// jitter returns how long after a fire time the schedule fires, as the database computes it.
func (s *scheduleRow) jitter(at time.Time) time.Duration {
	most := s.spec.Jitter.Std().Milliseconds()
	if most == 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(fmt.Sprint(s.id, ":", at.Unix())))
	n, err := strconv.ParseInt(hex.EncodeToString(sum[:])[:15], 16, 64)
	if err != nil {
		panic(err)
	}
	return time.Duration(n%most) * time.Millisecond
}

// agendaDue reports whether a schedule or the end of a run is to be attended to.
func (m *Memory) agendaDue() bool {
	now := m.now()
	return slices.ContainsFunc(m.schedules, func(s *scheduleRow) bool { return !s.at.IsZero() && !s.at.After(now) }) ||
		slices.ContainsFunc(m.runs, (*run).unattended)
}

// unattended reports whether a run of a schedule has ended and Attend has not handled that end yet.
func (r *run) unattended() bool {
	return r.schedule != nil && r.over() && r.attended < r.rec.Generation
}

// Attend does what is due on the agenda.
func (s *MemorySession) Attend(ctx context.Context) (queue.Attended, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return queue.Attended{}, err
	}
	defer m.mu.Unlock()
	var done queue.Attended
	for _, r := range m.runs {
		if r.unattended() {
			r.attended = r.rec.Generation
			done.Decisions = append(done.Decisions, r.schedule.follow(m, r)...)
		}
	}
	for _, s := range slices.SortedStableFunc(slices.Values(m.schedules), func(a, b *scheduleRow) int { return a.at.Compare(b.at) }) {
		if !s.at.IsZero() && !s.at.After(m.now()) {
			done.Decisions = append(done.Decisions, s.attend(m)...)
		}
	}
	return done, nil
}

// follow updates a schedule after the end of one of its runs.
func (s *scheduleRow) follow(m *Memory, r *run) []queue.Decision {
	if !s.held.IsZero() && !s.at.IsZero() {
		s.at = m.now()
	}
	switch r.rec.State {
	case dagrun.RunFailed:
		s.failures++
	case dagrun.RunSucceeded:
		s.failures = 0
	}
	if most := s.spec.PauseOnFailure; most == 0 || s.failures < most || s.paused != "" {
		return nil
	}
	s.paused = fmt.Sprintf("%d of its runs failed in a row, the last is run %d", s.failures, r.id)
	s.arm()
	m.log(r, queue.Event{Kind: "schedule_paused", Message: fmt.Sprintf("schedule %s is paused: %s", s.spec.Name, s.paused)})
	return []queue.Decision{{Kind: "ended", DAG: s.dag.name, Schedule: s.spec.Name, Outcome: "paused", Times: 1, Message: s.paused}}
}

// attend decides the fire times that are due.
func (s *scheduleRow) attend(m *Memory) (made []queue.Decision) {
	now := m.now()
	decide := func(at time.Time, outcome string, run queue.RunID) {
		s.decided = at
		s.fires = append(s.fires, Fire{at, outcome, run})
		made = append(made, queue.Decision{Kind: "schedule", DAG: s.dag.name, Schedule: s.spec.Name, Outcome: outcome, Times: 1})
	}
	due := s.due(now)
	from := len(due)
	for i, at := range due {
		if s.stillFires(at, due, now) {
			from = i
			break
		}
		decide(at, "dropped", 0)
	}
	due = due[from:]
	for len(due) > 0 {
		busy := m.unfinishedOf(s)
		room := s.spec.OverlapPolicy == "allow" || len(busy) < s.spec.AtOnce
		latest := s.spec.OverlapPolicy == "latest" || s.spec.OverlapPolicy == "cancel"
		switch {
		case room && latest && len(due) > 1, !room && s.spec.OverlapPolicy == "skip":
			decide(due[0], "skipped", 0)
		case !room:
			if s.spec.OverlapPolicy == "cancel" && busy[0].firstCancel() == "" {
				c := &queue.Control{Run: busy[0].id, Verb: dagrun.VerbCancel, By: "schedule " + s.spec.Name, At: now, Args: json.RawMessage("{}")}
				m.decide(busy[0], c, &queue.Ask{})
				m.file(busy[0], c)
			}
			s.putOff(now, blockedFor)
			return made
		default:
			run, err := m.fire(s, due[0])
			patient := slices.Contains([]string{"all", "latest", "cancel"}, s.spec.OverlapPolicy) || s.held.IsZero() || now.Sub(s.held) < fullFor
			if refused, ok := errors.AsType[*queue.Error](err); ok && refused.Code == "OA006" && patient {
				s.putOff(now, time.Second)
				return made
			}
			if err != nil {
				decide(due[0], "refused", 0)
			} else {
				decide(due[0], "fired", run)
			}
		}
		due = due[1:]
	}
	s.arm()
	return made
}

// due returns the fire times that are due and not decided, the oldest first.
func (s *scheduleRow) due(now time.Time) (due []time.Time) {
	for at, ok := s.clock.Next(s.decided); ok && !at.Add(s.jitter(at)).After(now); at, ok = s.clock.Next(at) {
		due = append(due, at)
	}
	return due
}

// stillFires reports whether a due fire time still fires, or is too late.
func (s *scheduleRow) stillFires(at time.Time, due []time.Time, now time.Time) bool {
	jitter, newest := s.spec.Jitter.Std(), due[len(due)-1]
	late := now.Sub(at) - jitter
	if s.spec.Catchup {
		window := s.spec.CatchupWindow.Std()
		after := len(due) - 1 - slices.Index(due, at)
		return (window == 0 || now.Sub(at) < window) && (!s.held.IsZero() || after < cmp.Or(s.spec.CatchupMax, 100))
	}
	if late < lateAfter || !s.held.IsZero() && !at.Before(s.held.Add(-jitter)) {
		return true
	}
	short := lateAtMost
	if next, ok := s.clock.Next(newest); ok {
		short = min(short, next.Sub(newest)/2)
	}
	return at.Equal(newest) && late <= short
}

// unfinishedOf returns the runs of a schedule that are not over, the oldest first.
func (m *Memory) unfinishedOf(s *scheduleRow) (busy []*run) {
	for _, r := range m.runs {
		if r.schedule == s && !r.over() {
			busy = append(busy, r)
		}
	}
	return busy
}

// fire makes the run of one fire time.
func (m *Memory) fire(s *scheduleRow, at time.Time) (queue.RunID, error) {
	params, err := object(s.spec.Params)
	if err != nil {
		return 0, err
	}
	made, err := m.insert(&queue.Request{DAG: s.dag.name, Labels: s.spec.Labels, LogicalAt: at}, params, 0)
	if err != nil {
		return 0, err
	}
	made.trigger, made.schedule = "schedule", s
	made.previousAt, _ = s.clock.Last(at)
	m.list(made, stageNew, made.place(m.now()), reachRanked)
	return made.id, nil
}
