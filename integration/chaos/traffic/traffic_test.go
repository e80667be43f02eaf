package traffic

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

var options = Options{Runs: 20, Over: 10 * time.Second, LongTicks: 40}

func plan(seed uint64) *Plan { return New(rand.New(rand.NewPCG(seed, 0)), options) }

func TestNew_DrawsDAGsThatCanBeApplied(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		for _, d := range plan(seed).DAGs {
			if _, err := dagspec.Parse(d.Name+".yaml", []byte(d.Source)); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, d.Source)
			}
		}
	}
}

func TestNew_IsDrawnFromItsSeedAlone(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(plan(7), plan(7)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(plan(7), plan(8)) {
		t.Error("two seeds draw the same")
	}
}

// Without each of these in a plan, planted faults survive the fault run.
func TestNew_HasEverythingThatMatters(t *testing.T) {
	t.Parallel()
	kinds, ways, verbs, ends := map[Kind]int{}, map[Way]int{}, map[Verb]int{}, map[string]int{}
	diamonds, takes := 0, map[string]int{}
	for seed := range uint64(50) {
		p := plan(seed)
		for _, d := range p.DAGs {
			ends[d.Ends]++
			for _, s := range d.Steps {
				kinds[s.Kind]++
				takes[list(s.Pools)]++
				takes["publish "+list(s.Publish)]++
				if len(s.Parents) > 1 {
					diamonds++
				}
			}
		}
		for _, a := range p.Asks {
			ways[a.Way]++
			for _, d := range a.Demand {
				verbs[d.Verb]++
			}
		}
	}
	if len(kinds) != len(odds) || len(ways) != 4 || len(verbs) != 4 || diamonds == 0 || ends["failed"] == 0 || ends["succeeded"] == 0 || len(takes) != 7 {
		t.Errorf("kinds %v, ways %v, verbs %v, %d diamonds, ends %v, pools %v", kinds, ways, verbs, diamonds, ends, takes)
	}
}

func TestForetell_FollowsTheRules(t *testing.T) {
	t.Parallel()
	d := &DAG{Steps: []Step{
		{ID: "broken", Kind: Broken},
		{ID: "below", Kind: Quick, Parents: []string{"broken"}},
		{ID: "always", Kind: Quick, Parents: []string{"below"}, Always: true},
		{ID: "passed", Kind: Passed},
		{ID: "skipped", Kind: Quick, Parents: []string{"passed", "always"}},
		{ID: "tolerated", Kind: Tolerated},
		{ID: "replaced", Kind: Replaced, Parents: []string{"tolerated"}},
		{ID: "fine", Kind: Fan, Parents: []string{"replaced", "tolerated"}},
		{ID: "both", Kind: Quick, Parents: []string{"passed", "broken"}},
	}}
	d.foretell()
	var got []string
	for _, s := range d.Steps {
		got = append(got, s.Ends)
	}
	want := []string{"failed", "upstream_failed", "succeeded", "skipped", "skipped", "failed", "replaced", "succeeded", "upstream_failed"}
	if diff := cmp.Diff(want, got); diff != "" || d.Ends != "failed" {
		t.Errorf("the run ends %s; %s", d.Ends, diff)
	}
}
