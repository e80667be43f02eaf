package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// reason returns why a ticket waits, by a clock that shows intervals in another style.
func (b bundle) reason(t *testing.T, c *caller, n int64) string {
	t.Helper()
	must(t, b.conn, "SET intervalstyle = 'iso_8601'")
	return get[string](t, b.conn, "SELECT oarlock.why_no_permit($1, $2)", c.id, n)
}

const setPool = "SELECT oarlock.set_pool"

// waits are permits that wait, and why.
var waits = []struct {
	name   string
	before []string // statements
	has    []ticket // what the other worker has
	want   ticket
	after  []string
	reason string
}{
	{"no pool", nil, nil, want(9, "new/k"), nil, "waits for pool new, which does not exist"},
	{"closed", []string{setPool + "('heavy', slots => 1)", "SELECT oarlock.close_pool('heavy')"}, nil, want(9, "heavy"), nil, "waits for pool heavy, which USER closed"},
	{
		"closed until",
		[]string{setPool + "('heavy', slots => 1)", "SELECT oarlock.close_pool('heavy', until => '2100-01-02 03:04Z')"},
		nil, want(9, "heavy"), nil,
		"waits for pool heavy, which USER closed until 2100-01-02T03:04:00Z",
	},
	{
		"closed key",
		[]string{setPool + "('crm', slots => 1, per_key => true)", "SELECT oarlock.close_pool('crm', key => 'acme')"},
		nil, want(9, "crm/acme"), nil,
		"waits for pool crm (key acme), which USER closed",
	},
	{
		"too few slots",
		[]string{setPool + "('heavy', slots => 5)"},
		[]ticket{want(1, "heavy*5")},
		want(9, "heavy*5"),
		[]string{setPool + "('heavy', slots => 3)"},
		"waits for 5 of pool heavy, which has only 3",
	},
	{"too small a burst", []string{setPool + "('api', rate => 5, per => '1 s', burst => 2)"}, nil, want(9, "api*3"), nil, "waits for 3 of pool api, which has only 2"},
	{"taken", []string{setPool + "('heavy', slots => 1)"}, []ticket{want(41, "heavy")}, want(9, "heavy"), nil, "waits for pool heavy: 1 of 1 taken by run 41; 1st in line"},
	{
		"taken by many",
		[]string{setPool + "('heavy', slots => 9)"},
		append(wants(41, 47, "heavy"), want(48, "heavy*2"), want(49, "heavy"), want(50, "heavy")), want(9, "heavy*2"), nil,
		"waits for 2 of pool heavy: 9 of 9 taken by runs 41, 42, 43, 44, 45 and 3 more; 3rd in line",
	},
	{
		"taken key",
		[]string{setPool + "('crm', slots => 2, per_key => true)", "SELECT oarlock.set_pool_key('crm', 'acme', slots => 1)"},
		wants(41, 70, "crm/acme"), want(9, "crm/acme"), nil,
		"waits for pool crm (key acme): 1 of 1 taken by run 41; behind 20 others or more",
	},
	{"rate", []string{setPool + "('api', rate => 100, per => '1 day')"}, []ticket{want(1, "api")}, want(9, "api"), nil, "waits for pool api: its rate is 100 in 1d; 1st in line"},
	{
		"in order",
		[]string{setPool + "('heavy', slots => 5)"},
		[]ticket{want(1, "heavy*4")},
		want(9, "heavy*2"),
		[]string{setPool + "('heavy', slots => 9)"},
		"waits for pool heavy: 1st in line",
	},
	{
		"second pool",
		[]string{setPool + "('a', slots => 1)", setPool + "('b', slots => 1)"},
		[]ticket{want(41, "b")},
		want(9, "a", "b"), nil,
		"waits for pool b: 1 of 1 taken by run 41; 1st in line",
	},
}

func TestPools_SayWhyAPermitWaits(t *testing.T) {
	t.Parallel()
	for _, test := range waits {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := api(t)
			for _, statement := range test.before {
				must(t, b.conn, statement)
			}
			other, c := b.caller(t, "other"), b.caller(t, "one")
			other.ask(t, test.has...)
			c.ask(t, test.want)
			for _, statement := range test.after {
				must(t, b.conn, statement)
			}
			user := get[string](t, b.conn, "SELECT oarlock.who()")
			if got, reason := b.reason(t, c, 9), strings.Replace(test.reason, "USER", user, 1); got != reason {
				t.Errorf("the reason is %q, want %q", got, reason)
			}
		})
	}
}

