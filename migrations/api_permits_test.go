package migrations_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// caller is a worker that asks for permits.
type caller struct {
	conn *pgx.Conn
	id   string
	call int64 // number of its last call
}

// ticket is a permit that a caller wants to keep or to have.
type ticket struct {
	N            int64 `json:"n"`
	Pools        []use `json:"pools"`
	Run          int64 `json:"run"`
	Priority     int   `json:"priority"`
	StepPriority int   `json:"step_priority"`
	Held         bool  `json:"held"`
}

type use struct {
	Pool   string `json:"pool"`
	Key    string `json:"key"`
	Weight int    `json:"weight"`
}

// permit is what a call says of a ticket.
type permit struct {
	N         int64
	Granted   bool
	Contested bool
	Once      bool
	WaitMS    *int64 `json:"wait_ms"`
	Reason    *string
}

// caller registers a worker with its fences. Its channel is oarlock_test_NAME.
func (b bundle) caller(t *testing.T, name string) *caller {
	t.Helper()
	id := get[string](t, b.conn, `INSERT INTO oarlock.workers (worker_id, name, host, boot_id, pid, version, labels, queues, slots, containment, ttl_ms, channel)
		VALUES (md5($1::text)::uuid, $1::text, 'h', 'b', 1, 'v', '{}', '{}', 8, 'none', 30000, 'oarlock_test_' || $1::text) RETURNING worker_id::text`, name)
	must(t, b.conn, "INSERT INTO oarlock.fences SELECT $1::uuid, c FROM unnest('{commit,claim,logs,settle,permits}'::text[]) c", id)
	return &caller{conn: b.conn, id: id}
}

// want makes a ticket of uses such as heavy, heavy*2 for a weight, and crm/acme for a key. Its run has the same number.
func want(n int64, uses ...string) ticket {
	w := ticket{N: n, Run: n}
	for _, text := range uses {
		u := use{Weight: 1}
		text, weight, found := strings.Cut(text, "*")
		if found {
			u.Weight, _ = strconv.Atoi(weight)
		}
		u.Pool, u.Key, _ = strings.Cut(text, "/")
		w.Pools = append(w.Pools, u)
	}
	return w
}

const askSQL = "SELECT oarlock.permits($1, $2, $3::text::jsonb)"

