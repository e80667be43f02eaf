package migrations_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun/schedule"
)

var nightly = flag.Bool("nightly", false, "compare both clocks over 100,000 timings instead of some two hundred")

const clockTables = "../dagrun/schedule/testdata/"

// clockRow is a row of these tables, which package schedule is tested with too.
type clockRow struct {
	Name                 string
	Cron, Every, At      *string
	Timezone, Start, End *string
	Except               []string
	After, Before        *time.Time
	Want                 []time.Time
	None                 bool
	Msg, Hint            string
	SQLHint              string `json:"sql_hint"` // the hint of the database, if it has more to say
}

func clockRows(t *testing.T, table string) []clockRow {
	t.Helper()
	text, err := os.ReadFile(clockTables + table)
	if err != nil {
		t.Fatal(err)
	}
	var rows []clockRow
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

const makeTiming = "oarlock.make_timing($1::text, $2::text::interval, $3::text::timestamptz, $4::text, $5::text::timestamptz, $6::text::timestamptz, $7::text[])"

// args returns the arguments of makeTiming. Postgres does not read all units of Go, and PostgreSQL 14 no number of them that exceeds
// 32 bits: a duration is written as hours and seconds.
func (r clockRow) args(more ...any) []any {
	if r.Every != nil {
		d, err := time.ParseDuration(*r.Every)
		if err != nil {
			panic(err)
		}
		text := fmt.Sprintf("%d hours %f seconds", d/time.Hour, (d % time.Hour).Seconds())
		r.Every = &text
	}
	return append([]any{r.Cron, r.Every, r.At, r.Timezone, r.Start, r.End, r.Except}, more...)
}

func TestClock_FiresAsTheTableSays(t *testing.T) {
	t.Parallel()
	b := api(t)
	for _, r := range clockRows(t, "times.json") {
		function, from := "next_time", r.After
		if from == nil {
			function, from = "last_time", r.Before
		}
		query := "SELECT oarlock." + function + "(" + makeTiming + ", $8)"
		for _, want := range r.Want {
			got := get[*time.Time](t, b.conn, query, r.args(from)...)
			if got == nil || !got.Equal(want) {
				t.Errorf("%s: from %s: %v, want %s", r.Name, from, got, want)
			}
			from = &want
		}
		if more := get[*time.Time](t, b.conn, query, r.args(from)...); (more == nil) != r.None {
			t.Errorf("%s: then %v", r.Name, more)
		}
	}
}

func TestClock_RefusesAsTheTableSays(t *testing.T) {
	t.Parallel()
	b := api(t)
	for _, r := range clockRows(t, "bad.json") {
		_, err := b.conn.Exec(t.Context(), "SELECT "+makeTiming, r.args()...)
		hint := r.Hint
		if r.SQLHint != "" {
			hint = r.SQLHint
		}
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "OA013" || pg.Message != r.Msg || pg.Hint != hint {
			t.Errorf("want %s (%s)\n got %v", r.Msg, hint, pg)
		}
	}
	for _, args := range []string{
		"every => '1 month'", "every => 'infinity'", "at => 'infinity'", "at => '-infinity'", "'@daily', start_at => 'infinity'", "'@daily', end_at => '-infinity'",
		"'@daily', timezone => ''", "'@daily', timezone => 'Local'", "'@daily', except_at => '{NULL}'", "'@daily', except_at => array_fill('2026-12-25'::text, '{101}')", "repeat('0,', 250) || '0 * * * *'",
	} {
		if args == "every => 'infinity'" && get[int](t, b.conn, "SELECT current_setting('server_version_num')::int") < 170000 {
			continue // no such interval
		}
		wantCode(t, b.conn, "OA013", "SELECT oarlock.make_timing("+args+")")
	}
	for _, name := range b.list(t, "SELECT name FROM pg_timezone_names WHERE name ~ '^(A|Etc/|Europe/)' ORDER BY 1") {
		wantCode(t, b.conn, "", "SELECT oarlock.check_zone($1)", name)
	}
	if zone := get[string](t, b.conn, "SELECT current_setting('TimeZone') FROM oarlock.make_timing('@daily', timezone => 'Asia/Tokyo')"); zone == "Asia/Tokyo" {
		t.Error("a check sets the zone of the session")
	}
}

func TestClock_OutsideOfTheYearsItKnows(t *testing.T) {
	t.Parallel()
	b := api(t)
	for _, args := range []string{"'* * * * *'", "every => '1s'"} {
		for call, want := range map[string]string{
			"next_time(t, 'infinity')": "", "last_time(t, '-infinity')": "", "next_time(t, NULL)": "", "last_time(t, NULL)": "",
			"date_trunc('hour', next_time(t, '-infinity'), 'UTC')": "0020-01-01 00:00:00", "date_trunc('hour', last_time(t, 'infinity'), 'UTC')": "9899-12-31 23:00:00",
		} {
			call = strings.NewReplacer("next_time", "oarlock.next_time", "last_time", "oarlock.last_time").Replace(call)
			if got := get[string](t, b.conn, "SELECT coalesce(("+call+" AT TIME ZONE 'UTC')::text, '') FROM oarlock.make_timing("+args+") t"); got != want {
				t.Errorf("%s, %s: %s, want %s", args, call, got, want)
			}
		}
	}
	gaps := b.list(t, `SELECT coalesce(oarlock.shortest_gap(t)::text, 'none') FROM (VALUES (1, oarlock.make_timing('0 1,3,23 * * *')), (2, oarlock.make_timing('0 3 * * *')),
		(3, oarlock.make_timing(every => '1500 ms')), (4, oarlock.make_timing(at => now())), (5, oarlock.make_timing('0 23,0 * * 1'))) x (n, t) ORDER BY n`)
	if want := []string{"02:00:00", "24:00:00", "00:00:01.5", "none", "01:00:00"}; !slices.Equal(gaps, want) {
		t.Errorf("gaps %v, want %v", gaps, want)
	}
}

func TestCronTimes_AreForEverybody(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	su := b.user(t, "su", "oarlock_submit")
	if got := get[string](t, su, "SELECT string_agg((x AT TIME ZONE 'Europe/Paris')::text, ' ') FROM oarlock.cron_times('30 2 * * *', 'Europe/Paris', '2026-03-28T00:00Z', 3) x"); got != "2026-03-28 02:30:00 2026-03-29 03:30:00 2026-03-30 02:30:00" {
		t.Error(got)
	}
	for call, want := range map[string]string{
		"'@daily'": "", "'@daily', NULL, NULL, NULL": "", "NULL": "OA013", "'@daily', n => 0": "OA013", "'@daily', n => 1001": "OA013", "'@daily', n => 1000": "", "'0 0 30 2 *'": "OA013",
		"'@daily', 'europe/paris'": "OA013", "'@daily', after => 'infinity'": "",
	} {
		wantCode(t, su, want, "SELECT oarlock.cron_times("+call+")")
	}
}

// clockCalls counts the calls of these functions in a search for a fire.
type clockCalls struct{ days, offsets, leftOut, minutes int64 }

func (b bundle) clockCalls(t *testing.T) clockCalls {
	t.Helper()
	return clockCalls{b.called(t, "cron_day"), b.called(t, "zone_offset"), b.called(t, "left_out"), b.called(t, "minute_of")}
}

// The cost of a search is counted in calls, which do not depend on the load of the machine: days examined, offsets computed,
// days with their excepted minutes computed, and times compared with these. The cases from "all" on are the worst known.
func TestClock_LooksAtFewDays(t *testing.T) {
	t.Parallel()
	b := api(t)
	const all = "except_at => array_fill('* * * * *'::text, '{20}')"
	for _, c := range []struct {
		timing, at string
		most       clockCalls
	}{
		{"'15 2 * * *', timezone => 'Europe/Paris'", "2026-06-01T12:00Z", clockCalls{4, 8, 0, 0}},
		{"'15 2 * * *', timezone => 'Europe/Paris'", "2026-03-28T12:00Z", clockCalls{4, 24, 1, 0}},
		{"'* * * * *', timezone => 'Europe/Paris'", "2026-03-29T00:30Z", clockCalls{4, 24, 1, 0}},
		{"'0 0 1 1 *'", "2026-06-01T12:00Z", clockCalls{33, 8, 0, 0}},
		{"'0 0 29 2 *'", "2096-03-01T00:00Z", clockCalls{8 * 30, 8, 0, 0}},
		{"'0 0 29 2 */7'", "2004-03-01T00:00Z", clockCalls{11 * 30, 4, 0, 0}},
		{"'* * * * *', except_at => '{* 1 * * *,2026-12-25}'", "2026-06-01T12:00Z", clockCalls{4, 8, 3, 0}},
		{"'* * * * *', " + all, "2004-03-01T00:00Z", clockCalls{401, 2 * 401, 400, 0}},
		{"'* * * * 0', timezone => 'Africa/Casablanca', " + all, "2013-03-01T00:00Z", clockCalls{2810, 900, 405, 800}},
		{"'* * 25-31 3,10 0', timezone => 'Europe/Paris', " + all, "2020-03-01T00:00Z", clockCalls{640, 600, 220, 700}},
		{"every => '24h', " + all, "2004-03-01T00:00Z", clockCalls{0, 2 * 401, 401, 401}},
		{"every => '1s', timezone => 'Africa/Casablanca', " + all, "2013-03-01T00:00Z", clockCalls{0, 900, 401, 8000}},
		{"every => '2m', timezone => 'Europe/Paris', except_at => array_fill('*/2 * * * *'::text, '{20}')", "2020-03-01T00:00Z", clockCalls{0, 100, 20, 10_000}},
	} {
		for _, function := range []string{"next_time", "last_time"} {
			must(t, b.conn, "BEGIN")
			must(t, b.conn, fmt.Sprintf("CREATE TEMP TABLE made AS SELECT oarlock.make_timing(%s) AS timing", c.timing))
			before, parsed := b.clockCalls(t), b.called(t, "read_cron_field")
			must(t, b.conn, fmt.Sprintf("SELECT oarlock.%s(timing, '%s') FROM made", function, c.at))
			after := b.clockCalls(t)
			got := clockCalls{after.days - before.days, after.offsets - before.offsets, after.leftOut - before.leftOut, after.minutes - before.minutes}
			if n := b.called(t, "read_cron_field") - parsed; n > 0 {
				t.Errorf("%s of %s parses %d fields", function, c.timing, n)
			}
			must(t, b.conn, "ROLLBACK")
			if got == (clockCalls{}) && !callsUntracked() || got.days > c.most.days || got.offsets > c.most.offsets || got.leftOut > c.most.leftOut || got.minutes > c.most.minutes {
				t.Errorf("%s of %s from %s makes these calls: %+v, at most %+v", function, c.timing, c.at, got, c.most)
			}
		}
	}
}

// called returns how often this session called a function. The session reports its counts to the server between transactions.
func (b bundle) called(t *testing.T, function string) int64 {
	t.Helper()
	return get[int64](t, b.conn, "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_xact_user_functions WHERE funcname = $1", function)
}

func callsUntracked() bool {
	calls.Lock()
	defer calls.Unlock()
	return calls.untracked
}

// Zones with summer time of all kinds, with changes at midnight, of half hours, of a day, and without any.
var clockZones = strings.Fields(`UTC Europe/Paris Europe/London Europe/Dublin Europe/Moscow Europe/Istanbul Europe/Lisbon America/New_York America/Chicago
	America/Denver America/Los_Angeles America/St_Johns America/Halifax America/Havana America/Santiago America/Sao_Paulo America/Caracas America/Asuncion
	America/Godthab America/Anchorage Pacific/Apia Pacific/Kiritimati Pacific/Chatham Pacific/Auckland Pacific/Honolulu Pacific/Tongatapu Australia/Lord_Howe
	Australia/Sydney Australia/Adelaide Asia/Kathmandu Asia/Kolkata Asia/Tehran Asia/Tokyo Asia/Gaza Asia/Pyongyang Africa/Casablanca Africa/Cairo
	Africa/Windhoek Antarctica/Troll Antarctica/Casey`)

// draws makes timings like people write them, near changes of the clock.
type draws struct{ *rand.Rand }

func (d draws) cron() string {
	field := func(low, high int, stars int) string {
		number := func() int { return low + d.IntN(high-low+1) }
		switch n := d.IntN(10); {
		case n < stars:
			return "*"
		case n == 9:
			return fmt.Sprintf("*/%d", 1+d.IntN(high))
		case n == 8:
			return fmt.Sprintf("%d/%d", number(), 1+d.IntN(high))
		case n == 7:
			a, b := number(), number()
			return fmt.Sprintf("%d-%d/%d", min(a, b), max(a, b), 1+d.IntN(4))
		case n == 6:
			return fmt.Sprintf("%d,%d,%d", number(), number(), number())
		}
		return fmt.Sprint(number())
	}
	hours := field(0, 23, 2)
	if d.IntN(2) == 0 {
		hours = fmt.Sprint(d.IntN(5))
	}
	return strings.Join([]string{field(0, 59, 1), hours, field(1, 31, 6), field(1, 12, 6), field(0, 7, 6)}, " ")
}

// moment draws a moment from 1990 to 2037, every second one within two days of a change of the clock.
func (d draws) moment(location *time.Location) time.Time {
	from := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	at := time.Unix(from+d.Int64N(48*365*86400), 0)
	if _, change := at.In(location).ZoneBounds(); !change.IsZero() && change.Year() < 2038 && d.IntN(2) == 0 {
		at = change.Add(time.Duration(d.Int64N(4*86400)-2*86400) * time.Second)
	}
	if d.IntN(3) == 0 {
		return at.Truncate(time.Minute)
	}
	return at.Add(time.Duration(d.IntN(1_000_000)) * time.Microsecond)
}

func (d draws) timing() (timing schedule.Timing, at time.Time) {
	timing.Timezone = clockZones[d.IntN(len(clockZones))]
	location, err := time.LoadLocation(timing.Timezone)
	if err != nil {
		panic(err)
	}
	at = d.moment(location)
	near := func() time.Time { return at.Add(time.Duration(d.Int64N(20*86400)-10*86400) * time.Second) }
	timing.Cron = d.cron()
	if d.IntN(8) == 0 {
		timing.Cron, timing.Every = "", time.Duration(1000+d.IntN(100_000_000)/(1+d.IntN(1000)))*time.Millisecond
	}
	if d.IntN(4) == 0 {
		timing.Start = near()
	}
	if d.IntN(4) == 0 {
		timing.End = near()
		if !timing.Start.Before(timing.End) {
			timing.Start = time.Time{}
		}
	}
	for range max(0, d.IntN(6)-3) {
		except := near().Format(time.DateOnly)
		if d.IntN(2) == 0 {
			except = d.cron()
		}
		timing.Except = append(timing.Except, except)
	}
	return timing, at
}

const compareClocks = `
	SELECT oarlock.next_time(t, q.at), oarlock.last_time(t, q.at), (extract(epoch FROM oarlock.shortest_gap(t)) * 1000)::bigint
	  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::timestamptz[]) WITH ORDINALITY q (cron, every, zone, start_at, end_at, excepts, at, n),
	       LATERAL (SELECT (oarlock.make_timing(q.cron, q.every * interval '1 millisecond', NULL, q.zone, q.start_at, q.end_at, string_to_array(q.excepts, '|'))).* OFFSET 0) f,
	       LATERAL (SELECT ROW(f.*)::oarlock.timing AS t OFFSET 0) r
	 ORDER BY q.n`

// TestClock_IsTheSameInGo holds the second implementation, which previews and the store in memory go by, to the first.
func TestClock_IsTheSameInGo(t *testing.T) {
	t.Parallel()
	b := api(t)
	total, batch := 200, 200
	if *nightly {
		total, batch = 100_000, 2000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := draws{rand.New(rand.NewPCG(seed, 0))}
	fires, refused := 0, 0
	for left := total; left > 0; left -= batch {
		q := clockBatch{}
		for len(q.clocks) < batch {
			timing, at := d.timing()
			c, err := schedule.New(timing)
			if err != nil {
				refused++ // another test compares the errors
				continue
			}
			q.add(timing, c, at)
		}
		fires += q.compare(t, b)
	}
	if fires < total/2 {
		t.Errorf("of %d timings %d fire, %d were refused", total, fires, refused)
	}
}

type clockBatch struct {
	timings            []schedule.Timing
	clocks             []*schedule.Clock
	zones              []string
	cronOrNull, except []*string
	every              []*int64
	start, end         []*time.Time
	at                 []time.Time
}

func orNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

func (q *clockBatch) add(timing schedule.Timing, c *schedule.Clock, at time.Time) {
	q.timings, q.clocks, q.at = append(q.timings, timing), append(q.clocks, c), append(q.at, at)
	q.cronOrNull, q.every = append(q.cronOrNull, orNull(timing.Cron)), append(q.every, orNull(timing.Every.Milliseconds()))
	q.zones, q.except = append(q.zones, timing.Timezone), append(q.except, orNull(strings.Join(timing.Except, "|")))
	q.start, q.end = append(q.start, orNull(timing.Start)), append(q.end, orNull(timing.End))
}

func (q *clockBatch) compare(t *testing.T, b bundle) (fires int) {
	t.Helper()
	rows, err := b.conn.Query(t.Context(), compareClocks, q.cronOrNull, q.every, q.zones, q.start, q.end, q.except, q.at)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	var next, last *time.Time
	var gap int64
	_, err = pgx.ForEachRow(rows, []any{&next, &last, &gap}, func() error {
		c, at := q.clocks[i], q.at[i]
		goNext, isNext := c.Next(at)
		goLast, isLast := c.Last(at)
		if isNext != (next != nil) || isNext && !goNext.Equal(*next) {
			t.Errorf("%+v: next after %s is %s in Go, %v in SQL", q.timings[i], at.UTC().Format(time.RFC3339Nano), goNext, next)
		}
		if isLast != (last != nil) || isLast && !goLast.Equal(*last) {
			t.Errorf("%+v: last before %s is %s in Go, %v in SQL", q.timings[i], at.UTC().Format(time.RFC3339Nano), goLast, last)
		}
		if gap != c.ShortestGap().Milliseconds() {
			t.Errorf("%+v: gap %s in Go, %d ms in SQL", q.timings[i], c.ShortestGap(), gap)
		}
		if isNext {
			fires++
		}
		i++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fires
}

// TestClock_RefusesWhatGoRefuses compares answers about texts that are nearly cron expressions, messages and hints included.
func TestClock_RefusesWhatGoRefuses(t *testing.T) {
	t.Parallel()
	b := api(t)
	must(t, b.conn, `CREATE FUNCTION pg_temp.answer(cron text) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE hint text;
		BEGIN
			PERFORM oarlock.make_timing(cron);
			RETURN 'ok';
		EXCEPTION WHEN SQLSTATE 'OA013' THEN
			GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
			RETURN SQLERRM || '; ' || hint;
		END $$`)
	rounds := 2
	if *nightly {
		rounds = 50
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := draws{rand.New(rand.NewPCG(seed, 1))}
	pieces := []string{
		"*", ",", "-", "/", " ", "  ", "\t", "\n", "0", "1", "7", "8", "12", "31", "59", "60", "0007", "99999", "mon", "SUN", "jan", "Dec", "L", "W", "#", "?", "H", "@", "@daily", "@every 5m",
		"@reboot", "é", "İ", "K", "+", ".", "x", "\"", "\\", "'", "\v", "\u00a0", strings.Repeat("1,", 251),
	}
	accepted := 0
	for range rounds {
		var texts []string
		for range 1000 {
			text := []rune(d.cron())
			for range d.IntN(4) {
				at := d.IntN(len(text) + 1)
				end := min(len(text), at+d.IntN(3))
				text = slices.Concat(text[:at], []rune(pieces[d.IntN(len(pieces))]), text[end:])
			}
			if len(text) > 0 {
				texts = append(texts, string(text))
			}
		}
		for i, got := range b.list(t, "SELECT pg_temp.answer(x) FROM unnest($1::text[]) WITH ORDINALITY q (x, n) ORDER BY n", texts) {
			want := "ok"
			if _, err := schedule.New(schedule.Timing{Cron: texts[i]}); err != nil {
				e, _ := errors.AsType[*schedule.Error](err)
				want = e.Msg + "; " + e.Hint
			} else {
				accepted++
			}
			if got != want {
				t.Errorf("%q: %s in SQL, %s in Go", texts[i], got, want)
			}
		}
	}
	if accepted < 100*rounds {
		t.Errorf("only %d were accepted", accepted)
	}
}
