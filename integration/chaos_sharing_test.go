package integration

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/chaos/check"
	"github.com/oarlock-dev/oarlock/integration/chaos/traffic"
	"github.com/oarlock-dev/oarlock/queue"
)

// How often the sharing of work is sampled, and how long one sample may take before it is abandoned.
const (
	sampleEvery = 100 * time.Millisecond
	sampleMost  = time.Second
)

// storm notes that a fault begins which may keep these workers, or all, from claiming and giving back. over ends it.
func (a *chaosBundle) storm(units ...*station) (over func()) {
	if len(units) == 0 {
		units = a.units
	}
	count := func(begun, under int) {
		for _, u := range units {
			u.mu.Lock()
			u.storms += begun
			u.stormy += under
			u.mu.Unlock()
		}
	}
	count(1, 1)
	return func() { count(0, -1) }
}

// stormy reports whether a fault is under way that may keep a worker from claiming.
func (a *chaosBundle) stormy() bool {
	for _, u := range a.units {
		u.mu.Lock()
		under := u.stormy > 0
		u.mu.Unlock()
		if under {
			return true
		}
	}
	return false
}

// watchSharing samples which runs wait for a slot and which workers have one (C2). Its session is not a target of faults.
func (a *chaosBundle) watchSharing() {
	start := time.Now()
	for a.ctx.Err() == nil {
		if conn, err := connect(a.ctx, a.db.URL); err == nil {
			a.sample(conn, start)
			_ = conn.Close(context.WithoutCancel(a.ctx))
		}
		a.mu.Lock()
		a.shared.Forget()
		a.mu.Unlock()
		pause(a.ctx, sampleEvery)
	}
}

// sample samples until the session breaks.
func (a *chaosBundle) sample(conn *pgx.Conn, start time.Time) {
	for a.ctx.Err() == nil {
		m := check.Moment{At: time.Since(start)}
		text, err := a.moment(conn)
		if err != nil {
			return
		}
		m.Took = time.Since(start) - m.At
		if err := json.Unmarshal(text, &m); err != nil {
			a.say("C2: the sampler is wrong: %v", err)
			return
		}
		a.addWeather(&m)
		a.mu.Lock()
		a.shared.Look(&m)
		a.mu.Unlock()
		pause(a.ctx, sampleEvery-m.Took)
	}
}

func (a *chaosBundle) moment(conn *pgx.Conn) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(a.ctx, sampleMost)
	defer cancel()
	err = conn.QueryRow(ctx, chaosStatement("sharing")).Scan(&text)
	var refused interface{ SQLState() string }
	if errors.As(err, &refused) && refused.SQLState()[:2] == "42" {
		a.say("C2: the sampler is wrong: %v", err)
	}
	return text, err
}

// muteFor is how long the writes of a worker may hang after a message was held back or lost.
const muteFor = 3 * chaosTTL

// addWeather adds the known faults. It includes faults that began after the statement was sent.
func (a *chaosBundle) addWeather(m *check.Moment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range m.Seats {
		s := &m.Seats[i]
		for _, u := range a.units {
			if u.name == s.Name {
				u.mu.Lock()
				s.Storms, s.Stormy = u.storms, u.stormy > 0
				u.mu.Unlock()
			}
		}
		for k := range a.waiting {
			w := &a.waiting[k]
			if w.unit != nil && w.unit.name == s.Name && w.firedBy(m.At) {
				s.Mute = s.Mute || m.At-w.since < muteFor
			}
		}
	}
}

// firedBy reports whether a fault got its message, and stores when that became known.
func (w *awaited) firedBy(at time.Duration) bool {
	select {
	case <-w.fault.Fired():
		if w.since == 0 {
			w.since = at
		}
		return true
	default:
		return false
	}
}

// alone is how long one worker is alone with a rush. By then it has begun as many runs as its slots take.
const alone = time.Second

// rush enqueues some runs at once when no fault is left and all other runs are over. One worker is alone with them at
// first.
func (a *chaosBundle) rush(plan *traffic.Plan) {
	for a.stormy() && a.ctx.Err() == nil {
		pause(a.ctx, sampleEvery)
	}
	for _, u := range a.units[1:] {
		u.send(true)
		defer u.send(false)
	}
	for _, u := range a.units[1:] {
		u.mu.Lock()
		p := u.now
		u.mu.Unlock()
		<-p.ended
	}
	defer pause(a.ctx, alone)
	for range traffic.RushRuns {
		run, err := a.Enqueue(a.ctx, queue.Request{DAG: plan.Rush.Name, Params: map[string]int{"n": 1}})
		if err == nil {
			a.asked.note(run)
		}
	}
}
