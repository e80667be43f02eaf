package runview_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestRunDifferences_SayWhatIsNotTheSame(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	was := queue.Run{
		State: "succeeded", Version: 6, Queue: "etl", SubmittedBy: "ana", Trigger: "sql", Generation: 1, Labels: map[string]string{"team": "data"},
		CreatedAt: at, StartedAt: at.Add(2 * time.Second), FinishedAt: at.Add(62 * time.Second),
	}
	is := was
	is.State, is.Reason, is.Version, is.Priority, is.StartedAt, is.FinishedAt = "failed", "step load\nfailed", 7, 5, at.Add(time.Second), at.Add(42*time.Second)
	differ, same := runview.RunDifferences(&was, &is, "w-1", "", at)
	want := []runview.Difference{
		{Name: "state", Was: "succeeded", Is: "failed"},
		{Name: "reason", Is: "step load failed"},
		{Name: "version", Was: "6", Is: "7"},
		{Name: "queue", Was: "etl", Is: "etl, priority 5"},
		{Name: "worker", Was: "w-1"},
		{Name: "waited", Was: "2.0s", Is: "1.0s", Change: "−1.0s"},
		{Name: "took", Was: "1m00s", Is: "41s", Change: "−19s"},
	}
	if diff := cmp.Diff(want, differ) + cmp.Diff([]string{"labels", "asked by"}, same); diff != "" {
		t.Error(diff)
	}
	is.StartedAt, is.FinishedAt = time.Time{}, time.Time{}
	if differ, _ := runview.RunDifferences(&was, &is, "", "", at); differ[len(differ)-1] != (runview.Difference{Name: "took", Was: "1m00s"}) {
		t.Errorf("of a run that has not begun: %+v", differ)
	}
	was.StartedAt, was.FinishedAt = time.Time{}, time.Time{}
	if differ, _ := runview.RunDifferences(&was, &is, "", "", at); differ[len(differ)-1].Name != "queue" {
		t.Errorf("none has begun: %+v", differ)
	}
}

func TestValueDifferences_NamePlaces(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 300)
	for name, c := range map[string]struct {
		was, is string
		want    []runview.Difference
	}{
		"the same, in another order":  {`{"a": 1, "b": [1, {"c": null}]}`, `{"b": [1, {"c": null}], "a": 1}`, nil},
		"numbers have all digits":     {`{"n": 12345678901234567890}`, `{"n": 12345678901234567891}`, []runview.Difference{{Name: "out.n", Was: "12345678901234567890", Is: "12345678901234567891"}}},
		"null is a value":             {`{"a": null}`, `{}`, []runview.Difference{{Name: "out.a", Was: "null"}}},
		"no value at all":             {``, `{"a": {"b": "<b>"}}`, []runview.Difference{{Name: "out", Is: `{"a":{"b":"<b>"}}`}}},
		"lists by place":              {`{"l": [1, 2]}`, `{"l": [1, 3, "x"]}`, []runview.Difference{{Name: "out.l[1]", Was: "2", Is: "3"}, {Name: "out.l[2]", Is: `"x"`}}},
		"a list is no object":         {`[]`, `{}`, []runview.Difference{{Name: "out", Was: "[]", Is: "{}"}}},
		"a long text by what differs": {`"` + long + `b"`, `"` + long + `c"`, []runview.Difference{{Name: "out", Was: "…" + strings.Repeat("a", 40) + `b"`, Is: "…" + strings.Repeat("a", 40) + `c"`}}},
		"a long text beside a short":  {`"` + long + `"`, `"b"`, []runview.Difference{{Name: "out", Was: `"` + strings.Repeat("a", 199) + "…", Is: `"b"`}}},
	} {
		got, more, err := runview.ValueDifferences(nil, "out", json.RawMessage(c.was), json.RawMessage(c.is), 10)
		if diff := cmp.Diff(c.want, got); diff != "" || more != 0 || err != nil {
			t.Errorf("%s: %s, %d more, %v", name, diff, more, err)
		}
	}
	if got, more, err := runview.ValueDifferences(nil, "", json.RawMessage(`{"a": 1, "b": 1, "c": 1}`), json.RawMessage(`{"b": 2}`), 2); err != nil || more != 1 || len(got) != 2 || got[0].Name != "a" {
		t.Errorf("%+v and %d more, %v", got, more, err)
	}
	if _, _, err := runview.ValueDifferences(nil, "a", json.RawMessage(`{`), nil, 2); err == nil {
		t.Error("half a value is read")
	}
}
