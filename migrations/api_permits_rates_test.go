package migrations_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func wants(from, to int64, uses ...string) (all []ticket) {
	for n := from; n <= to; n++ {
		all = append(all, want(n, uses...))
	}
	return all
}

// later lets the rates of all pools refill as if so much time had gone by.
func (b bundle) later(t *testing.T, d time.Duration) {
	t.Helper()
	must(t, b.conn, "UPDATE oarlock.pool_keys SET tokens_at = tokens_at - $1::interval", d)
}

func TestRates_StartABurstAndThenByTime(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'api', rate => 100, per => '1 day', burst => 20", "'heavy', slots => 30") // a start each 864 s
	c := b.caller(t, "one")
	granted := func() (n int) {
		for _, p := range c.try(t, wants(1, 30, "api", "heavy")...) {
			if p.Granted {
				n++
			}
			if !p.Once {
				t.Error("a permit of a pool with a rate may be used more than once")
			}
			if p.Granted != (p.WaitMS == nil) || p.WaitMS != nil && (*p.WaitMS > 864_000 || *p.WaitMS < 600_000) {
				t.Errorf("granted %v, and to wait for %v", p.Granted, p.WaitMS)
			}
		}
		return n
	}
	if n := granted(); n != 20 {
		t.Errorf("%d start at once, want 20", n)
	}
	b.later(t, 5*864*time.Second)
	if n := granted(); n != 25 {
		t.Errorf("after five times %d have started, want 25", n)
	}
	c.wants(t, "") // giving back refills nothing
	c.wants(t, "", want(41, "api"))
	b.later(t, 24*time.Hour)
	c.wants(t, "") // a day refills no more than the burst
	if n := granted(); n != 20 {
		t.Errorf("%d start after a day, want 20", n)
	}
	if p := c.try(t, want(50, "heavy")); p[0].Once || p[0].WaitMS != nil {
		t.Errorf("a pool without a rate gives %+v", p[0])
	}
}

func TestRates_AreByKeyAndWeight(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'crm', rate => 10, per => '1 day', burst => 3, per_key => true")
	c := b.caller(t, "one")
	c.wants(t, "1 3", want(1, "crm/a*2"), want(2, "crm/a*2"), want(3, "crm/b*2"))
	c.wants(t, "5", want(4, "crm/a*2"), want(5, "crm/a"))
	if p := c.try(t, want(4, "crm/a*2")); p[0].WaitMS == nil || *p[0].WaitMS > 2*8_640_000 || *p[0].WaitMS < 2*8_600_000 {
		t.Errorf("the wait for two is %v", p[0].WaitMS)
	}
}

func TestRates_AClockSetBackRefillsNothing(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'api', rate => 24, per => '1 day', burst => 2")
	c := b.caller(t, "one")
	c.wants(t, "1 2", wants(1, 3, "api")...)
	b.later(t, -10*time.Hour)
	c.wants(t, "", want(3, "api"))
	if !get[bool](t, b.conn, "SELECT tokens_at <= clock_timestamp() AND tokens BETWEEN 0 AND 0.9 FROM oarlock.pool_keys") {
		t.Error("the rate stands still until the clock is again where it was")
	}
	b.later(t, time.Hour)
	c.wants(t, "3", want(3, "api"), want(4, "api"))
}

// No window of a random history has more starts than its length allows, and the burst.
func TestRates_HoldInEveryWindow(t *testing.T) {
	t.Parallel()
	b := api(t)
	const rate, burst, calls = 7, 5, 200 // a second
	b.setPools(t, "'api', rate => 7, per => '1 s', burst => 5")
	c := b.caller(t, "one")
	type start struct {
		after, before time.Duration // it happened between these
		weight        int
	}
	var starts []start
	var skipped time.Duration
	began, random := time.Now(), rand.New(rand.NewPCG(1, 2))
	weights, waiting, next := map[int64]int{}, []ticket{}, int64(0)
	for range calls {
		for range random.IntN(4) {
			if len(waiting) == 5 {
				break
			}
			next++
			w := want(next, "api")
			w.Pools[0].Weight = 1 + random.IntN(3)
			weights[next] = w.Pools[0].Weight
			waiting = append(waiting, w)
		}
		after := skipped + time.Since(began)
		answers := c.try(t, waiting...)
		before := skipped + time.Since(began)
		waiting = waiting[:0]
		for _, p := range answers {
			if p.Granted {
				starts = append(starts, start{after, before, weights[p.N]})
			} else {
				w := want(p.N, "api")
				w.Pools[0].Weight = weights[p.N]
				waiting = append(waiting, w)
			}
		}
		if random.IntN(3) == 0 {
			d := time.Duration(random.Int64N(int64(2 * time.Second)))
			b.later(t, d)
			skipped += d
		}
	}
	for i := range starts {
		sum := 0
		for j := i; j < len(starts); j++ {
			sum += starts[j].weight
			if most := rate*(starts[j].before-starts[i].after).Seconds() + burst; float64(sum) > most {
				t.Fatalf("starts %d to %d weigh %d, more than %.2f", i, j, sum, most)
			}
		}
	}
	if least := rate * skipped.Seconds() / 4; float64(len(starts)) < least {
		t.Errorf("only %d starts in %v", len(starts), skipped)
	}
}

// A service that answers 429 closes the key of its pool, or a pool with a rate, until it may be asked again.
func TestLeaveAlone_ClosesWhatLimitsAService(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'crm', slots => 9, per_key => true", "'api', rate => 100, per => '1 day', burst => 20", "'heavy', slots => 9")
	must(t, b.conn, "SELECT oarlock.leave_alone(41, '{api,crm,heavy,gone}', '{NULL,acme,NULL,NULL}', '10 minutes')")
	must(t, b.conn, "SELECT oarlock.leave_alone(42, '{api}', '{}', '1 second')") // the longer pause stays
	c := b.caller(t, "one")
	c.wants(t, "2 4", want(1, "crm/acme"), want(2, "crm/bolt"), want(3, "api"), want(4, "heavy"))
	must(t, b.conn, "UPDATE oarlock.permits SET since = since - interval '2 seconds'")
	for nth, begins := range map[int]string{1: "waits for pool crm (key acme), which run 41 closed until 20", 3: "waits for pool api, which run 41 closed until 20"} {
		if why := get[string](t, b.conn, "SELECT oarlock.why_no_permit(worker_id, nth) FROM oarlock.permits WHERE nth = $1", nth); !strings.HasPrefix(why, begins) {
			t.Errorf("%q does not begin with %q", why, begins)
		}
	}
	if by := get[string](t, b.conn, "SELECT string_agg(closed_by, ' ') FROM oarlock.pool_list() WHERE closed_until < clock_timestamp() + interval '1 hour'"); by != "run 41" {
		t.Errorf("closed are the pools of %q", by)
	}
	must(t, b.conn, "SELECT oarlock.open_pool('api')")
	c.wants(t, "2 3 4", want(1, "crm/acme"), want(2, "crm/bolt"), want(3, "api"), want(4, "heavy"))
	must(t, b.conn, "SELECT oarlock.open_pool('crm', 'acme')")
	c.wants(t, "1 2 3 4", want(1, "crm/acme"), want(2, "crm/bolt"), want(3, "api"), want(4, "heavy"))
	must(t, b.conn, "SELECT oarlock.leave_alone(41, '{api}', '{}', '30 days')")
	if !get[bool](t, b.conn, "SELECT max(closed_until) < clock_timestamp() + interval '61 minutes' FROM oarlock.pool_keys") {
		t.Error("a service closes a pool for longer than an hour")
	}
}