func TestPools_ShowRatesInTheLargestUnit(t *testing.T) {
	t.Parallel()
	b := api(t)
	for ms, want := range map[int64]string{1: "7 in 1ms", 1500: "7 in 1500ms", 2000: "7 in 2s", 90_000: "7 in 90s", 60_000: "7 in 1m", 3_600_000: "7 in 1h", 86_400_000: "7 in 1d"} {
		if got := get[string](t, b.conn, "SELECT oarlock.rate_text(7, $1)", ms); got != want {
			t.Errorf("%d ms are %q, want %q", ms, got, want)
		}
	}
}

// A worker hears the reason with the answer, once it has waited for a second.
func TestPools_GiveTheReasonAfterASecond(t *testing.T) {
	t.Parallel()
	b := api(t)
	c := b.caller(t, "one")
	if got := c.try(t, want(1, "new")); got[0].Reason != nil {
		t.Errorf("at once the reason is %q", *got[0].Reason)
	}
	b.age(t, c, 1, "1 s")
	if got := c.try(t, want(1, "new")); got[0].Reason == nil || *got[0].Reason != "waits for pool new, which does not exist" {
		t.Errorf("after a second the answer is %+v", got[0])
	}
}

func TestPools_AreSetAsAWhole(t *testing.T) {
	t.Parallel()
	b := api(t)
	if !get[bool](t, b.conn, "SELECT oarlock.set_pool('crm', slots => 2, per_key => true, rate => 100, per => '1 minute', burst => 20, note => 'by contract')") {
		t.Error("the first call finds a pool")
	}
	const shown = "SELECT concat_ws(' ', name, slots, per_key, rate, extract(epoch FROM per)::int, burst, taken, waiting, keys, note) FROM oarlock.pool_list()"
	if got, want := get[string](t, b.conn, shown), "crm 2 t 100 60 20 0 0 0 by contract"; got != want {
		t.Errorf("the pool is %q, want %q", got, want)
	}
	if get[bool](t, b.conn, "SELECT oarlock.set_pool('crm', per_key => true, rate => 4, per => '1 s')") {
		t.Error("the second call finds no pool")
	}
	c := b.caller(t, "one")
	c.wants(t, "1 3", want(1, "crm/a"), want(2, "crm/a"), want(3, "crm/b"))
	if got, want := get[string](t, b.conn, shown), "crm t 4 1 1 2 1 2 "; got != want {
		t.Errorf("the pool is %q, want %q", got, want)
	}
	got := b.list(t, "SELECT concat_ws(' ', key, worker, run, weight, granted_at IS NOT NULL) FROM oarlock.pool_permits('crm')")
	if want := []string{"a one 1 1 t", "b one 3 1 t", "a one 2 1 f"}; !slices.Equal(got, want) {
		t.Errorf("the permits are %q, want %q", got, want)
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.pool_permits('crm', key => 'b')"); n != 1 {
		t.Errorf("one key has %d permits, want 1", n)
	}
}

func TestPools_RefuseWhatCannotBe(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'heavy', slots => 5", "'crm', slots => 2, per_key => true")
	for _, call := range []string{
		"set_pool('Heavy', slots => 1)", "set_pool('a b', slots => 1)", "set_pool('', slots => 1)", "set_pool(NULL, slots => 1)", "set_pool('x')",
		"set_pool('x', slots => 0)", "set_pool('x', slots => 1000001)", "set_pool('x', rate => 1)", "set_pool('x', slots => 1, per => '1 s')", "set_pool('x', slots => 1, burst => 2)",
		"set_pool('x', rate => 0, per => '1 s')", "set_pool('x', rate => 1, per => '0 s')", "set_pool('x', rate => 1, per => '25 h')", "set_pool('x', rate => 1, per => '-1 s')",
		"set_pool('x', rate => 1, per => '1 s', burst => 0)", "set_pool('x', rate => 1, per => '100000000 years')",
		"set_pool_key('none', 'k', slots => 1)", "set_pool_key('heavy', 'k', slots => 1)", "set_pool_key('crm', '', slots => 1)", "set_pool_key('crm', NULL, slots => 1)",
		"set_pool_key('crm', repeat('k', 201), slots => 1)", "set_pool_key('crm', 'k', slots => 0)",
		"close_pool('none')", "close_pool(NULL)", "close_pool('heavy', key => 'k')", "close_pool('heavy', until => NULL)", "close_pool('heavy', until => '-infinity')", "close_pool('heavy', until => '99999-01-01Z')",
		"open_pool('none')", "open_pool('heavy', key => 'k')", "open_pool('crm', key => '')", "remove_pool('none')",
	} {
		wantCode(t, b.conn, "OA013", "SELECT oarlock."+call)
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.pools WHERE name = 'x'"); n != 0 {
		t.Error("a refused call made a pool")
	}
}

