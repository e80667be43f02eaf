package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
)

func TestExecute_PutsOutTheRowsOfTheLastStatement(t *testing.T) {
	t.Parallel()
	y := setup(t)
	res, c := y.do(y.action(), with{"sql": []any{
		"CREATE TEMP TABLE made (n int, at timestamptz)",
		with{"sql": "INSERT INTO made VALUES ($1, $2), (2, NULL)", "params": []any{1, "2026-11-22T01:02:03.5Z"}},
		`SELECT n, at AT TIME ZONE 'UTC' AS at, n > 1 AS big, n / 8.0 AS part, ARRAY[[n, NULL], [3, 4]] AS lists, '{"a": [1, "<&>"]}'::jsonb AS doc,
			'{}'::text[] AS none, 'NaN'::float8 AS nan, E'q"\\' AS text FROM made ORDER BY n`,
	}}, dagspec.Output{Name: "n", Type: "number"}, dagspec.Output{Name: "text", Type: "string"})
	if res.Kind != dagrun.KindNone {
		t.Fatalf("%+v: %s", res, c.log.String())
	}
	first := `{"n":1,"at":"2026-11-22T01:02:03.5","big":false,"part":0.12500000000000000000,"lists":[[1,null],[3,4]],"doc":{"a":[1,"<&>"]},"none":[],"nan":"NaN","text":"q\"\\"}`
	second := `{"n":2,"at":null,"big":true,"part":0.25000000000000000000,"lists":[[2,null],[3,4]],"doc":{"a":[1,"<&>"]},"none":[],"nan":"NaN","text":"q\"\\"}`
	want := `{"first":` + first + `,"n":1,"row_count":2,"rows":[` + first + `,` + second + `],"text":"q\"\\"}`
	if diff := cmp.Diff(want, string(res.Outputs)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(c.log.String(), "oarlock: 2 rows in ") {
		t.Errorf("logged %q", c.log.String())
	}
}

func TestNew_TakesAConfigurationOfTheProgramsOwn(t *testing.T) {
	t.Parallel()
	y := setup(t)
	given, err := pgx.ParseConfig(y.tasks)
	y.must(err)
	user := given.User
	given.User, given.Password = "nobody_here", ""
	c := postgres.Connection{Config: given, BeforeConnect: func(_ context.Context, config *pgx.ConnConfig) error {
		config.User, config.Password = user, "pass-word"
		return nil
	}}
	a := y.action(func(all *postgres.Config) { all.Connections[postgres.Own] = c })
	given.Host = "changed.invalid" // it was copied
	res, _ := y.do(a, with{"sql": "SELECT current_user::text AS who, current_setting('client_connection_check_interval') AS check"})
	if want := `{"first":{"who":"` + user + `","check":"5s"},"row_count":1,`; !strings.HasPrefix(string(res.Outputs), want) {
		t.Errorf("%+v", res)
	}
	c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return errors.New("no token for hunter2") }
	a = y.action(func(all *postgres.Config) { all.Connections[postgres.Own] = c })
	if res, c := y.do(a, with{"sql": "SELECT 1"}); res.Kind != dagrun.KindSQL || strings.Contains(res.Reason+c.log.String(), "hunter2") {
		t.Errorf("%+v", res)
	}
	c.URL = y.tasks
	if _, err := postgres.New(postgres.Config{Connections: map[string]postgres.Connection{"x": c}}); err == nil {
		t.Error("a URL and a configuration are accepted")
	}
}

func TestExecute_LeavesTheWorkersOwnConnectionToFunctions(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(func(c *postgres.Config) {
		c.KeepOwn = true
		c.Connections["reports"] = c.Connections[postgres.Own]
	})
	for _, w := range []with{{"sql": "SELECT 1"}, {"sql": "SELECT 1", "connection": postgres.Own}} {
		if res, _ := y.do(a, w); res.Kind != dagrun.KindConfig || !strings.Contains(res.Reason, "own_sql") {
			t.Errorf("%v: %+v", w, res)
		}
	}
	if res, _ := y.do(a, with{"sql": "SELECT 1", "connection": "reports"}); res.Kind != dagrun.KindNone {
		t.Errorf("%+v", res)
	}
}

func TestExecute_RowCountOfAChange(t *testing.T) {
	t.Parallel()
	y := setup(t)
	res, _ := y.do(y.action(), with{"sql": "INSERT INTO ledger (key) SELECT n::text FROM generate_series(1, 7) n"})
	if res.Outputs != `{"row_count":7,"rows":[]}` {
		t.Errorf("%+v", res)
	}
}

