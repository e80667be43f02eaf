package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

// nested runs a statement, rolls it back, and shows how the statements inside of its functions reach the tables that grow. The
// server reports that by itself to a user that may load auto_explain.
func (c *crowdedBundle) nested(t *testing.T, prepare func(*pgx.ConnConfig) *pgx.ConnConfig, statement string, args ...any) string {
	t.Helper()
	config, err := pgx.ParseConfig(c.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	config = prepare(config)
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		_, text, ok := strings.Cut(n.Message, "plan:\n")
		if !ok {
			return
		}
		var p struct{ Plan pgtest.Plan }
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		shown = append(shown, strings.SplitAfter(scans(&p.Plan), "\n")...)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{
		"LOAD 'auto_explain'", "SET LOCAL auto_explain.log_min_duration = 0", "SET LOCAL auto_explain.log_nested_statements = on",
		"SET LOCAL auto_explain.log_format = json", "SET LOCAL auto_explain.log_level = notice",
	} {
		if _, err := tx.Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	var n int64
	if err := tx.QueryRow(t.Context(), statement, args...).Scan(&n); err != nil || n == 0 {
		t.Errorf("%s did nothing: %d, %v", statement, n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(shown)
	return strings.Join(slices.Compact(shown), "")
}

// functionPlans are the plans of the functions that are called all the time. They must not depend on the number of runs.
func (c *crowdedBundle) functionPlans(t *testing.T) {
	c.exec(t, `UPDATE oarlock.runs SET state = 'waiting', epoch = epoch + 1, wake_at = now() - interval '1 hour'
		WHERE run_id IN (SELECT r.run_id FROM oarlock.runs r WHERE r.state = 'queued' ORDER BY r.run_at LIMIT 5)`)
	c.exec(t, `UPDATE oarlock.runs SET queue_deadline = now() - interval '1 hour'
		WHERE run_id IN (SELECT r.run_id FROM oarlock.runs r WHERE r.state = 'queued' ORDER BY r.run_at LIMIT 5)`)
	s := calm(t, c.register(t))
	c.exec(t, "SELECT oarlock.set_queue('default', max_running => 1000)")
	defer c.exec(t, "SELECT oarlock.set_queue('default', max_running => 0)")
	family := value[int64](t, c.clientBundle, "SELECT r.run_id FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.state = 'queued' AND l.queue = 'default' ORDER BY r.ready_at LIMIT 1")
	ids := "ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 5))"
	asIs := func(config *pgx.ConnConfig) *pgx.ConnConfig { return config }
	shown := new(strings.Builder)
	for _, call := range []struct {
		name, statement string
		prepare         func(*pgx.ConnConfig) *pgx.ConnConfig
		args            []any
	}{
		{"wake_due", sql.Named("queue/wake_due"), queue.Steady, []any{1000}},
		{"expire_queued", sql.Named("queue/expire_queued"), queue.Steady, []any{1000}},
		{"claim_limited", "SELECT count(*) FROM oarlock.claim_limited($1, " + ids + ", '{}', '{}', 'epoch', 2, -100, false, false, '{}', '{}')", queue.Steady, []any{s.ID()}},
		{"claim_family", "SELECT count(*) FROM oarlock.claim_family($1, $2, " + ids + ")", queue.Steady, []any{s.ID(), family}},
		{"enqueue", "SELECT oarlock.enqueue('plain')", asIs, nil},
		{"enqueue with a key", "SELECT oarlock.enqueue('plain', run_key => 'a')", asIs, nil},
		{"enqueue_many with keys", "SELECT count(*) FROM oarlock.enqueue_many('plain', ARRAY['{}', '{}']::jsonb[], ARRAY['a', 'b'])", asIs, nil},
	} {
		fmt.Fprintf(shown, "%s\n%s", call.name, c.nested(t, call.prepare, call.statement, call.args...))
	}
	golden(t, "testdata/function_plans.txt", shown.String())
}
