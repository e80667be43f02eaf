package graphview_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/graphview"
)

type text string

func (c text) Eval(dagrun.Scope) (bool, error)            { return true, nil }
func (c text) String() string                             { return string(c) }
func (c text) Text(dagrun.Scope) (string, error)          { return string(c), nil }
func (c text) Expand(dagrun.Scope) ([]dagrun.Item, error) { return nil, nil }

func compile(t *testing.T, spec dagrun.Spec) *dagrun.Graph {
	t.Helper()
	g, err := dagrun.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestFromGraph_ShowsKindsEdgesAndWhatSetsAStepApart(t *testing.T) {
	t.Parallel()
	v := graphview.FromGraph(compile(t, dagrun.Spec{
		Steps: []dagrun.Step{
			{Name: "list", Retry: dagrun.RetryPolicy{Limit: 3}},
			{
				Name: "scan", Foreach: &dagrun.Foreach{Items: text("x")}, Depends: []dagrun.Edge{{Step: "list"}},
				OnError: []dagrun.ErrorRule{{Do: dagrun.DoReplace, With: []dagrun.Step{{}}}},
			},
			{Name: "gate", Body: dagrun.BodyApproval, Depends: []dagrun.Edge{{Step: "list", State: dagrun.OnStarted}}},
			{
				Name: "heavy", Slots: 2, Pools: []dagrun.PoolUse{{Pool: "gpu", Weight: 1}, {Pool: "total", Weight: 1}}, CacheKey: text("k"), Publish: true,
				When: text("params.size > 100 && params.kind == 'x'"), Rule: dagrun.AllDone,
				Depends: []dagrun.Edge{{Step: "scan"}, {Step: "gate", State: dagrun.OnFinished}},
			},
		},
		Handlers: []dagrun.Step{{Name: dagrun.ExitHandler}},
	}))
	want := graphview.View{
		Nodes: []graphview.Node{
			{ID: "list", Kind: graphview.Step, Badges: []string{"retry 3"}},
			{ID: "scan", Kind: graphview.Foreach, Badges: []string{"foreach", "fallback"}},
			{ID: "gate", Kind: graphview.Step, Badges: []string{"approval"}},
			{
				ID: "heavy", Kind: graphview.Step,
				Badges: []string{"all_done", "when params.size > 100 && params.kind…", "2 slots", "pools gpu, total", "cache", "publish"},
			},
			{ID: "@exit", Kind: graphview.Handler},
		},
		Edges: []graphview.Edge{
			{From: 0, To: 1}, {From: 0, To: 2, State: dagrun.OnStarted}, {From: 1, To: 3}, {From: 2, To: 3, State: dagrun.OnFinished},
		},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
}

func TestFromSpec_ShowsNamesAndActionsOfTheFile(t *testing.T) {
	t.Parallel()
	spec, err := dagspec.Parse("test.yaml", []byte("name: mail\nsteps:\n"+
		"  - {id: ask, name: Ask the service, action: http.request, with: {url: 'https://example.org'}}\n"+
		"  - {id: rest, depends: [ask], action: wait, with: {duration: 1m}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	want := graphview.View{
		Name: "mail",
		Nodes: []graphview.Node{
			{ID: "ask", Label: "Ask the service", Kind: graphview.Step, Badges: []string{"http.request"}},
			{ID: "rest", Kind: graphview.Step, Badges: []string{"wait"}},
		},
		Edges: []graphview.Edge{{From: 0, To: 1}},
	}
	if diff := cmp.Diff(want, graphview.FromSpec(spec, g)); diff != "" {
		t.Error(diff)
	}
}

func TestWith_ReplacementsTakeOverChildrenAndItemsAreCounted(t *testing.T) {
	t.Parallel()
	v := parse("", "list -> scan*\nscan -> query\nquery -> merge").With([]graphview.Task{
		{Step: "list", State: "succeeded"},
		{Step: "scan", State: "running", Items: 4},
		{Step: "scan", Item: "a", State: "succeeded"},
		{Step: "scan", Item: "b", State: "replaced"},
		{Step: "scan", Item: "b", Alt: 1, State: "succeeded"},
		{Step: "scan", Item: "c", State: "running"},
		{Step: "query", State: "replaced"},
		{Step: "query", Alt: 1, State: "failed"},
		{Step: "query", Alt: 2, State: "running"},
		{Step: "unknown", State: "running"},
	})
	want := graphview.View{
		Nodes: []graphview.Node{
			{ID: "list", Kind: graphview.Step, State: "succeeded"},
			{ID: "scan", Kind: graphview.Foreach, State: "running", Badges: []string{"2/4"}},
			{ID: "query", Kind: graphview.Step, State: "replaced"},
			{ID: "merge", Kind: graphview.Step, State: "pending"},
			{ID: "query~1", Kind: graphview.Replacement, State: "failed"},
			{ID: "query~2", Kind: graphview.Replacement, State: "running"},
		},
		Edges: []graphview.Edge{
			{From: 2, To: 4, Replaces: true},
			{From: 2, To: 5, Replaces: true},
			{From: 0, To: 1},
			{From: 1, To: 2},
			{From: 4, To: 3},
			{From: 5, To: 3},
		},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
}