func TestExecute_WritesRowsToTheLogInTheFormAskedFor(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	for format, want := range map[string]string{
		"json":  "[\n{\"n\":1,\"s\":\"a,b\"},\n{\"n\":2,\"s\":null}\n]\n",
		"jsonl": "{\"n\":1,\"s\":\"a,b\"}\n{\"n\":2,\"s\":null}\n",
		"csv":   "n,s\n1,\"a,b\"\n2,\n",
	} {
		res, c := y.do(a, with{"sql": "SELECT * FROM (VALUES (1, 'a,b'), (2, NULL)) v (n, s)", "format": format})
		if c.out.String() != want || res.Outputs != `{"first":{"n":1,"s":"a,b"},"row_count":2}` {
			t.Errorf("%s: %q, %+v", format, c.out.String(), res)
		}
		if res, c = y.do(a, with{"sql": "SELECT 1 AS n WHERE false", "format": format}); res.Outputs != `{"row_count":0}` {
			t.Errorf("%s without rows: %q %+v", format, c.out.String(), res)
		}
	}
}

func TestExecute_RowsPastALimitFailAndCommitNothing(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	const many = "INSERT INTO ledger (key) SELECT n::text FROM generate_series(1, 5) n RETURNING key"
	for want, w := range map[string]with{
		"more than 4 rows":            {"sql": many, "max_rows": 4},
		"more than 0 rows":            {"sql": many, "max_rows": 0, "format": "csv"},
		"more than 40 bytes":          {"sql": many, "max_bytes": 40},
		"more than 41 bytes":          {"sql": many, "max_bytes": 41, "format": "jsonl"},
		"more than 1000 rows":         {"sql": "SELECT generate_series(1, 100000000)"},
		"more than 1048576 bytes":     {"sql": "SELECT repeat('x', 600000)"}, // the text counts twice, since it is also in first
		"two columns have the name n": {"sql": "SELECT 1 AS n, 2 AS n"},
		"the value holds \\u0000":     {"sql": `SELECT '"\u0000"'::json AS j`},
		"returns no column of that":   {"sql": "SELECT 1 AS other"},
		"last statement returned no":  {"sql": "SELECT 1 AS id WHERE false"},
		"the column is no number":     {"sql": "SELECT 'x' AS id"},
	} {
		var declared []dagspec.Output
		if strings.Contains(want, "column of") || strings.Contains(want, "last") || strings.Contains(want, "no number") {
			declared = []dagspec.Output{{Name: "id", Type: "number"}}
		}
		res, c := y.do(a, w, declared...)
		if res.Kind != dagrun.KindOutput || !strings.Contains(res.Reason, want) {
			t.Errorf("want %s: %+v", want, res)
		}
		if c.out.String() != "" {
			t.Errorf("%s: wrote %q all the same", want, c.out.String())
		}
	}
	y.wantRows(0)
	if res, _ := y.do(a, with{"sql": many, "max_rows": 5}); res.Kind != dagrun.KindNone {
		t.Errorf("at the limit: %+v", res)
	}
}

func TestExecute_RollsBackAllStatementsWhenOneFails(t *testing.T) {
	t.Parallel()
	y := setup(t)
	res, c := y.do(y.action(), with{"sql": []any{"INSERT INTO ledger (key) VALUES ('a')", "SELECT\n  1 / 0\n  FROM nowhere"}})
	if res.Kind != dagrun.KindSQL || res.Reason != `statement 2: relation "nowhere" does not exist (42P01) at line 3, column 8` || res.Permanent {
		t.Errorf("%+v", res)
	}
	if !strings.Contains(c.log.String(), "nowhere") {
		t.Errorf("logged %q", c.log.String())
	}
	y.wantRows(0)
}

