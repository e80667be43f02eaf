package check

import (
	"fmt"
	"testing"
	"time"
)

// scene is an invented history of moments, 100 ms apart: w2 has room, and run 7 waits.
type scene struct {
	from, to int // first and last moment
	change   func(i int, m *Moment)
}

// play looks at the moments. For 1 s both workers beat and poll and no run waits, then run 7 waits.
func (s scene) play() *Sharing {
	var shared Sharing
	for i := s.from; i <= s.to; i++ {
		beat := int64(1 + i/5)
		m := &Moment{
			At: time.Duration(i) * 100 * time.Millisecond, Took: 5 * time.Millisecond,
			Seats: []Seat{{ID: "a", Name: "w1", Beat: beat, Polled: beat}, {ID: "b", Name: "w2", Beat: beat, Polled: beat, Room: true}},
		}
		if i >= 10 {
			m.Waits = []Wait{{Run: 7, Epoch: 1, May: []string{"a", "b"}}}
		}
		if s.change != nil {
			s.change(i, m)
		}
		shared.Look(m)
	}
	return &shared
}

func TestSharing_FindsARunThatWaitsBesideAFreeSlot(t *testing.T) {
	t.Parallel()
	held := func(_ int, m *Moment) {
		for k := range m.Waits {
			m.Waits[k].Holder, m.Waits[k].May = "a", []string{"b"}
		}
	}
	at := func(n int, do func(m *Moment)) func(int, *Moment) {
		return func(i int, m *Moment) {
			if i == n {
				do(m)
			}
		}
	}
	for name, test := range map[string]struct {
		scene
		want string
	}{
		"for long":                     {scene{to: 31}, "C2"},
		"not for long":                 {scene{to: 30}, ""},
		"for long, told once":          {scene{to: 51}, "C2"},
		"twice as long":                {scene{to: 52}, "C2 C2"},
		"on a worker that holds it":    {scene{to: 31, change: held}, "C2"},
		"it began meanwhile":           {scene{to: 31, change: at(18, func(m *Moment) { m.Waits = nil })}, ""},
		"it was claimed meanwhile":     {scene{to: 31, change: func(i int, m *Moment) { m.Waits = waitsInEpoch(m.Waits, i/18) }}, ""},
		"something of it went on":      {scene{to: 31, change: func(i int, m *Moment) { m.Waits = waitsAt(m.Waits, i/18) }}, ""},
		"there was no room meanwhile":  {scene{to: 31, change: at(18, func(m *Moment) { m.Seats[1].Room = false })}, ""},
		"the worker was gone":          {scene{to: 31, change: at(18, func(m *Moment) { m.Seats = m.Seats[:1] })}, ""},
		"the worker may not serve it":  {scene{to: 31, change: func(_ int, m *Moment) { m.Waits = waitsFor(m.Waits, "a") }}, ""},
		"a fault came and went":        {scene{to: 31, change: func(i int, m *Moment) { m.Seats[1].Storms = i / 18 }}, ""},
		"a fault goes on":              {scene{to: 40, change: func(_ int, m *Moment) { m.Seats[1].Stormy = true }}, ""},
		"the fault is long over":       {scene{to: 50, change: func(i int, m *Moment) { m.Seats[1].Stormy = i < 20 }}, "C2"},
		"a statement of it is stuck":   {scene{to: 31, change: at(18, func(m *Moment) { m.Seats[1].Stuck = true })}, ""},
		"it beats no more":             {scene{to: 40, change: func(_ int, m *Moment) { m.Seats[1].Beat = min(m.Seats[1].Beat, 3) }}, ""},
		"it never polled":              {scene{to: 40, change: func(_ int, m *Moment) { m.Seats[1].Polled = 5 }}, ""},
		"it polls no more":             {scene{to: 31, change: func(_ int, m *Moment) { m.Seats[1].Polled = min(m.Seats[1].Polled, 3) }}, "C2"},
		"its session is gone":          {scene{to: 40, change: func(i int, m *Moment) { m.Seats[1].Polled *= int64(1 - min(i/11, 1)) }}, ""},
		"writes of the holder hang":    {scene{to: 40, change: func(i int, m *Moment) { held(i, m); m.Seats[0].Mute = true }}, ""},
		"writes of the other one hang": {scene{to: 31, change: func(i int, m *Moment) { held(i, m); m.Seats[1].Mute = true }}, "C2"},
		"the holder is asleep":         {scene{to: 40, change: func(i int, m *Moment) { held(i, m); m.Seats[0].Beat = 1 }}, ""},
		"the sampler was late":         {scene{to: 31, change: func(i int, m *Moment) { m.At += time.Duration(i/18) * 400 * time.Millisecond }}, ""},
		"the answer was late":          {scene{to: 31, change: at(18, func(m *Moment) { m.Took = time.Second })}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s := test.play(); rules(s.Broken) != test.want {
				t.Errorf("broken: %v, want %q", s.Broken, test.want)
			}
		})
	}
}

