package traffic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Kind is the behaviour of a step.
type Kind string

// Kinds of steps. The body of a shell step is a call of `body TICKS LINES CODE` from the library that tasks source.
const (
	Quick     Kind = "quick"     // ends at once
	Steady    Kind = "steady"    // takes a few ticks
	Long      Kind = "long"      // takes longer than a lease
	Flaky     Kind = "flaky"     // fails at first, and is retried
	Broken    Kind = "broken"    // fails for good
	Tolerated Kind = "tolerated" // fails, and the run goes on
	Passed    Kind = "passed"    // reports that there was nothing to do
	Replaced  Kind = "replaced"  // fails, and another task takes its place
	Fan       Kind = "fan"       // one task per item
	Flood     Kind = "flood"     // writes a lot
	Daemon    Kind = "daemon"    // leaves processes behind
	Deaf      Kind = "deaf"      // does not listen to SIGTERM
	Once      Kind = "once"      // writes a row, with its result in the same transaction
	Nothing   Kind = "nothing"   // a noop
	Child     Kind = "child"     // another run
)

// Shell reports whether tasks of a kind are processes.
func (k Kind) Shell() bool { return k != Once && k != Nothing && k != Child }

// Step is a step of a DAG, with its expected end.
type Step struct {
	ID      string
	Kind    Kind
	Parents []string
	Always  bool   // trigger_rule: all_done
	Ends    string // its state at the end of a run that is not canceled
	Items   int    // number of items of a Fan
	Pools   []Use  // taken by its bodies
	Publish []Use  // taken by its publish; nil: it has none
}

// DAG is a graph, as a file and with its expected end.
type DAG struct {
	Name   string
	Source string // $DIR stands for the folder of the library
	Steps  []Step
	Ends   string // the state of a run that is not canceled
	Limit  int    // max_active_runs, 0: none
	ByKey  int    // limit of the runs with the same param n, 0: none
}

// Tasks returns how many tasks a run of the DAG has, without the tasks of its child runs.
func (d *DAG) Tasks() (n int) {
	for _, s := range d.Steps {
		n += 1 + s.Items
	}
	return n
}

// odds is how often each kind is chosen.
var odds = []struct {
	kind Kind
	n    int
}{
	{Quick, 20},
	{Steady, 14},
	{Long, 5},
	{Flaky, 8},
	{Broken, 2},
	{Tolerated, 4},
	{Passed, 2},
	{Replaced, 5},
	{Fan, 9},
	{Flood, 3},
	{Daemon, 5},
	{Deaf, 3},
	{Once, 8},
	{Nothing, 4},
	{Child, 3},
}

func pick(r *rand.Rand) Kind {
	total := 0
	for _, o := range odds {
		total += o.n
	}
	n := r.IntN(total)
	for _, o := range odds {
		if n -= o.n; n < 0 {
			return o.kind
		}
	}
	return Quick
}

// child returns the DAG of child runs.
func child(options Options) *DAG {
	d := &DAG{Name: "child", Ends: "succeeded"}
	d.Steps = []Step{{ID: "c0", Kind: Steady, Ends: "succeeded"}, {ID: "c1", Kind: Quick, Parents: []string{"c0"}, Ends: "succeeded"}}
	d.write(rand.New(rand.NewPCG(0, 0)), options)
	return d
}

// rush returns a DAG with a first step that ends at once and a second step that takes long. A worker that is alone with
// such runs claims some ahead, since its slots end fast at first, and these runs then wait.
func rush(options Options) *DAG {
	d := &DAG{Name: "rush", Ends: "succeeded"}
	options.LongTicks += options.LongTicks / 2
	d.Steps = []Step{
		{ID: "r0", Kind: Quick, Ends: "succeeded"},
		{ID: "r1", Kind: Long, Parents: []string{"r0"}, Ends: "succeeded"},
	}
	d.write(rand.New(rand.NewPCG(0, 0)), options)
	return d
}

const (
	minSteps = 4
	maxSteps = 12
)

// newDAG draws a graph: layers, with fans and diamonds between them.
func newDAG(r *rand.Rand, name string, options Options) *DAG {
	d := &DAG{Name: name}
	if name == limitedDAG {
		d.Limit = limitOfRuns
	}
	if name == keyedDAG {
		d.ByKey = limitOfKey
	}
	pooled := slices.Contains(pooledDAGs, name)
	n := minSteps + r.IntN(maxSteps-minSteps+1)
	for i := range n {
		s := Step{ID: fmt.Sprintf("s%d", i), Kind: pick(r)}
		s.Parents = parents(r, d.Steps)
		s.Always = len(s.Parents) > 0 && r.IntN(8) == 0
		if s.Kind == Fan {
			s.Items = 2 + r.IntN(5)
		}
		if pooled {
			s.drawPools(r)
		}
		d.Steps = append(d.Steps, s)
	}
	d.foretell()
	d.write(r, options)
	return d
}

// parents draws up to three of the last six steps: near enough for chains, far enough for diamonds.
func parents(r *rand.Rand, before []Step) (ids []string) {
	near := before[max(0, len(before)-6):]
	for _, i := range r.Perm(len(near))[:min(len(near), r.IntN(4))] {
		ids = append(ids, near[i].ID)
	}
	return ids
}

// foretell computes how each step ends, by the rules of the language.
func (d *DAG) foretell() {
	ends := map[string]string{}
	d.Ends = "succeeded"
	for i := range d.Steps {
		s := &d.Steps[i]
		s.Ends = s.verdict(ends)
		ends[s.ID] = s.asParent()
		if ends[s.ID] == "failed" {
			d.Ends = "failed"
		}
	}
}

