package check

import (
	"strings"
	"testing"
	"time"
)

// rules returns the rules that were broken, in order.
func rules(broken []Violation) string {
	var all []string
	for _, v := range broken {
		all = append(all, v.Rule)
	}
	return strings.Join(all, " ")
}

func run(tx int64, is string, epoch int, claim string) Change {
	return Change{Tx: tx, Run: 1, Is: is, Generation: 1, Epoch: epoch, RunEpoch: epoch, Claim: claim}
}

func task(tx int64, name, was, is string, attempt, epoch int) Change {
	before := attempt
	if was == "" || was == "retrying" {
		before--
	}
	return Change{Tx: tx, Run: 1, Task: name, Shell: true, Was: was, Is: is, WasAttempt: before, Attempt: attempt, Generation: 1, Epoch: epoch, RunEpoch: epoch, Claim: "x"}
}

var edges = map[int64]map[string][]string{1: {"b": {"a"}}}

// fine returns the trail of a run of two steps that lost its driver once.
func fine() []Change {
	again := task(6, "a", "running", "running", 2, 2)
	again.WasAttempt = 1
	end := task(8, "b", "running", "succeeded", 1, 2)
	end.Claim = ""
	return []Change{
		run(1, "queued", 0, ""), run(2, "running", 1, "x"), task(3, "a", "", "running", 1, 1), run(4, "queued", 1, ""), run(5, "running", 2, "y"),
		again, task(7, "a", "running", "succeeded", 2, 2), task(7, "b", "", "running", 1, 2), run(8, "succeeded", 2, ""), end,
	}
}

func TestTrail_FindsWhatMustNotHappen(t *testing.T) {
	t.Parallel()
	stale := task(8, "b", "running", "failed", 1, 1)
	stale.RunEpoch = 2
	gap := task(9, "b", "running", "running", 3, 2)
	gap.WasAttempt = 1
	alone := task(9, "b", "running", "failed", 1, 2)
	alone.Claim = ""
	for name, test := range map[string]struct {
		add  []Change
		want string
	}{
		"nothing":                      {nil, ""},
		"a task changes after the end": {[]Change{task(9, "c", "", "running", 1, 2)}, "S2"},
		"a run changes after its end":  {[]Change{run(9, "running", 3, "z")}, "S2"},
		"a claim twice":                {[]Change{{Tx: 9, Run: 2, Is: "running", Generation: 1, Epoch: 1, Claim: "y"}}, "S3"},
		"another run":                  {[]Change{{Tx: 9, Run: 2, Is: "running", Generation: 1, Epoch: 1, Claim: "z"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := rules(Trail(append(fine(), test.add...), edges)); got != test.want {
				t.Errorf("broken: %q, want %q", got, test.want)
			}
		})
	}
	open := fine()[:8]
	for name, test := range map[string]struct {
		add  Change
		want string
	}{
		"epoch falls":               {run(9, "running", 1, "w"), "S3"},
		"succeeds twice":            {task(9, "a", "running", "succeeded", 2, 2), "S1"},
		"starts again":              {task(9, "a", "succeeded", "running", 2, 2), "S1"},
		"written again":             {task(9, "a", "succeeded", "succeeded", 2, 2), "S1"},
		"ends before its parent":    {Change{Tx: 9, Run: 2, Task: "b", Is: "succeeded", Generation: 1, Claim: "v"}, "S5"},
		"skipped before its parent": {Change{Tx: 9, Run: 2, Task: "b", Is: "skipped", Generation: 1, Claim: "v"}, "S5"},
		"canceled before it starts": {Change{Tx: 9, Run: 2, Task: "b", Is: "canceled", Generation: 1, Claim: "v"}, ""},
		"written by an old driver":  {stale, "S7"},
		"written without a claim":   {alone, "S7"},
		"an attempt is left out":    {gap, "S8"},
		"started before its parent": {Change{Tx: 9, Run: 2, Task: "b", Is: "running", Attempt: 1, Generation: 1, Claim: "v"}, "S5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both := map[int64]map[string][]string{1: edges[1], 2: edges[1]}
			if got := rules(Trail(append(open[:8:8], test.add), both)); got != test.want {
				t.Errorf("broken: %q, want %q", got, test.want)
			}
		})
	}
}

// A cancel of a run that no worker holds ends its tasks, then the run. No other request to such a run changes a task.
func TestTrail_LetsNobodyButTheEndOfARunChangeTasksWithoutAClaim(t *testing.T) {
	t.Parallel()
	end := task(5, "a", "running", "canceled", 1, 1)
	end.Claim = ""
	asked := run(5, "queued", 1, "")
	asked.Was, asked.Asked = "queued", true
	for name, test := range map[string]struct {
		changes []Change
		want    string
	}{
		"canceled": {[]Change{end, run(5, "canceled", 1, "")}, ""},
		"later":    {[]Change{end, run(6, "canceled", 1, "")}, "S7"},
		"asked":    {[]Change{asked, end}, "S7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := []Change{run(1, "queued", 0, ""), run(2, "running", 1, "x"), task(3, "a", "", "running", 1, 1), run(4, "queued", 1, "")}
			if got := rules(Trail(append(before, test.changes...), edges)); got != test.want {
				t.Errorf("broken: %q, want %q", got, test.want)
			}
		})
	}
}

