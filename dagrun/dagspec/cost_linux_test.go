package dagspec

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// onThread measures the processor time that f takes on its thread: what else the machine does is left out.
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

// Whatever an expression does, it ends in about a tenth of a second of one core. The bound leaves room for slower machines.
func TestEval_CostsABoundedTime(t *testing.T) {
	t.Parallel()
	many := map[string]any{}
	for i := range 60_000 {
		many[fmt.Sprintf("key %d", i)] = int64(i)
	}
	long := strings.Repeat("a", 1<<20)
	cases := map[string]map[string]any{
		"all(params.j, {let x = #; count(params.j, {# == x}) == 1}) ? 0 : 1":   {"j": texts(20_000)},
		"all(params.j, {count(params.j, {# != 'a'}) > 0}) ? 0 : 1":             {"j": texts(60_000)},
		"count(params.j, {# in params.j})":                                     {"j": texts(60_000)},
		"count(params.j, {params.s contains #})":                               {"j": texts(60_000), "s": long},
		"count(params.j, {params.s == params.p + #})":                          {"j": texts(60_000), "s": long, "p": long},
		"count(params.j, {params.s + '' < params.p + 'b'})":                    {"j": texts(60_000), "s": long, "p": long},
		"count(params.j, {params.s matches '^(a?){30}(a|b)*c$'})":              {"j": texts(60_000), "s": long},
		"count(params.j, {# matches params.p})":                                {"j": texts(60_000), "p": "((x{30}){30})y?"},
		"params.s matches params.p ? 0 : 1":                                    {"s": long, "p": "(a?){500}(a|b|c)*d"},
		"params.s matches '(a{0,30}){30}b' ? 0 : 1":                            {"s": long},
		"len(sort(params.j)) + len(sort(params.j)) + len(sort(params.j))":      {"j": texts(60_000)},
		"len(sortBy(params.j, {params.s + #}))":                                {"j": texts(60_000), "s": long},
		"len(groupBy(params.j, {params.s}))":                                   {"j": texts(60_000), "s": long},
		"count(params.j, {params.m[params.s] == nil})":                         {"j": texts(60_000), "s": long, "m": map[string]any{"a": "b"}},
		"count(params.j, {len({(params.s): 1}) == 1})":                         {"j": texts(60_000), "s": long},
		"len(uniq(params.j))":                                                  {"j": texts(60_000)},
		"len(uniq(map(params.j, {[#]})))":                                      {"j": texts(60_000)},
		"len(reduce(params.j, #acc + #, ''))":                                  {"j": texts(60_000)},
		"count(params.j, {len(toJSON(params.j)) > 0})":                         {"j": texts(60_000)},
		"count(params.m, {len(toJSON(params.j)) > 0}) + len(toJSON(params.j))": {"j": nested(900), "m": texts(60_000)},
		"count(params.j, {len(string(params.j)) > 0})":                         {"j": texts(60_000)},
		"count(params.j, {len(fromJSON(params.s)) > 0})":                       {"j": texts(60_000), "s": "[" + strings.Repeat("1,", 1<<18) + "1]"},
		"len(fromJSON(params.s))":                                              {"s": strings.Repeat("[", 9000) + strings.Repeat("]", 9000)},
		"count(params.j, {len(keys(params.m)) > 0})":                           {"j": texts(60_000), "m": many},
		"count(params.j, {len(split(params.s, '')) > 0})":                      {"j": texts(60_000), "s": long},
		"len(replace(params.s, '', params.p))":                                 {"s": long, "p": long},
		"len(replace(params.s, 'a', params.p))":                                {"s": long, "p": long},
		"len(repeat(params.s, 100000))":                                        {"s": long},
		"len(join(params.j, params.s))":                                        {"j": texts(60_000), "s": long},
		"count(params.j, {len(upper(params.s)) > 0})":                          {"j": texts(60_000), "s": long},
		"count(params.j, {lastIndexOf(params.s, 'b') > 0})":                    {"j": texts(60_000), "s": long},
		"count(params.j, {string(timezone('Europe/Paris')) == 'x'})":           {"j": texts(60_000)},
		"count(params.j, {date('2024-02-30x') == nil})":                        {"j": texts(60_000)},
		"count(params.j, {len(concat(params.j, params.j)) > 0})":               {"j": texts(60_000)},
		"count(params.j, {len(flatten(params.j)) > 0})":                        {"j": texts(60_000)},
		"count(params.j, {len(reverse(params.j)) > 0})":                        {"j": texts(60_000)},
		"count(params.j, {len(params.j[1:]) > 0})":                             {"j": texts(60_000)},
		"count(params.j, {params.j == params.j[0:]})":                          {"j": texts(60_000)},
		"count(params.j, {median(map(params.m, len(#))) > 0})":                 {"j": texts(60_000), "m": texts(60_000)},
		"let a = [params.j, params.j]; let b = [a, a, a, a]; let c = [b, b, b, b]; let d = [c, c, c, c]; len(toJSON([d, d, d, d]))": {"j": texts(60_000)},
	}
	for text, params := range cases {
		e := expressionOf(t, text)
		scope := fakeScope{context: Context{Params: params}}
		var err error
		took := onThread(t, func() { _, err = e.Eval(scope) })
		t.Logf("%8v %v  %.80s", took.Round(time.Millisecond), errors.Is(err, errCost), text)
		if took > raceFactor*250*time.Millisecond {
			t.Errorf("%s: took %v of one core: %v", text, took, err)
		}
	}
}

var _ dagrun.Scope = fakeScope{}