func TestExecute_RefusesTransactionControl(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	for _, sql := range []string{
		"COMMIT", "  -- done\n /* x */ ; commit and chain", "begin", "START  TRANSACTION", "ROLLBACK;", "Abort", "END work", "PREPARE TRANSACTION 'x'",
		"COPY ledger FROM STDIN", "copy (select 1) to stdout", "", "-- nothing", ";;",
	} {
		if res, _ := y.do(a, with{"sql": []any{"INSERT INTO ledger (key) VALUES ('a')", sql}}); res.Kind != dagrun.KindConfig {
			t.Errorf("%q: %+v", sql, res)
		}
	}
	for _, list := range [][]any{{"SAVEPOINT a", "ROLLBACK TO SAVEPOINT a", "ROLLBACK TO a"}, {"PREPARE p AS SELECT 1", "EXECUTE p"}, {"SELECT 1 AS commit"}} {
		if res, _ := y.do(a, with{"sql": list}); res.Kind != dagrun.KindNone {
			t.Errorf("%v: %+v", list, res)
		}
	}
	// Statements that check cannot recognise by their first words are noticed afterwards.
	if res, _ := y.do(a, with{"sql": "/* /* a comment */ in a comment */ COMMIT AND CHAIN"}); res.Kind != dagrun.KindSQL || !res.Permanent || !strings.Contains(res.Reason, "ended the transaction") {
		t.Errorf("hidden: %+v", res)
	}
	if res, _ := y.do(a, with{"sql": "SELECT 1; SELECT 2"}); !strings.Contains(res.Reason, "multiple commands") {
		t.Errorf("two in one: %+v", res)
	}
	y.wantRows(0)
}

func TestExecute_WhatIsWrongWithAStepIsConfig(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(func(c *postgres.Config) { c.Connections["warehouse"] = postgres.Connection{URL: y.tasks} })
	for want, w := range map[string]with{
		`no connection "warehose": did you mean warehouse?`:             {"sql": "SELECT 1", "connection": "warehose"},
		`no connection "x": it has oarlock, warehouse`:                  {"sql": "SELECT 1", "connection": "x"},
		"the statement has 1 parameters, but params has 0":              {"sql": "SELECT $1::int"},
		"the statement has 0 parameters, but params has 1":              {"sql": "SELECT 1", "params": []any{1}},
		"params is for a single statement":                              {"sql": []any{"SELECT 1"}, "params": []any{1}},
		"with.max_rows":                                                 {"sql": "SELECT 1", "max_rows": "many"},
		"with.max_bytes: 2000000 is not from 1 to 1048576":              {"sql": "SELECT 1", "max_bytes": 2000000},
		"with.lock_timeout":                                             {"sql": "SELECT 1", "lock_timeout": "soon"},
		"$1: the text has a NUL character, which Postgres cannot store": {"sql": "SELECT $1::text", "params": []any{"a\x00b"}},
		"with.sql must be a statement":                                  {},
	} {
		if res, _ := y.do(a, w); res.Kind != dagrun.KindConfig || !strings.Contains(res.Reason, want) {
			t.Errorf("want %s: %+v", want, res)
		}
	}
}

func TestExecute_ParamsArriveAsTheyAreWhateverTheyHold(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	letters := []rune(`'";\${}[](),% $1` + "\n\t\u00e9\u4e16\U0001F600" + "NULLnull--/*")
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var text strings.Builder
		for range random.IntN(30) {
			text.WriteRune(letters[random.IntN(len(letters))])
		}
		s := text.String()
		list, doc := []any{s, nil, "x" + s}, map[string]any{s: []any{s, 1.5, nil, true}}
		res, _ := y.do(a, with{"sql": "SELECT $1::text AS t, $2::text[] AS l, $3::jsonb AS j, $4::jsonb[] AS d", "params": []any{s, list, doc, []any{doc, s, []any{1}}}})
		var out struct {
			First struct {
				T string
				L []any
				J map[string]any
				D []any
			}
		}
		if err := json.Unmarshal([]byte(res.Outputs), &out); err != nil || res.Kind != dagrun.KindNone {
			t.Fatalf("%q: %+v: %v", s, res, err)
		}
		if diff := cmp.Diff([]any{s, list, doc, []any{doc, s, []any{1.0}}}, []any{out.First.T, out.First.L, out.First.J, out.First.D}); diff != "" {
			t.Fatalf("%q: %s", s, diff)
		}
	}
}