func TestPools_AreClosedAndOpened(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'crm', slots => 1, per_key => true")
	c := b.caller(t, "one")
	must(t, b.conn, "SELECT oarlock.close_pool('crm')")
	must(t, b.conn, "SELECT oarlock.close_pool('crm', key => 'a', until => clock_timestamp() + interval '1 hour')")
	must(t, b.conn, "SELECT oarlock.open_pool('crm', key => 'a')")
	c.wants(t, "", want(1, "crm/a"), want(2, "crm/b"))
	if got := get[time.Time](t, b.conn, "SELECT coalesce(nullif(closed_until, 'infinity'), '2000-01-01Z') FROM oarlock.pool_list('crm') WHERE closed_by = oarlock.who()"); got.Year() != 2000 {
		t.Errorf("closed until %v", got)
	}
	must(t, b.conn, "SELECT oarlock.close_pool('crm', key => 'a')")
	must(t, b.conn, "SELECT oarlock.open_pool('crm')")
	c.wants(t, "2", want(1, "crm/a"), want(2, "crm/b"))
	must(t, b.conn, "SELECT oarlock.open_pool('crm', key => 'a')")
	c.wants(t, "1 2", want(1, "crm/a"), want(2, "crm/b"))
}

func TestPools_AreCheckedAgainstDAGs(t *testing.T) {
	t.Parallel()
	b := api(t)
	put := func(code, pools string) {
		t.Helper()
		wantCode(t, b.conn, code, `SELECT oarlock.put_dag('{"name": "n", "steps": [{"id": "a", "run": "true"}]}', 's', md5($1::text), '{}', pools => $1::text::jsonb)`, pools)
	}
	put("OA013", `{"heavy": {"weight": 1, "key": false}}`)
	b.setPools(t, "'heavy', slots => 3", "'api', rate => 9, per => '1 s', burst => 2", "'crm', slots => 1, per_key => true")
	put("OA013", `{"heavy": {"weight": 4, "key": false}}`)
	put("OA013", `{"api": {"weight": 3, "key": false}}`)
	put("OA013", `{"heavy": {"weight": 1, "key": true}}`)
	put("OA013", `{"crm": {"weight": 1, "key": true, "bare": true}}`)
	for _, none := range []string{"[1]", "7", `{"heavy": {"weight": null}}`, `{"heavy": {"weight": "x"}}`, `{"heavy": {"weight": 0}}`, `{"heavy": 3}`} {
		put("OA013", none)
	}
	put("", `{"heavy": {"weight": 3, "key": false}, "api": {"weight": 2, "key": false}, "crm": {"weight": 1, "key": true}}`)
	wantCode(t, b.conn, "OA013", "SELECT oarlock.set_pool('heavy', slots => 2)")
	wantCode(t, b.conn, "OA013", "SELECT oarlock.set_pool('api', rate => 4, per => '1 s')")
	wantCode(t, b.conn, "OA013", "SELECT oarlock.set_pool('crm', slots => 1)") // a step gives a key
	wantCode(t, b.conn, "OA013", "SELECT oarlock.remove_pool('heavy')")
	put("", `{}`)
	wantCode(t, b.conn, "", "SELECT oarlock.set_pool('heavy', slots => 2)")
	c := b.caller(t, "one")
	c.wants(t, "1", want(1, "heavy"))
	wantCode(t, b.conn, "OA013", "SELECT oarlock.remove_pool('heavy')")
	wantCode(t, b.conn, "OA013", "SELECT oarlock.set_pool('heavy', slots => 2, per_key => true)")
	c.wants(t, "")
	wantCode(t, b.conn, "", "SELECT oarlock.set_pool('heavy', slots => 2, per_key => true)")
	wantCode(t, b.conn, "", "SELECT oarlock.remove_pool('heavy')")
	put("OA013", `{"heavy": {"weight": 1, "key": false}}`)
}

func TestPrune_ForgetsKeysThatSayNothing(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.setPools(t, "'crm', slots => 9, per_key => true, rate => 24, per => '1 day', burst => 2")
	c := b.caller(t, "one")
	c.wants(t, "1 2", want(1, "crm/used"), want(2, "crm/slots"))
	for _, call := range []string{
		"set_pool_key('crm', 'slots', slots => 5)", "set_pool_key('crm', 'unset', slots => 5)", "set_pool_key('crm', 'unset')", "close_pool('crm', key => 'closed')",
		"close_pool('crm', key => 'over', until => clock_timestamp())", "close_pool('crm', key => 'open')", "open_pool('crm', key => 'open')",
	} {
		must(t, b.conn, "SELECT oarlock."+call)
	}
	for _, want := range []string{"[closed slots used]", "[closed slots]"} {
		must(t, b.conn, "SELECT oarlock.prune()")
		if got := fmt.Sprint(b.list(t, "SELECT key FROM oarlock.pool_keys ORDER BY key")); got != want {
			t.Errorf("the keys are %s, want %s", got, want)
		}
		b.later(t, time.Hour)
	}
}