func TestLimits_FindsTooManyAtOnce(t *testing.T) {
	t.Parallel()
	of := func(tx, run int64, claim string) Change { return Change{Tx: tx, Run: run, Is: "running", Claim: claim} }
	for name, test := range map[string]struct {
		changes []Change
		want    string
	}{
		"as many as may be":         {[]Change{of(1, 1, "a"), of(2, 2, "b"), of(3, 4, "c")}, ""},
		"one more":                  {[]Change{of(1, 1, "a"), of(2, 2, "b"), of(3, 3, "c"), of(4, 3, "")}, "C1"},
		"after one was given back":  {[]Change{of(1, 1, "a"), of(2, 2, "b"), of(3, 1, ""), of(4, 3, "c")}, ""},
		"in its place, at once":     {[]Change{of(1, 1, "a"), of(2, 2, "b"), of(3, 3, "c"), of(3, 1, "")}, ""},
		"taken over":                {[]Change{of(1, 1, "a"), of(2, 2, "b"), of(3, 1, "d")}, ""},
		"what its tasks do is none": {[]Change{of(1, 1, "a"), of(2, 2, "b"), {Tx: 3, Run: 3, Task: "s", Claim: "c"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[int64][]string{1: {"q", "d"}, 2: {"q", "d"}, 3: {"q", "d"}, 4: {"other"}}
			if got := rules(Limits(test.changes, kinds, map[string]int{"q": 2})); got != test.want {
				t.Errorf("broken: %q, want %q", got, test.want)
			}
		})
	}
}

const witness = `start 1 a - 1 1 w1 1.0
tick 1 a - 1 1 w1 1.0
start 1 a - 2 2 w2 2.0
end 1 a - 2 2 w2 2.0
start 1 b - 1 2 w2 2.0
end 1 b - 1 2 w2 2.0
`

func sights(t *testing.T, text string) []Sight {
	t.Helper()
	all, err := ReadWitness(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWitness_FindsWhatMustNotHappen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"nothing":                       {witness + "tick 1 half wri", ""},
		"an old epoch lives on":         {strings.Replace(witness, "end 1 a", "tick 1 x - 1 1 w1 2.0\nend 1 a", 1), "W1"},
		"an attempt twice":              {witness + "start 1 b - 1 2 w2 3.0\n", "W2 W3 W2"},
		"without a record":              {witness + "start 1 c - 1 2 w2 3.0\n", "W2"},
		"again after success":           {witness + "start 1 a - 3 2 w2 3.0\n", "W2 W2 W3"},
		"lives after success":           {witness + "tick 1 a - 2 2 w2 3.0\n", "W3"},
		"never ran":                     {strings.Replace(witness, "start 1 b - 1 2 w2 2.0\nend 1 b - 1 2 w2 2.0\n", "", 1), "W2"},
		"a frozen host lives on":        {strings.Replace(witness, "end 1 a", "tick 1 a - 1 1 host 2.0\nend 1 a", 1), ""},
		"a frozen host starts it again": {witness + "start 1 b - 1 2 host 3.0\n", "W2 W2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trail := fine()
			if name == "again after success" { // other records show the generation
				c := task(8, "a", "", "ready", 3, 2)
				trail = append(trail, c)
			}
			if got := rules(Witness(sights(t, test.text), trail, Excused{"host": true})); got != test.want {
				t.Errorf("broken: %q, want %q", got, test.want)
			}
		})
	}
}