func waitsInEpoch(waits []Wait, epoch int) []Wait {
	for k := range waits {
		waits[k].Epoch = epoch
	}
	return waits
}

func waitsAt(waits []Wait, progress int) []Wait {
	for k := range waits {
		waits[k].Progress = progress
	}
	return waits
}

func waitsFor(waits []Wait, ids ...string) []Wait {
	for k := range waits {
		waits[k].May = ids
	}
	return waits
}

func TestSharing_SaysWhatItLookedAt(t *testing.T) {
	t.Parallel()
	s := scene{to: 24, change: func(i int, m *Moment) {
		if i == 3 {
			m.Took = time.Second
		}
		if i >= 20 {
			m.Waits = append(m.Waits, Wait{Run: 8, May: []string{"a"}})
		}
	}}.play()
	if got, want := fmt.Sprint(s.Moments, s.Unsure, s.Open, s.Waits, s.Held, s.Beside, s.Longest), "25 1 20 2 0 1 1.4s"; got != want {
		t.Errorf("looked at %s, want %s", got, want)
	}
	s = scene{to: 31}.play()
	if len(s.Broken) != 1 || s.Broken[0].String() != "C2 run 7: it waits in the queue in epoch 1, from 1s to 3.1s at least, while worker w2 (b) has a free slot" {
		t.Errorf("it says %v", s.Broken)
	}
}

func TestMoves_FindsWhatGoesToAndFro(t *testing.T) {
	t.Parallel()
	back := func(tx int64, epoch int, by string) Change { // transactions are 300 ms apart
		c := run(tx, "queued", epoch, "")
		c.Was, c.GaveBack, c.At = "running", by, time.Time{}.Add(time.Duration(tx)*300*time.Millisecond)
		return c
	}
	asked := run(3, "queued", 1, "")
	asked.Asked = true
	other := back(3, 1, "a")
	other.Run = 2
	for name, test := range map[string]struct {
		trail []Change
		moves int
		want  string
	}{
		"twice by one":              {[]Change{back(1, 1, "a"), run(2, "running", 2, "y"), back(3, 2, "a")}, 2, ""},
		"three times by one":        {[]Change{back(1, 1, "a"), back(2, 2, "a"), back(4, 3, "a")}, 3, "C3"},
		"four times by one":         {[]Change{back(1, 1, "a"), back(2, 2, "a"), back(3, 3, "a"), back(4, 4, "a")}, 4, "C3 C3"},
		"three times, and slower":   {[]Change{back(1, 1, "a"), back(2, 2, "a"), back(5, 3, "a")}, 3, ""},
		"to and fro":                {[]Change{back(1, 1, "a"), back(2, 2, "b"), back(3, 3, "a"), back(4, 4, "b")}, 4, ""},
		"two runs":                  {[]Change{back(1, 1, "a"), back(2, 2, "a"), other}, 3, ""},
		"a task started meanwhile":  {[]Change{back(1, 1, "a"), back(2, 2, "a"), task(3, "a", "", "running", 1, 2), back(4, 3, "a")}, 3, ""},
		"a task ended meanwhile":    {[]Change{back(1, 1, "a"), back(2, 2, "a"), task(3, "a", "", "succeeded", 1, 2), back(4, 3, "a")}, 3, ""},
		"a task was put off":        {[]Change{back(1, 1, "a"), back(2, 2, "a"), task(3, "a", "", "ready", 0, 2), back(4, 3, "a")}, 3, "C3"},
		"something was asked of it": {[]Change{back(1, 1, "a"), back(2, 2, "a"), asked, back(4, 3, "a")}, 3, ""},
		"lost by another":           {[]Change{back(1, 1, "a"), back(2, 2, "a"), back(3, 3, ""), back(4, 4, "a")}, 3, ""},
		"the clock went back":       {[]Change{back(8, 1, "a"), back(9, 2, "a"), back(1, 3, "a")}, 3, ""},
		"given back for other ends": {[]Change{back(2, 1, ""), back(4, 2, "a")}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n, broken := Moves(test.trail); n != test.moves || rules(broken) != test.want {
				t.Errorf("%d moves, broken: %v, want %d and %q", n, broken, test.moves, test.want)
			}
		})
	}
}
