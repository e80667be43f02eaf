package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const tenantsDAG = `{"name": "tenants", "params": [{"name": "tenant", "type": "string", "required": true}, {"name": "n", "type": "integer", "default": 7}],
	"labels": {"app/zone": "z1"}, "concurrency": {"key": "${params.tenant}/${params.n} in ${labels.app/zone}", "limit": 1}, "steps": [{"id": "a", "run": "true"}]}`

// keysOf is the key of each run, without the mark of its definition.
const keysOf = "SELECT coalesce(substr(limit_keys[1], 10), 'none') FROM oarlock.runs ORDER BY run_id"

func TestLimits_AKeyIsMadeOfParamsAndLabels(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, tenantsDAG)
	for _, call := range []string{
		`oarlock.enqueue('tenants', '{"tenant": "acme"}')`,
		`oarlock.enqueue('tenants', '{"tenant": "acme", "n": "08"}', labels => '{"app/zone": "z2"}')`,
		`oarlock.enqueue('tenants', '{"tenant": "$ {params.n}", "n": null}', priority => -5)`,
		`oarlock.enqueue_many('tenants', ARRAY['{"tenant": ""}', '{"tenant": "b", "n": "9"}']::jsonb[])`,
	} {
		must(t, b.conn, "SELECT "+call)
	}
	must(t, b.conn, `INSERT INTO oarlock.inbox (dag, params) VALUES ('tenants', '{"tenant": "row"}')`)
	want := []string{"acme/7 in z1", "acme/8 in z2", "$ {params.n}/7 in z1", "/7 in z1", "b/9 in z1", "row/7 in z1"}
	if got := b.list(t, keysOf); !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
	wantCode(t, b.conn, "OA012", fmt.Sprintf(`SELECT oarlock.enqueue('tenants', '{"tenant": "%s"}')`, strings.Repeat("ä", 100)))
}

func TestLimits_AReasonNamesTheRunWithThePlace(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, tenantsDAG)
	first := get[int64](t, b.conn, `SELECT oarlock.enqueue('tenants', '{"tenant": "acme"}')`)
	b.claim(t, first)
	must(t, b.conn, `SELECT oarlock.enqueue('tenants', '{"tenant": "acme"}')`)
	last := get[int64](t, b.conn, `SELECT oarlock.enqueue('tenants', '{"tenant": "acme"}')`)
	want := fmt.Sprintf("waits for key acme/7 in z1 of dag tenants: run %d has its only place; 2nd in line", first)
	if got := get[string](t, b.conn, "SELECT reason FROM oarlock.run_status($1)", last); got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}

func TestLimits_ASpecThatIsNoLimitIsRefused(t *testing.T) {
	t.Parallel()
	b := api(t)
	for _, def := range []string{
		`3`, `[]`, `{}`, `{"limit": 0}`, `{"limit": 1.5}`, `{"limit": 1000001}`, `{"limit": "x"}`, `{"limit": 1, "key": 3}`, `{"limit": 1, "key": "$"}`,
		`{"limit": 1, "key": "${run.id}"}`, `{"limit": 1, "key": "${params.a b}"}`,
	} {
		spec := fmt.Sprintf(`{"name": "n", "concurrency": %s, "steps": [{"id": "a", "run": "true"}]}`, def)
		wantCode(t, b.conn, "OA013", "SELECT oarlock.put_dag($1::jsonb, 's', 'h', '{}')", spec)
	}
}