func TestExecute_ParamsFitTheTypeThatTheServerWants(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	y.exec("CREATE TYPE mood AS ENUM ('glad', 'sad'); GRANT USAGE ON TYPE mood TO PUBLIC")
	for sql, param := range map[string]any{
		"$1::bigint = 9007199254740993":              json.Number("9007199254740993"),
		"$1::int = 1000000":                          1e6,
		"$1::numeric = 0.1":                          0.1,
		"$1::text = '5'":                             5,
		"$1::bool":                                   true,
		"$1::date = '2026-11-22'":                    "2026-11-22",
		"$1::interval = '90 minutes'":                "1h30m",
		"$1::uuid::text LIKE '0%'":                   "00000000-0000-0000-0000-000000000001",
		"3 = ANY ($1::int[])":                        []any{1, 2, 3},
		"$1::int[] = '{{1,2},{3,4}}'":                []any{[]any{1, 2}, []any{3, 4}},
		"$1::mood[] = ARRAY['sad', 'glad']::mood[]":  []any{"sad", "glad"},
		"$1::text[] = '{}'":                          []any{},
		"$1::jsonb = '[1, null]'":                    []any{1, nil},
		"$1::text IS NULL":                           nil,
		"$1::bytea = '\\x00ff'":                      `\x00ff`,
		"$1::inet << '10.0.0.0/8'":                   "10.1.2.3",
		"$1::int4range @> 3":                         "[1,5)",
		"$1::timestamptz = '2026-11-22T00:00:00+00'": "2026-11-22T00:00:00Z",
	} {
		res, _ := y.do(a, with{"sql": "SELECT " + sql + " AS ok", "params": []any{param}})
		if !strings.Contains(string(res.Outputs), `"ok":true`) {
			t.Errorf("%s with %v: %+v", sql, param, res)
		}
	}
}

func TestExecute_NoticesGoToTheLog(t *testing.T) {
	t.Parallel()
	y := setup(t)
	_, c := y.do(y.action(), with{"sql": "DO $$BEGIN RAISE NOTICE 'half way'; RAISE WARNING 'careful'; END$$"})
	if log := c.log.String(); !strings.Contains(log, "NOTICE: half way\nWARNING: careful\n") {
		t.Errorf("logged %q", log)
	}
}

func TestExecute_NothingOfATaskIsLeftToTheNext(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(func(c *postgres.Config) { c.MaxOpen = 1 })
	res, _ := y.do(a, with{"sql": []any{
		"SET search_path = nowhere", "SET statement_timeout = 7777777", "CREATE TEMP TABLE mine (n int)", "SELECT pg_advisory_lock(7)",
		"PREPARE p AS SELECT 1", "SELECT pg_backend_pid() AS pid",
	}}, dagspec.Output{Name: "pid", Type: "number"})
	again, _ := y.do(a, with{"sql": `SELECT pg_backend_pid() AS pid, current_setting('search_path') <> 'nowhere' AND current_setting('statement_timeout') = '0'
		AND to_regclass('pg_temp.mine') IS NULL AND NOT EXISTS (SELECT FROM pg_prepared_statements WHERE name <> '') AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS clean`})
	var one struct{ Pid int }
	var two struct {
		First struct {
			Pid   int
			Clean bool
		}
	}
	if json.Unmarshal([]byte(res.Outputs), &one) != nil || json.Unmarshal([]byte(again.Outputs), &two) != nil || one.Pid == 0 || one.Pid != two.First.Pid || !two.First.Clean {
		t.Errorf("%s %s, then %s %s", res.Reason, res.Outputs, again.Reason, again.Outputs)
	}
}

