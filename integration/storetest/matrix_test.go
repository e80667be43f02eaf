package storetest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// Places of the steps in both DAGs. In the second DAG a step behind the approval may start without it, so that steps
// before and beside the approval could lead there.
const (
	guardedDAG = `name: %s
steps:
  - {id: up, run: "true", depends: []}
  - {id: gate, action: approval, depends: [up], with: {approvers: [%s]}}
  - {id: next, run: "true", depends: [gate], retry_policy: {limit: 3, interval: 1h}}
  - {id: last, run: "true", depends: [next]}
  - {id: beside, action: wait, with: {duration: 1000h}}
  - {id: join, run: "true", depends: [gate, beside]}
  - {id: apart, action: wait, with: {duration: 1000h}}
`
	passable = `  - {id: either, run: "true", depends: [gate, beside], trigger_rule: one_success}
`
)

// moment is how far a run has come.
type moment string

const (
	notReached moment = "not reached" // the step before the approval has not run
	waits      moment = "waiting"
	rejected   moment = "rejected"
	lost       moment = "ended, rejected"
	given      moment = "given" // and the step behind it is under way
	ended      moment = "ended, given"
)

// prepare brings n runs of the owner to a moment.
func (o *office) prepare(dag string, m moment, n int) (runs []queue.RunID) {
	o.Helper()
	each := func(who, call string) {
		for _, run := range runs {
			o.must(who, call, run)
		}
	}
	for range n {
		runs = append(runs, o.enqueue("owner", dag))
	}
	if m == notReached {
		each("admin", "pause($1)")
	}
	o.drive()
	switch m {
	case rejected, lost:
		each("boss", "reject($1, 'gate')")
	case given, ended:
		each("boss", "approve($1, 'gate')")
	}
	if m == given {
		o.failing = "next"
	}
	o.drive()
	o.failing = ""
	if m == lost || m == ended {
		each("admin", "mark($1, 'beside', 'failed')")
		each("admin", "mark($1, 'apart', 'failed')")
		o.drive()
	}
	clear(o.ran)
	return runs
}

var positions = []string{"up", "gate", "next", "last", "beside", "join", "apart"}

// requests are all requests to a run. A request with $2 is made for each step.
var requests = []string{
	"mark($1, $2, 'succeeded')", "mark($1, $2, 'failed')", "mark($1, $2, 'skipped', outputs => '{\"v\": \"1\"}')",
	"retry($1, 'step', $2)", "retry($1, 'from', $2)", "retry($1, 'failed')", "retry($1, 'all')",
	"cancel($1, $2)", "cancel($1)", "pause($1, $2)", "resume($1, $2)", "pause($1)", "resume($1)", "approve($1, $2)", "reject($1, $2)",
}

// expected holds the rule, in one place:
//
//   - A reader may ask for nothing. For runs of other submitters, a user may only decide an approval that names this user.
//   - Only the users that an approval names approve and reject it. These users and operators mark it.
//   - Until the approval is given, no other user marks a step behind it or retries one alone.
//   - If a step behind it may start without the approval, the same holds for all steps that lead there, and for the approval.
func expected(who, request, step string, dag string, m moment) string {
	verb, _, _ := strings.Cut(request, "(")
	decides := step == "gate" && slices.Contains([]string{"approve", "reject", "mark"}, verb)
	operates := who == "admin" || who == "worker"
	switch {
	case who == "reader":
		return "42501"
	case decides && who == "boss":
		return ""
	case who == "another" || who == "boss":
		return "OA007"
	case decides && !(operates && verb == "mark"):
		return "OA008"
	case operates || m == given || m == ended:
		return ""
	}
	kept := map[string][]string{"tight": {"next", "last", "join"}, "passable": {"up", "gate", "next", "last", "beside", "join"}}[dag]
	alone := strings.Contains(request, "'step'") || strings.Contains(request, "'from'")
	if (verb == "mark" || alone) && slices.Contains(kept, step) {
		return "OA008"
	}
	return ""
}

// cellsTried is the n of "one cell in n is tried", unless all are.
const cellsTried = 5