func TestLogs_FindsWhatMustNotHappen(t *testing.T) {
	t.Parallel()
	chunk := func(seq int, data string, final bool) LogChunk {
		return LogChunk{Seq: seq, Data: []byte(data), Final: final}
	}
	for name, test := range map[string]struct {
		log  Log
		want string
	}{
		"nothing":              {Log{Chunks: []LogChunk{chunk(0, "ab", false), chunk(1, "c", true)}, Wrote: []byte("abc"), Known: true, Complete: true, Over: true}, ""},
		"a gap":                {Log{Chunks: []LogChunk{chunk(0, "ab", false), chunk(2, "c", true)}}, "G1"},
		"after the marker":     {Log{Chunks: []LogChunk{chunk(0, "ab", true), chunk(1, "c", false)}}, "G2"},
		"no marker":            {Log{Chunks: []LogChunk{chunk(0, "ab", false)}, Over: true}, "G2"},
		"silent":               {Log{Known: true, Complete: true, Over: true}, ""},
		"silent, and lost":     {Log{Over: true, Lost: true}, "G2"},
		"all of it is missing": {Log{Wrote: []byte("abc"), Known: true, Complete: true, Over: true}, "G3"},
		"bytes are missing":    {Log{Chunks: []LogChunk{chunk(0, "ab", true)}, Wrote: []byte("abc"), Known: true, Complete: true}, "G3"},
		"counted ones are not": {Log{Chunks: []LogChunk{{Data: []byte("ab"), Dropped: 1, Final: true}}, Wrote: []byte("abc"), Known: true, Complete: true}, ""},
		"counted wrongly":      {Log{Chunks: []LogChunk{{Data: []byte("a"), Dropped: 1, Final: true}}, Wrote: []byte("abc"), Known: true, Complete: true}, "G3"},
		"a beginning":          {Log{Chunks: []LogChunk{chunk(0, "ab", true)}, Wrote: []byte("abc"), Known: true, Lost: true}, ""},
		"no beginning":         {Log{Chunks: []LogChunk{chunk(0, "b", true)}, Wrote: []byte("abc"), Known: true, Lost: true}, "G3"},
		"more than written":    {Log{Chunks: []LogChunk{chunk(0, "abcd", true)}, Wrote: []byte("abc"), Known: true, Lost: true, Complete: true}, "G3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := rules(Logs([]Log{test.log})); got != test.want {
				t.Errorf("broken: %q, want %q", got, test.want)
			}
		})
	}
}

func TestCalls_FindsWhatCannotHaveHappened(t *testing.T) {
	t.Parallel()
	ask := func(at int, answer Answer, run int64) Call {
		return Call{From: time.Duration(at), To: time.Duration(at + 2), Object: "k", Verb: "ask", Answer: answer, Run: run}
	}
	audit := func(count int, run int64) Call {
		return Call{From: never + 1, To: never + 2, Object: "k", Verb: "audit", Answer: Done, Count: count, Run: run}
	}
	cancel := func(at int, answer Answer, state string) Call {
		return Call{From: time.Duration(at), To: time.Duration(at + 2), Object: "r", Verb: "cancel", Answer: answer, State: state}
	}
	look := func(at int, state string) Call {
		return Call{From: time.Duration(at), To: time.Duration(at + 2), Object: "r", Verb: "look", Answer: Done, State: state}
	}
	for name, test := range map[string]struct {
		calls []Call
		want  string
	}{
		"the same run":                 {[]Call{ask(1, Done, 7), ask(2, Done, 7), ask(9, Unknown, 0), audit(1, 7)}, ""},
		"two runs by one key":          {[]Call{ask(1, Done, 7), ask(2, Done, 8), audit(1, 7)}, "A1"},
		"two rows":                     {[]Call{ask(1, Done, 7), audit(2, 7)}, "A1"},
		"a run that was accepted left": {[]Call{ask(1, Done, 7), audit(0, 0)}, "A1"},
		"nobody knows":                 {[]Call{ask(1, Unknown, 0), audit(1, 7)}, ""},
		"a cancel wins":                {[]Call{cancel(1, Done, ""), look(2, "running"), look(9, "canceled")}, ""},
		"a cancel is forgotten":        {[]Call{cancel(1, Done, ""), look(9, "succeeded")}, "A2"},
		"a cancel after the end":       {[]Call{look(1, "succeeded"), cancel(9, Done, "")}, "A2"},
		"refused, and it goes on":      {[]Call{cancel(1, Refused, "succeeded"), look(9, "running")}, "A2"},
		"a state that is taken back":   {[]Call{look(1, "succeeded"), look(9, "failed")}, "A2"},
		"refused":                      {[]Call{look(1, "running"), cancel(4, Refused, "failed"), look(9, "failed")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := rules(Calls(test.calls, time.Minute)); got != test.want {
				t.Errorf("broken: %q, want %q", got, test.want)
			}
		})
	}
}

// What could not be decided in time is reported, not taken as correct.
func TestCalls_SaysWhatItDidNotFindOut(t *testing.T) {
	t.Parallel()
	calls := []Call{{From: 100, To: 101, Object: "r", Verb: "look", Answer: Done, State: "succeeded"}, {From: 102, To: 103, Object: "r", Verb: "look", Answer: Done, State: "failed"}}
	for i := range 60 { // each may have happened at any time
		calls = append(calls, Call{From: time.Duration(i), Object: "r", Verb: "cancel", Answer: Unknown})
	}
	broken := Calls(calls, 10*time.Millisecond)
	if len(broken) != 1 || !strings.Contains(broken[0].What, "not found out") {
		t.Errorf("broken: %v", broken)
	}
}
