package migrations_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
)

// described selects the public functions and views with their comments, in the order of the page: kind, name, signature, roles,
// comment.
const described = `
	WITH public AS (
	  SELECT CASE p.proname
	           WHEN 'enqueue' THEN 11 WHEN 'enqueue_many' THEN 12 WHEN 'rerun' THEN 13
	           WHEN 'run_status' THEN 21 WHEN 'task_status' THEN 22 WHEN 'run_result' THEN 23 WHEN 'run_list' THEN 24 WHEN 'scale_hint' THEN 25
	           WHEN 'read_log' THEN 26 WHEN 'follow' THEN 27 WHEN 'unfollow' THEN 28 WHEN 'waiting_approvals' THEN 29 WHEN 'cron_times' THEN 29
	           WHEN 'cancel' THEN 31 WHEN 'pause' THEN 32 WHEN 'resume' THEN 33 WHEN 'retry' THEN 34 WHEN 'approve' THEN 35
	           WHEN 'reject' THEN 36 WHEN 'mark' THEN 37 WHEN 'control_status' THEN 38 WHEN 'control_list' THEN 39 ELSE 41 END AS rank,
	         p.proname::text AS name, p.proname || '(' || pg_get_function_arguments(p.oid) || ')' || E'\n  RETURNS ' || pg_get_function_result(p.oid) AS signature,
	         p.proacl AS acl, p.proowner AS owner, obj_description(p.oid, 'pg_proc') AS text
	    FROM pg_proc p WHERE p.pronamespace = 'oarlock'::regnamespace
	  UNION ALL
	  SELECT CASE c.relname WHEN 'inbox' THEN 10 ELSE 50 END, c.relname::text,
	         c.relname || ' (' || (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, NULL), ', ' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) || ')',
	         c.relacl, c.relowner, obj_description(c.oid, 'pg_class')
	    FROM pg_class c WHERE c.relnamespace = 'oarlock'::regnamespace AND c.relkind = 'v'
	)
	SELECT rank, name, replace(regexp_replace(replace(signature, '"trigger"', 'trigger'), '::[a-z ]+(\[\])?', '', 'g'), 'timestamp with time zone', 'timestamptz'), who.roles, coalesce(text, '')
	  FROM public, LATERAL (SELECT string_agg(DISTINCT a.grantee::regrole::text, ', ') AS roles FROM aclexplode(acl) a
	                         WHERE a.grantee <> owner) who
	 WHERE who.roles IS NOT NULL AND coalesce(text, '') NOT LIKE 'Internal:%' AND name <> 'make_log_days'
	 ORDER BY rank, name`

type entry struct {
	Rank                         int
	Name, Signature, Roles, Text string
}

func (b bundle) described(t *testing.T) []entry {
	t.Helper()
	rows, err := b.conn.Query(t.Context(), described)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

var headings = map[int]string{1: "Enqueue", 2: "Read", 3: "Control", 4: "Administer", 5: "Errors"}

// TestDocs_SQLAPIIsWhatTheCommentsSay keeps docs/sql-api.md: its first part is written by hand, the rest comes from the
// database.
func TestDocs_SQLAPIIsWhatTheCommentsSay(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	head, err := os.ReadFile("testdata/sql-api.head.md")
	if err != nil {
		t.Fatal(err)
	}
	page := new(strings.Builder)
	page.Write(head)
	section := 0
	for _, e := range b.described(t) {
		if e.Rank/10 != section {
			section = e.Rank / 10
			fmt.Fprintf(page, "\n## %s\n", headings[section])
		}
		if strings.Count(e.Text, "```sql") == 0 {
			t.Errorf("%s has no example in its comment", e.Name)
		}
		fmt.Fprintf(page, "\n### %s\n\n```text\n%s\n```\n\nFor: %s.\n\n%s\n", e.Name, e.Signature, e.Roles, e.Text)
	}
	page.WriteString("\n| code | means | cause | cure |\n|---|---|---|---|\n")
	page.WriteString(strings.Join(b.list(t, "SELECT format('| %s | %s | %s | %s |', code, means, cause, cure) FROM oarlock.error_codes ORDER BY code"), "\n") + "\n")
	golden.Equal(t, "../docs/sql-api.md", page.String())
}

var example = regexp.MustCompile("(?s)```sql\n(.*?)```")

// The examples of a guide run in sequence, as a reader types them. The examples of the SQL API run each by itself.
func TestDocs_EveryExampleRuns(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	must(t, b.conn, "ALTER TABLE oarlock.runs ALTER COLUMN run_id RESTART WITH 40")
	b.finish(t, enqueue(t, b.conn), 0)
	enqueue(t, b.conn)
	must(t, b.conn, "SELECT oarlock.set_pool('crm', per_key => true, slots => 2)")
	must(t, b.conn, "INSERT INTO oarlock.controls (control_id, run_id, verb, by) OVERRIDING SYSTEM VALUE VALUES (7, 41, 'pause', 'x')")
	must(t, b.conn, "ALTER TABLE oarlock.controls ALTER COLUMN control_id RESTART WITH 8")
	ran := 0
	run := func(text, before, after string) {
		for _, found := range example.FindAllStringSubmatch(text, -1) {
			must(t, b.conn, before)
			if _, err := b.conn.Exec(t.Context(), found[1]); err != nil {
				t.Errorf("%s: %v", found[1], err)
			}
			must(t, b.conn, after)
			ran++
		}
	}
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	run(read("../docs/schedules.md"), "", "")
	if got := b.list(t, "SELECT name FROM oarlock.schedule_list('report') WHERE backfill_of IS NULL ORDER BY name"); !slices.Equal(got, []string{"acme nightly", "globex hourly"}) {
		t.Errorf("the guide leaves schedules %q", got)
	}
	run(read("testdata/sql-api.head.md"), "BEGIN", "ROLLBACK")
	for _, e := range b.described(t) {
		run(e.Text, "BEGIN", "ROLLBACK")
	}
	if ran < 20 {
		t.Errorf("only %d examples were found", ran)
	}
}

func TestDocs_EveryErrorCodeIsRaisedAndExplained(t *testing.T) {
	t.Parallel()
	b := api(t)
	files, err := filepath.Glob("versions/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var raised []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`ERRCODE = '(OA\d+)'`).FindAllStringSubmatch(string(text), -1) {
			raised = append(raised, m[1])
		}
	}
	slices.Sort(raised)
	if explained := b.list(t, "SELECT code FROM oarlock.error_codes ORDER BY code"); !equal(slices.Compact(raised), explained) {
		t.Errorf("raised %v, explained %v", slices.Compact(raised), explained)
	}
}
