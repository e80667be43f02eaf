package dagspec

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// onThread measures the processor time that f takes on its thread. Other load on the machine does not count.
func onThread(t *testing.T, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime(t)
	f()
	return threadTime(t) - before
}

func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// expressionOf compiles a condition over params j (a list), m (a map), s and p (texts).
func expressionOf(t *testing.T, text string) *expression {
	t.Helper()
	spec, err := Parse("f.yaml", []byte(`
name: cost
params: [{name: j, type: json}, {name: m, type: json}, {name: s, type: string}, {name: p, type: string}]
steps: [{id: a, run: x}]
`))
	if err != nil {
		t.Fatal(err)
	}
	e, problems := newNames(spec).compile("("+text+") == 0", wantBool)
	if len(problems) > 0 {
		t.Fatalf("%s: %v", text, problems)
	}
	return e
}

// texts are n different texts of a few bytes.
func texts(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = fmt.Sprintf("t%d", i)
	}
	return list
}

func nested(depth int) any {
	var v any = []any{}
	for range depth {
		v = []any{v}
	}
	return v
}

const (
	units = exprUnits / 5 // of each measured evaluation
	most  = 3             // times as long as a plain loop takes for as many units
)

// An evaluation ends in about a tenth of a second of one core, because a unit takes about as long as a unit of a plain loop.
// The test compares both on one machine, one after the other, so the machine's speed and load do not matter.
func TestEval_CostsABoundedTime(t *testing.T) {
	t.Parallel()
	const n = 12_000
	many := map[string]any{}
	for i := range n {
		many[fmt.Sprintf("key %d", i)] = int64(i)
	}
	long := strings.Repeat("a", 1<<18)
	cases := map[string]map[string]any{
		"all(params.j, {let x = #; count(params.j, {# == x}) == 1}) ? 0 : 1":   {"j": texts(n / 3)},
		"all(params.j, {count(params.j, {# != 'a'}) > 0}) ? 0 : 1":             {"j": texts(n)},
		"count(params.j, {# in params.j})":                                     {"j": texts(n)},
		"count(params.j, {params.s contains #})":                               {"j": texts(n), "s": long},
		"count(params.j, {params.s == params.p + #})":                          {"j": texts(n), "s": long, "p": long},
		"count(params.j, {params.s + '' < params.p + 'b'})":                    {"j": texts(n), "s": long, "p": long},
		"count(params.j, {params.s matches '^(a?){30}(a|b)*c$'})":              {"j": texts(n), "s": long},
		"count(params.j, {# matches params.p})":                                {"j": texts(n), "p": "((x{30}){30})y?"},
		"params.s matches params.p ? 0 : 1":                                    {"s": long, "p": "(a?){500}(a|b|c)*d"},
		"params.s matches '(a{0,30}){30}b' ? 0 : 1":                            {"s": long},
		"len(sort(params.j)) + len(sort(params.j)) + len(sort(params.j))":      {"j": texts(n)},
		"len(sortBy(params.j, {params.s + #}))":                                {"j": texts(n), "s": long},
		"len(groupBy(params.j, {params.s}))":                                   {"j": texts(n), "s": long},
		"count(params.j, {params.m[params.s] == nil})":                         {"j": texts(n), "s": long, "m": map[string]any{"a": "b"}},
		"count(params.j, {len({(params.s): 1}) == 1})":                         {"j": texts(n), "s": long},
		"len(uniq(params.j))":                                                  {"j": texts(n)},
		"len(uniq(map(params.j, {[#]})))":                                      {"j": texts(n)},
		"len(reduce(params.j, #acc + #, ''))":                                  {"j": texts(n)},
		"count(params.j, {len(toJSON(params.j)) > 0})":                         {"j": texts(n)},
		"count(params.m, {len(toJSON(params.j)) > 0}) + len(toJSON(params.j))": {"j": nested(900), "m": texts(n)},
		"count(params.j, {len(string(params.j)) > 0})":                         {"j": texts(n)},
		"count(params.j, {len(fromJSON(params.s)) > 0})":                       {"j": texts(n), "s": "[" + strings.Repeat("1,", 1<<16) + "1]"},
		"len(fromJSON(params.s))":                                              {"s": strings.Repeat("[", 9000) + strings.Repeat("]", 9000)},
		"count(params.j, {len(keys(params.m)) > 0})":                           {"j": texts(n), "m": many},
		"count(params.j, {len(split(params.s, '')) > 0})":                      {"j": texts(n), "s": long},
		"len(replace(params.s, '', params.p))":                                 {"s": long, "p": long},
		"len(replace(params.s, 'a', params.p))":                                {"s": long, "p": long},
		"len(repeat(params.s, 100000))":                                        {"s": long},
		"len(join(params.j, params.s))":                                        {"j": texts(n), "s": long},
		"count(params.j, {len(upper(params.s)) > 0})":                          {"j": texts(n), "s": long},
		"count(params.j, {lastIndexOf(params.s, 'b') > 0})":                    {"j": texts(n), "s": long},
		"count(params.j, {string(timezone('Europe/Paris')) == 'x'})":           {"j": texts(n)},
		"count(params.j, {date('2024-02-30x') == nil})":                        {"j": texts(n)},
		"count(params.j, {len(concat(params.j, params.j)) > 0})":               {"j": texts(n)},
		"count(params.j, {len(flatten(params.j)) > 0})":                        {"j": texts(n)},
		"count(params.j, {len(reverse(params.j)) > 0})":                        {"j": texts(n)},
		"count(params.j, {len(params.j[1:]) > 0})":                             {"j": texts(n)},
		"count(params.j, {params.j == params.j[0:]})":                          {"j": texts(n)},
		"count(params.j, {median(map(params.m, len(#))) > 0})":                 {"j": texts(n), "m": texts(n)},
		"count(params.j, {len(range(0, 1000)) > 0})":                           {"j": texts(n)},
		"len(matrix(params.m)) + len(matrix(params.m))":                        {"m": map[string]any{"a": texts(100), "b": texts(90), "c": texts(2)}},
		"count(params.j, {len(matrix(params.m)) > 0})":                         {"j": texts(n), "m": map[string]any{"a": texts(4)}},
		"count(params.j, {format(run.logical_at, params.s) == ''})":            {"j": texts(n), "s": strings.Repeat("2006-01-02T15:04:05.000", 1000)},
		"count(params.j, {format(run.logical_at, '2006') == ''})":              {"j": texts(n)},
		"let a = [params.j, params.j]; let b = [a, a, a, a]; let c = [b, b, b, b]; let d = [c, c, c, c]; len(toJSON([d, d, d, d]))": {"j": texts(n)},
	}
	const reference = "all(params.j, {let x = #; count(params.j, {# == x}) == 1}) ? 0 : 1"
	loop := measured(t, reference, cases[reference])
	t.Logf("%v are %v of one core", units, loop)
	for text, params := range cases {
		loop, took := loop, measured(t, text, params)
		for tries := 0; took > most*loop && tries < 5; tries++ { // in case other load disturbed one of the two
			loop, took = max(loop, measured(t, reference, cases[reference])), min(took, measured(t, text, params))
		}
		t.Logf("%8v  %.80s", took.Round(time.Millisecond), text)
		if took > most*loop {
			t.Errorf("%s: took %v of one core, and a loop %v", text, took, loop)
		}
	}
}

// measured returns the time of one core that an expression takes until it ends or has cost more than units.
func measured(t *testing.T, text string, params map[string]any) time.Duration {
	t.Helper()
	e := expressionOf(t, text)
	m := newMeter(units)
	v, err := newView(fakeScope{context: Context{Params: params}}, e.names)
	if err != nil {
		t.Fatal(err)
	}
	return onThread(t, func() {
		env, err := v.exprEnv(e.refs, m)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		_, _ = e.run(env, m) // it may run out of units, or fail: only the time until then matters
	})
}

var _ dagrun.Scope = fakeScope{}