func jsonOf(t *testing.T, wanted []ticket) string {
	t.Helper()
	if wanted == nil {
		return "[]"
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// try makes a call with the next number, and returns null as nil.
func (c *caller) try(t *testing.T, wanted ...ticket) []permit {
	t.Helper()
	c.call++
	return c.resend(t, c.call, wanted...)
}

func (c *caller) resend(t *testing.T, call int64, wanted ...ticket) []permit {
	t.Helper()
	text := get[*string](t, c.conn, askSQL, c.id, call, jsonOf(t, wanted))
	if text == nil {
		return nil
	}
	answers := []permit{}
	if err := json.Unmarshal([]byte(*text), &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers) != len(wanted) {
		t.Errorf("%d answers to %d tickets: %s", len(answers), len(wanted), *text)
	}
	return answers
}

// ask makes a call, and returns the numbers of the tickets that are granted, as text.
func (c *caller) ask(t *testing.T, wanted ...ticket) string {
	t.Helper()
	answers := c.try(t, wanted...)
	if answers == nil {
		t.Fatal("the call was refused")
	}
	var granted []string
	for _, a := range answers {
		if a.Granted {
			granted = append(granted, fmt.Sprint(a.N))
		}
	}
	return strings.Join(granted, " ")
}

func (c *caller) wants(t *testing.T, granted string, wanted ...ticket) {
	t.Helper()
	if got := c.ask(t, wanted...); got != granted {
		t.Errorf("granted are %q, want %q", got, granted)
	}
}

// has requires the tickets that the database grants a worker.
func (b bundle) has(t *testing.T, c *caller, granted string) {
	t.Helper()
	if got := get[string](t, b.conn, "SELECT coalesce(string_agg(DISTINCT nth::text, ' '), '') FROM oarlock.permits WHERE worker_id = $1 AND granted_at IS NOT NULL", c.id); got != granted {
		t.Errorf("the worker has %q, want %q", got, granted)
	}
}

// age makes a ticket wait for longer.
func (b bundle) age(t *testing.T, c *caller, n int64, interval string) {
	t.Helper()
	must(t, b.conn, "UPDATE oarlock.permits SET since = since - $3::text::interval WHERE worker_id = $1 AND nth = $2", c.id, n, interval)
}

func (b bundle) setPools(t *testing.T, sets ...string) {
	t.Helper()
	for _, set := range sets {
		must(t, b.conn, "SELECT oarlock.set_pool("+set+")")
	}
}

func TestPermits_TakeAllPoolsOrNone(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 3", "'total', slots => 4", "'crm', slots => 1, per_key => true")
	one, two := b.caller(t, "one"), b.caller(t, "two")
	one.wants(t, "1 3", want(1, "heavy*2"), want(2, "heavy*2"), want(3, "heavy"))
	two.wants(t, "2", want(1, "heavy", "total*4"), want(2, "total"))
	one.wants(t, "1", want(1, "heavy*2"))
	b.has(t, two, "2") // total has too little left
	two.wants(t, "1", want(1, "heavy", "total*4"))
	two.wants(t, "11 12 14 15", want(11, "crm/a"), want(12, "crm/b"), want(13, "crm/a"), want(14, "crm"), want(15, "total/x"))
	must(t, b.conn, "SELECT oarlock.set_pool_key('crm', 'a', slots => 2)")
	two.wants(t, "11 12 13 14", want(11, "crm/a"), want(12, "crm/b"), want(13, "crm/a"), want(14, "crm"), want(16, "crm/a"))
	one.wants(t, "21", want(21, "total/y*4")) // counted together, whatever key
	one.wants(t, "21", want(21, "total/y*4"), want(22, "total/z"))
}

func TestPermits_AClosedPoolHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1", "'total', slots => 9", "'crm', slots => 1, per_key => true")
	one, two := b.caller(t, "one"), b.caller(t, "two")
	first, both, open := want(1, "heavy"), want(2, "heavy", "total*9"), want(3, "total")
	must(t, b.conn, "SELECT oarlock.close_pool('heavy')")
	must(t, b.conn, "SELECT oarlock.close_pool('crm', key => 'a')")
	one.wants(t, "3", first, both, open)
	b.age(t, one, 1, "2 hours")
	b.age(t, one, 2, "1 hour") // keeps nothing of total, since it cannot start anyway
	two.wants(t, "1 3", want(1, "total"), want(2, "crm/a"), want(3, "crm/b"))
	must(t, b.conn, "UPDATE oarlock.pools SET closed_until = clock_timestamp() - interval '1 ms' WHERE name = 'heavy'")
	must(t, b.conn, "UPDATE oarlock.pool_keys SET closed_until = clock_timestamp() - interval '1 ms'")
	one.wants(t, "1 3", first, both, open)
	two.wants(t, "2", want(2, "crm/a"))
	must(t, b.conn, "SELECT oarlock.close_pool('heavy')") // takes nothing away
	one.wants(t, "1", first, both)
}

func TestPermits_AnUnknownPoolWaitsUntilItIsMade(t *testing.T) {
	t.Parallel()
	b := api(t)
	one, two := b.caller(t, "one"), b.caller(t, "two")
	b.setPools(t, "'total', slots => 2")
	one.wants(t, "2", want(1, "new/a", "total"), want(2, "total"))
	b.age(t, one, 1, "1 hour")
	two.wants(t, "2", want(1, "new/b"), want(2, "total"))
	b.setPools(t, "'new', slots => 1")
	one.wants(t, "1", want(1, "new/a"))
	two.wants(t, "2", want(1, "new/b"), want(2, "total")) // the key counts no more
	one.wants(t, "")
	b.has(t, two, "1 2")
}

func TestPermits_FewerSlotsTakeNothingAway(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 4")
	c := b.caller(t, "one")
	all := []ticket{want(1, "heavy"), want(2, "heavy"), want(3, "heavy"), want(4, "heavy"), want(5, "heavy")}
	c.wants(t, "1 2 3 4", all...)
	b.setPools(t, "'heavy', slots => 2")
	c.wants(t, "1 2 3 4", all...)
	c.wants(t, "3 4", all[2:]...)
	c.wants(t, "4 5", all[3:]...)
}

func TestPermits_AreGrantedInOrder(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1")
	one, two := b.caller(t, "one"), b.caller(t, "two")
	low, urgent, step := want(2, "heavy"), want(3, "heavy"), want(4, "heavy")
	urgent.Priority, step.StepPriority = 5, 50
	one.wants(t, "1", want(1, "heavy"), low)
	two.wants(t, "", want(2, "heavy"), urgent, step)
	b.age(t, one, 2, "1 s")
	one.wants(t, "", low)
	b.has(t, two, "3")
	two.wants(t, "4", want(2, "heavy"), step)
	two.wants(t, "", want(2, "heavy"))
	b.has(t, one, "2")
	one.wants(t, "")
	b.has(t, two, "2")
}

func TestPermits_WhatIsOverdueKeepsWhatComesFree(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 5", "'total', slots => 3")
	one, two := b.caller(t, "one"), b.caller(t, "two")
	big := want(9, "heavy*5", "total")
	one.wants(t, "1 2", want(1, "heavy"), want(2, "heavy*3"))
	two.wants(t, "", big)
	one.wants(t, "1 2 3", want(1, "heavy"), want(2, "heavy*3"), want(3, "heavy")) // passes the big one
	b.age(t, two, 9, "29 s")
	one.wants(t, "1 3 4", want(1, "heavy"), want(3, "heavy"), want(4, "heavy"))
	b.age(t, two, 9, "1 s")
	one.wants(t, "1 3 4", want(1, "heavy"), want(3, "heavy"), want(4, "heavy"), want(5, "heavy"))
	// Of a pool that has enough for it, the big one keeps its weight alone.
	one.wants(t, "4 6 7", want(4, "heavy"), want(5, "heavy"), want(6, "total"), want(7, "total"), want(8, "total"))
	one.wants(t, "6 7", want(5, "heavy"), want(6, "total"), want(7, "total"), want(8, "total"))
	b.has(t, two, "9")
}

// An overdue waiter of two pools is served beside streams of waiters for one of them each.
func TestPermits_WhatIsOverdueIsServedBesideStreams(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'a', slots => 2", "'b', slots => 2")
	as, bs, both := b.caller(t, "as"), b.caller(t, "bs"), b.caller(t, "both")
	stream := func(c *caller, pool string, n int64) {
		c.ask(t, want(n, pool), want(n+1, pool), want(n+2, pool), want(n+3, pool))
	}
	stream(as, "a", 1)
	stream(bs, "b", 1)
	both.wants(t, "", want(1, "a*2", "b*2"))
	for n := int64(2); n < 10; n++ { // each gives the oldest back
		stream(as, "a", n)
		stream(bs, "b", n)
	}
	b.has(t, both, "")
	b.age(t, both, 1, "30 s")
	for n := int64(10); n < 14; n++ {
		stream(as, "a", n)
		stream(bs, "b", n)
	}
	b.has(t, both, "1")
	b.has(t, as, "")
	b.has(t, bs, "")
}

func TestPermits_AnOverdueWaiterForARateKeepsNoSlots(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'api', rate => 1, per => '1 hour'", "'total', slots => 1")
	c := b.caller(t, "one")
	c.wants(t, "1", want(1, "api"), want(2, "api", "total"))
	b.age(t, c, 2, "1 hour")
	c.wants(t, "3", want(2, "api", "total"), want(3, "total"))
}

func TestPermits_TheSameCallAgainChangesNothing(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1", "'api', rate => 5, per => '1 hour', burst => 2")
	c := b.caller(t, "one")
	all := []ticket{want(1, "heavy"), want(2, "heavy"), want(3, "api"), want(4, "api"), want(5, "api")}
	const state = "SELECT md5(string_agg(x::text, ' ' ORDER BY x)) FROM (SELECT p::text AS x FROM oarlock.permits p UNION ALL SELECT k::text FROM oarlock.pool_keys k) x"
	c.wants(t, "1 3 4", all...)
	before := get[string](t, b.conn, state)
	c.wants(t, "1 3 4", all...)
	if answers := c.resend(t, c.call); answers != nil {
		t.Errorf("a call of the same number says %v", answers)
	}
	if answers := c.resend(t, c.call-1, want(7, "heavy")); answers != nil {
		t.Errorf("a late call says %v", answers)
	}
	if after := get[string](t, b.conn, state); after != before {
		t.Error("the same call, or a late one, changed permits")
	}
}

func TestPermits_WhatIsGivenBackGoesToTheFirstOfTheCluster(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1")
	one, two, three := b.caller(t, "one"), b.caller(t, "two"), b.caller(t, "three")
	one.wants(t, "1", want(1, "heavy"))
	two.wants(t, "", want(1, "heavy"))
	three.wants(t, "", want(1, "heavy"))
	listener := connect(t, b.db.URL)
	must(t, listener, "LISTEN oarlock_test_one")
	must(t, listener, "LISTEN oarlock_test_two")
	must(t, listener, "LISTEN oarlock_test_three")
	if got := one.try(t, want(1, "heavy"), want(2, "heavy")); !got[0].Contested || !got[1].Contested {
		t.Errorf("others wait, and the answer is %+v", got)
	}
	one.wants(t, "", want(2, "heavy"))
	b.has(t, two, "1")
	b.has(t, three, "")
	if n, err := listener.WaitForNotification(t.Context()); err != nil || n.Channel != "oarlock_test_two" || n.Payload != "permits" {
		t.Errorf("notified %+v %v", n, err)
	}
	two.wants(t, "")
	if n, err := listener.WaitForNotification(t.Context()); err != nil || n.Channel != "oarlock_test_three" {
		t.Errorf("notified %+v %v", n, err)
	}
	if got := one.try(t, want(2, "heavy")); got[0].Contested {
		t.Error("others do not wait, and the permit is contested")
	}
}

func TestPermits_WhatIsHeldComesBack(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1", "'total', slots => 9")
	one, two := b.caller(t, "one"), b.caller(t, "two")
	one.wants(t, "1", want(1, "heavy", "total"))
	must(t, b.conn, "DELETE FROM oarlock.permits") // as a failover may
	two.wants(t, "1", want(1, "heavy"))
	held := want(1, "heavy", "total")
	held.Held = true
	one.wants(t, "1", held)
	two.wants(t, "", want(2, "heavy"))
	one.wants(t, "1", held)
	b.has(t, two, "")
	one.wants(t, "")
	b.has(t, two, "2")
	must(t, b.conn, "UPDATE oarlock.permits SET granted_at = NULL") // a waiter becomes a holder, too
	held = want(2, "heavy")
	held.Held = true
	must(t, b.conn, "SELECT oarlock.close_pool('heavy')")
	two.wants(t, "2", held)
}

func TestPermits_RefusesWhatHasNoFence(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 1")
	c := b.caller(t, "one")
	if got := c.try(t); !reflect.DeepEqual(got, []permit{}) {
		t.Errorf("a call for nothing says %v", got)
	}
	c.wants(t, "1", want(1, "heavy"), want(2, "heavy"))
	must(t, b.conn, "DELETE FROM oarlock.fences WHERE worker_id = $1", c.id)
	if n := get[int](t, b.conn, "SELECT (SELECT count(*) FROM oarlock.permits) + (SELECT count(*) FROM oarlock.permit_calls)"); n != 0 {
		t.Errorf("%d rows are left of a lost worker", n)
	}
	if got := c.try(t, want(1, "heavy")); got != nil {
		t.Errorf("without a fence the answer is %v", got)
	}
	wantCode(t, b.conn, "22004", "SELECT oarlock.permits($1, 1, NULL)", c.id)
}
