package dagspec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oarlock.put_dag reads these keys, in whatever form the file has the schedule.
func TestSchedule_IsStoredAsAMap(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		`"0  3 * * *"`:                      `{"name": "0 3 * * *", "cron": "0  3 * * *", "timezone": "UTC", "enabled": true, "overlap_policy": "skip", "at_once": 1}`,
		`{every: 90m, pause_on_failure: 0}`: `{"name": "every 1h30m", "every": "1h30m", "timezone": "UTC", "enabled": true, "overlap_policy": "skip", "at_once": 1}`,
		`[{every: 60s, name: m}]`:           `{"name": "m", "every": "1m", "timezone": "UTC", "enabled": true, "overlap_policy": "skip", "at_once": 1}`,
		`{at: 2026-12-24T18:00:00.25+01:00, enabled: false}`: `{"name": "at 2026-12-24T17:00:00.25Z", "at": "2026-12-24T17:00:00.25Z", "timezone": "UTC", "enabled": false,
			"overlap_policy": "skip", "at_once": 1}`,
		`{every: 1d, catchup: true}`: `{"name": "every 1d", "every": "1d", "timezone": "UTC", "enabled": true, "overlap_policy": "all", "at_once": 1,
			"catchup": true, "catchup_max": 100}`,
		`{name: n, cron: "30 3 * * 1-5", timezone: Europe/Paris, start: "2026-11-01T00:00:00+01:00", end: "2027-11-01T00:00:00Z",
			except: [2026-12-25, "* * 24 12 *"], jitter: 30s, params: {n: 1}, labels: {tier: 2}, overlap_policy: cancel, at_once: 2, pause_on_failure: 3,
			catchup: true, catchup_window: 2d, catchup_max: 50}`: `{"name": "n", "cron": "30 3 * * 1-5", "timezone": "Europe/Paris",
			"start": "2026-10-31T23:00:00Z", "end": "2027-11-01T00:00:00Z", "except": ["2026-12-25", "* * 24 12 *"], "jitter": "30s", "params": {"n": 1},
			"labels": {"tier": "2"}, "enabled": true, "overlap_policy": "cancel", "at_once": 2, "pause_on_failure": 3,
			"catchup": true, "catchup_window": "2d", "catchup_max": 50}`,
	} {
		spec := mustParse(t, "name: x\nparams: [{name: n, type: integer}]\nsteps: [{id: a, run: echo}]\nschedule: "+strings.ReplaceAll(form, "\n\t\t\t", " ")+"\n")
		var got, wanted any
		if err := json.Unmarshal(mustMarshal(t, spec.Schedule[0]), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" || len(spec.Schedule) != 1 {
			t.Errorf("%s: %s", form, diff)
		}
	}
}

// A schedule alone creates no need: every worker can serve it.
func TestSchedule_IsNoNeed(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, "name: x\nschedule: '0 3 * * *'\nsteps: [{id: a, action: noop}]\n")
	if diff := cmp.Diff([]string{"action:noop"}, spec.Needs()); diff != "" {
		t.Error(diff)
	}
}