func TestRoles_NobodyButItsApproversLeadsPastAnApproval(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.put(fmt.Sprintf(guardedDAG, "tight", o.role("boss")))
	o.put(fmt.Sprintf(guardedDAG+passable, "passable", o.role("boss")))
	cells, moments := 0, 0
	for _, dag := range []string{"tight", "passable"} {
		for _, m := range []moment{notReached, waits, rejected, lost, given, ended} {
			moments++
			run := o.prepare(dag, m, 1)[0]
			all, steps := o.calls(run)
			for n, who := range slices.Sorted(maps.Keys(logins)) {
				var calls, about []string
				for i, call := range all {
					if *nightly || (i+n+moments)%cellsTried == 0 { // no divisor of the 12 moments: a login makes each call at several of them
						calls, about = append(calls, call), append(about, steps[i])
					}
				}
				for i, got := range o.tries(who, calls) {
					cells++
					if want := expected(who, calls[i], about[i], dag, m); got != want {
						t.Errorf("%s, %s: %s asks for %s: %q, not %q", dag, m, who, calls[i], got, want)
					}
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

// calls returns all requests to a run, and the step of each.
func (o *office) calls(run queue.RunID) (calls, steps []string) {
	for _, request := range requests {
		request = strings.ReplaceAll(request, "$1", fmt.Sprint(run))
		if !strings.Contains(request, "$2") {
			calls, steps = append(calls, request), append(steps, "")
			continue
		}
		for _, step := range positions {
			calls, steps = append(calls, strings.ReplaceAll(request, "$2", "'"+step+"'")), append(steps, step)
		}
	}
	return calls, steps
}

const tries = `CREATE FUNCTION pg_temp.tries(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT oarlock.' || call;
    RAISE 'taken back' USING ERRCODE = 'ZZ000';
EXCEPTION WHEN OTHERS THEN
    RETURN replace(SQLSTATE, 'ZZ000', '');
END $$`

// tries makes each request and rolls it back. It returns the codes of the errors.
func (o *office) tries(who string, calls []string) []string {
	o.Helper()
	conn := o.logins[who]
	if _, err := conn.Exec(o.Context(), "DROP FUNCTION IF EXISTS pg_temp.tries(text)"); err != nil {
		o.Fatal(err)
	}
	if _, err := conn.Exec(o.Context(), tries); err != nil {
		o.Fatal(err)
	}
	rows, _ := conn.Query(o.Context(), "SELECT pg_temp.tries(c) FROM unnest($1::text[]) WITH ORDINALITY u (c, n) ORDER BY n", calls)
	codes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		o.Fatal(err)
	}
	return codes
}

// The owner makes each request and then asks for a retry of the run. No task behind the approval may run. A refused
// request changes nothing, so a run gets requests up to the first that is granted. Outside nightly runs each request is
// made at one of two moments.
func TestSubmitter_RunsNothingBehindAnApprovalThatIsNotGiven(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.put(fmt.Sprintf(guardedDAG, "tight", o.role("boss")))
	o.put(fmt.Sprintf(guardedDAG+passable, "passable", o.role("boss")))
	all, about := o.calls(0)
	var runs []queue.RunID
	asked := map[queue.RunID][]string{}
	ran := map[queue.RunID][]string{}
	for _, dag := range []string{"tight", "passable"} {
		for n, m := range []moment{waits, lost} {
			var tried []int
			grants, granted := 0, 0
			for i, call := range all {
				if *nightly || i%2 == n {
					tried = append(tried, i)
					if expected("owner", call, about[i], dag, m) == "" {
						grants++
					}
				}
			}
			prepared := o.prepare(dag, m, 1+grants)
			for _, i := range tried {
				run := prepared[min(granted, grants)]
				calls, _ := o.calls(run)
				asked[run] = append(asked[run], fmt.Sprintf("%s, %s: %s", dag, m, calls[i]))
				if o.says("owner", calls[i]) == "" {
					granted++
				}
			}
			if granted != grants {
				t.Errorf("%s, %s: %d requests were granted, not %d", dag, m, granted, grants)
			}
			o.drive()
			maps.Copy(ran, o.ran)
			runs = append(runs, prepared...)
		}
	}
	o.ran = ran
	o.drive()
	for _, again := range []string{"retry($1, 'failed')", "mark($1, 'next', 'succeeded')"} {
		for _, run := range runs {
			_ = o.says("owner", again, run)
		}
		o.drive()
	}
	for _, run := range runs {
		for _, step := range []string{"next", "last", "join", "either"} {
			if slices.Contains(o.ran[run], step) {
				t.Errorf("%q: there ran %v", asked[run], o.ran[run])
			}
		}
	}
	t.Logf("%d runs", len(runs))
}