func TestExecute_SecretsStayOutOfReasonsAndLogs(t *testing.T) {
	t.Parallel()
	y := setup(t)
	unreachable := strings.Replace(y.tasks, "pass-word", "other-pass", 1)
	a := y.action(func(c *postgres.Config) {
		c.Connections["wrong"] = postgres.Connection{URL: unreachable}
		c.Connections["down"] = postgres.Connection{URL: "postgres://someone:pass-word@127.0.0.1:1/somewhere?sslmode=disable"}
		c.Connections["lost"] = postgres.Connection{URL: "postgres://someone:pass-word@no-such-host.invalid/somewhere"}
	})
	for name, w := range map[string]with{
		"bad value":  {"sql": "SELECT $1::int", "params": []any{"hunter2-value"}},
		"short":      {"sql": "SELECT $1::int", "params": []any{"zq"}},
		"unique":     {"sql": []any{"INSERT INTO ledger (key) VALUES ('hunter2-value')", with{"sql": "INSERT INTO ledger (key) VALUES ($1)", "params": []any{"hunter2-value"}}}},
		"secret":     {"sql": "SELECT 'top-secret'::int"},
		"wrong pass": {"sql": "SELECT 1", "connection": "wrong"},
		"down":       {"sql": "SELECT 1", "connection": "down"},
		"no host":    {"sql": "SELECT 1", "connection": "lost"},
	} {
		c := newCall(w)
		c.task.Secrets = map[string]string{"TOKEN": "top-secret"}
		res := a.Execute(t.Context(), c.task)
		if res.Kind != dagrun.KindSQL || len(res.Reason) < 10 {
			t.Errorf("%s: %+v", name, res)
		}
		for _, secret := range []string{"hunter2", `"zq"`, "pass-word", "other-pass", "someone", "somewhere", "no-such-host"} {
			if strings.Contains(res.Reason+c.log.String()+string(res.Outputs), secret) {
				t.Errorf("%s: %q is in %q or in %q", name, secret, res.Reason, c.log.String())
			}
		}
		if strings.Contains(res.Reason, "top-secret") { // the log has its own masking
			t.Errorf("%s: %q", name, res.Reason)
		}
	}
	for _, url := range []string{"", "postgres://u:pass-word@h:bad/x", "host=h password=pass-word sslmode=wat"} {
		if _, err := postgres.New(postgres.Config{Connections: map[string]postgres.Connection{"x": {URL: url}}}); err == nil || strings.Contains(err.Error(), "pass-word") {
			t.Errorf("%v", err)
		}
	}
	if shown := fmt.Sprintf("%+v", a); strings.Contains(shown, "pass-word") {
		t.Errorf("an Action shows %s", shown)
	}
}

func TestExecute_TheEndOfItsContextEndsTheStatementAtTheServer(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	running := func() bool {
		return get[bool](y, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'oarlock 41 load/eu#2' AND query LIKE '%pg_sleep(1000)%' AND wait_event = 'PgSleep' AND datname = current_database())")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	c := newCall(with{"sql": []any{"INSERT INTO ledger (key) VALUES ('a')", "SELECT pg_sleep(1000)"}})
	ended := make(chan dagrun.Result, 1)
	go func() { ended <- a.Execute(ctx, c.task) }()
	y.eventually("it runs", running)
	cancel(fmt.Errorf("stopped: cancel"))
	res := <-ended
	if running() {
		t.Error("the server goes on")
	}
	if res.Kind != dagrun.KindSQL || !strings.HasPrefix(res.Reason, "stopped: cancel: ") || !strings.Contains(res.Reason, "57014") {
		t.Errorf("%s: %q", res.Kind, res.Reason)
	}
	y.wantRows(0)
	if n := get[int](y, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oarlock' AND state = 'idle' AND query LIKE '%reset%' AND datname = current_database()"); n != 1 {
		t.Errorf("%d connections were kept for the next task", n)
	}
}

func TestReason_OfWhatWasNotSent(t *testing.T) {
	t.Parallel()
	y := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := y.conn.Exec(ctx, "SELECT 1")
	if got := postgres.Reason(err); got != "the task ended before it was sent" {
		t.Errorf("%q for %v", got, err)
	}
}

func TestExecute_TimeoutsAreTheServersToo(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(func(c *postgres.Config) {
		c.Connections["hasty"] = postgres.Connection{URL: y.tasks, StatementTimeout: 50_000_000, LockTimeout: 40_000_000}
	})
	const show = "SELECT current_setting('statement_timeout') || ' ' || current_setting('lock_timeout') || ' ' || current_setting('transaction_isolation') || ' ' || current_setting('transaction_read_only') AS s"
	minute := dagspec.Duration(60_000)
	for want, w := range map[string]with{
		"65s 0 read committed off":     {},
		"50ms 40ms read committed off": {"connection": "hasty"},
		"2s 3s serializable on":        {"connection": "hasty", "statement_timeout": "2s", "lock_timeout": "3s", "isolation": "serializable", "read_only": true},
	} {
		w["sql"] = show
		c := newCall(w)
		c.task.Body.Timeout = &dagspec.Span{Value: minute}
		if res := a.Execute(t.Context(), c.task); !strings.Contains(string(res.Outputs), `"`+want+`"`) {
			t.Errorf("want %s: %+v", want, res)
		}
	}
	if res, _ := y.do(a, with{"connection": "hasty", "sql": "SELECT pg_sleep(1000)"}); !strings.Contains(res.Reason, "statement timeout (57014)") {
		t.Errorf("%+v", res)
	}
}