// verdict returns how a step ends after parents that ended in these states.
func (s *Step) verdict(parents map[string]string) string {
	failed, skipped := false, false
	for _, p := range s.Parents {
		failed = failed || parents[p] == "failed"
		skipped = skipped || parents[p] == "skipped"
	}
	switch {
	case failed && !s.Always:
		return "upstream_failed"
	case skipped && !s.Always:
		return "skipped"
	}
	switch s.Kind {
	case Broken, Tolerated:
		return "failed"
	case Passed:
		return "skipped"
	case Replaced:
		return "replaced"
	default:
		return "succeeded"
	}
}

// asParent returns the state that counts for the children of a step.
func (s *Step) asParent() string {
	switch s.Ends {
	case "upstream_failed":
		return "failed"
	case "failed":
		if s.Kind == Tolerated {
			return "succeeded"
		}
	case "replaced":
		return "succeeded"
	}
	return s.Ends
}

// replacement draws what takes the place of a failed step: one body, one for each item, or what a program chooses.
func replacement(r *rand.Rand) string {
	with := fmt.Sprintf("run: '. $DIR/lib; body %d 1 0'", r.IntN(4))
	rule := [...]string{
		"do: replace, with: {%s}", "do: replace, with: {foreach: {items: [a, '${error.exit_code}']}, %s}",
		`do: ask, ask: {command: echo, args: ['[{"use": "r", "item": 1}, {"use": "r"}]']}, with: {id: r, %s}`,
	}[r.IntN(3)]
	return fmt.Sprintf("on_error: [{when: error.exit_code == 6, "+rule+"}]", with)
}

// write makes the file. There is no limit on lost drivers, because the faults of the run cause the losses.
func (d *DAG) write(r *rand.Rand, options Options) {
	var text strings.Builder
	fmt.Fprintf(&text, "name: %s\nmax_drives: 1000\nmax_active_runs: %d\nparams: [{name: n, type: integer, default: 0}]\n", d.Name, d.Limit)
	if d.ByKey > 0 {
		fmt.Fprintf(&text, "concurrency: {key: '${params.n}', limit: %d}\n", d.ByKey)
	}
	if r.IntN(3) == 0 {
		text.WriteString("handler_on: {exit: {run: '. $DIR/lib; body 0 1 0'}}\n")
	}
	text.WriteString("steps:\n")
	for i := range d.Steps {
		d.Steps[i].write(&text, r, options)
	}
	d.Source = text.String()
}

func (s *Step) write(text *strings.Builder, r *rand.Rand, options Options) {
	fmt.Fprintf(text, "  - id: %s\n", s.ID)
	if len(s.Parents) > 0 {
		fmt.Fprintf(text, "    depends: [%s]\n", strings.Join(s.Parents, ", "))
	}
	if s.Always {
		text.WriteString("    trigger_rule: all_done\n")
	}
	if len(s.Pools) > 0 {
		fmt.Fprintf(text, "    pool: %s\n", list(s.Pools))
	}
	if len(s.Publish) > 0 {
		fmt.Fprintf(text, "    publish: {pool: %s, run: '. $DIR/lib; publish %d'}\n", list(s.Publish), r.IntN(3))
	}
	for _, line := range s.body(r, options) {
		fmt.Fprintf(text, "    %s\n", line)
	}
}

// call returns a line that calls body of the library.
func call(ticks, lines, code int) string {
	return fmt.Sprintf("run: '. $DIR/lib; body %d %d %d'", ticks, lines, code)
}

func (s *Step) body(r *rand.Rand, options Options) []string {
	lines := 1 + r.IntN(3)
	switch s.Kind {
	case Steady:
		return []string{call(1+r.IntN(4), lines, 0)}
	case Long:
		return []string{call(options.LongTicks+r.IntN(options.LongTicks/4+1), lines, 0)}
	case Flaky:
		return []string{"retry_policy: {limit: 4, interval: 30ms, backoff: 2}", fmt.Sprintf("run: '. $DIR/lib; [ $OARLOCK_ATTEMPT -gt %d ] || body 0 1 3; body 1 1 0'", 1+r.IntN(2))}
	case Broken:
		return []string{call(r.IntN(3), lines, 4)}
	case Tolerated:
		return []string{"continue_on: failed", call(r.IntN(2), lines, 5)}
	case Passed:
		return []string{"skip_exit_code: [99]", call(0, lines, 99)}
	case Replaced:
		return []string{replacement(r), call(r.IntN(2), lines, 6)}
	case Fan:
		return []string{fmt.Sprintf("foreach: {items: [%s], max_concurrent: %d}", strings.Join(strings.Split("012345"[:s.Items], ""), ", "), 1+r.IntN(4)), call(r.IntN(3), 1, 0)}
	case Flood:
		return []string{fmt.Sprintf("run: '. $DIR/lib; flood %d'", 200+r.IntN(1800))}
	case Daemon:
		return []string{"kill: {grace: 200ms, leftovers: keep}", fmt.Sprintf("run: '. $DIR/lib; leave; body %d 1 0'", r.IntN(3))}
	case Deaf:
		return []string{"kill: {grace: 300ms}", fmt.Sprintf(`run: '. $DIR/lib; trap "" TERM; body %d 1 0'`, 2+r.IntN(6))}
	case Once:
		return []string{"retry_policy: {limit: 1000, interval: 100ms, max_interval: 1s, kinds: [sql]}", "action: postgres.query", "with: {sql: 'INSERT INTO chaos.once (run_id, step) VALUES ($1, $2)', params: ['${run.id}', " + s.ID + "]}"} // sql-shown: of a task
	case Nothing:
		return []string{"action: noop"}
	case Child:
		return []string{"action: dag.run", "with: {dag: child}"}
	default:
		return []string{call(0, lines, 0)}
	}
}
