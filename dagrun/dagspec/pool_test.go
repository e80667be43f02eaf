package dagspec

import (
	"crypto/md5"
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func TestCompile_TakesPoolsInEachForm(t *testing.T) {
	t.Parallel()
	steps := compiled(t, "pools.yaml")
	total, heavy := dagrun.PoolUse{Pool: "total", Weight: 2}, dagrun.PoolUse{Pool: "heavy", Weight: 1}
	whole := []dagrun.PoolUse{{Pool: "heavy", Weight: 3}, {Pool: "crm", Weight: 1, Key: "${params.tenant}/${params.n}/${labels.zone}"}}
	for name, want := range map[string][]dagrun.PoolUse{
		"default": {total},
		"one":     {heavy},
		"several": {heavy, {Pool: "total", Weight: 1}}, // nothing of the default
		"whole":   whole,
		"none":    nil,
		"nothing": nil,
		"@exit":   {{Pool: "notify", Weight: 1, Key: "of ${params.tenant}"}},
	} {
		if diff := cmp.Diff(want, steps[name].Pools); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]dagrun.PoolUse{{Pool: "merge", Weight: 1_000_000}}, steps["whole"].PublishPools); diff != "" {
		t.Errorf("publish (-want +got):\n%s", diff)
	}
	for i, want := range [][]dagrun.PoolUse{whole, nil, nil, {{Pool: "spare", Weight: 1}}} {
		if diff := cmp.Diff(want, steps["whole"].OnError[0].With[i].Pools); diff != "" {
			t.Errorf("replacement %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestSpec_PoolsAreTheMostOfAnyBody(t *testing.T) {
	t.Parallel()
	want := map[string]PoolNeed{
		"total": {Weight: 2, Bare: true}, "heavy": {Weight: 3, Bare: true}, "crm": {Weight: 1, Key: true}, "merge": {Weight: 1_000_000, Bare: true},
		"spare": {Weight: 1, Bare: true}, "notify": {Weight: 1, Key: true},
	}
	if diff := cmp.Diff(want, readGood(t)["pools.yaml"].Pools()); diff != "" {
		t.Error(diff)
	}
	if got := string(mustMarshal(t, readGood(t)["smallest.json"].Pools())); got != "{}" {
		t.Errorf("a DAG without pools needs %s", got)
	}
}

func TestSpec_PoolsSayWhatARunBeginsWith(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"steps: [{id: a, run: x, pool: p}, {id: b, run: x, depends: [a]}]":                       true,
		"steps: [{id: a, run: x, pool: [o, p]}, {id: b, run: x, pool: p}]":                       true,
		"steps: [{id: a, run: x, pool: p}, {id: b, run: x}]":                                     false,
		"steps: [{id: a, run: x}, {id: b, run: x, depends: [a], pool: p}]":                       false,
		"handler_on: {init: {run: x}}\nsteps: [{id: a, run: x, pool: p}]":                        false,
		"handler_on: {init: {run: x, pool: p}}\nsteps: [{id: a, run: x}]":                        true,
		"steps: [{id: a, action: approval}, {id: b, run: x, depends: [a], pool: p}]":             false,
		"defaults: {pool: p}\nsteps: [{id: a, action: approval}, {id: b, run: x, depends: [a]}]": false,
	} {
		if got := mustParse(t, "name: x\n"+text+"\n").Pools()["p"].First; got != want {
			t.Errorf("%s: first is %t, want %t", text, got, want)
		}
	}
}

// Each form of the same pools makes the same version of a DAG. None is something else than not given.
func TestPools_HaveOneForm(t *testing.T) {
	t.Parallel()
	hash := func(pool string) string {
		return mustParse(t, "name: x\nsteps: [{id: a, run: echo"+pool+"}]\n").Hash()
	}
	same := []string{", pool: p", ", pool: [p]", ", pool: {name: p}", ", pool: [{name: p, weight: 1}]", ", pool: {name: p, key: ''}"}
	for _, pool := range same {
		if hash(pool) != hash(same[0]) {
			t.Errorf("%s has a hash of its own", pool)
		}
	}
	if hash(", pool: ''") != hash(", pool: []") || hash(", pool: ''") == hash("") {
		t.Error("no pools are not told from pools that are not given")
	}
	for _, pool := range append(same, "", ", pool: []") {
		spec := mustParse(t, "name: x\nsteps: [{id: a, run: echo"+pool+"}]\n")
		again := mustParse(t, string(mustMarshal(t, spec)))
		if diff := cmp.Diff(spec.Steps[0].Pool, again.Steps[0].Pool); diff != "" {
			t.Errorf("%s, stored and read (-want +got):\n%s", pool, diff)
		}
	}
}

func TestPoolKey_FillsInAndBounds(t *testing.T) {
	t.Parallel()
	md5Of := func(text string) string { sum := md5.Sum([]byte(text)); return hex.EncodeToString(sum[:]) }
	params := map[string]any{
		"tenant": "acme", "n": int64(7), "half": 0.5, "large": 1e21, "whole": 7.0, "small": 1e-7, "yes": true, "null": nil, "list": []any{int64(1), "<"},
		"evil": "${labels.zone}", "long": strings.Repeat("a", 200), "longer": strings.Repeat("a", 201), "runes": strings.Repeat("é", 150), "odd": func() {},
	}
	labels := map[string]string{"zone": "eu/1", "a.b/c-d": "x"}
	for key, want := range map[string]string{
		"":                                "",
		"fixed $ } {":                     "fixed $ } {",
		"${params.tenant}/${labels.zone}": "acme/eu/1",
		"${labels.a.b/c-d}":               "x",
		"${params.n}${params.yes}":        "7true",
		"${params.half} ${params.whole}":  "0.5 7",
		"${params.large}":                 "1000000000000000000000",
		"${params.small}":                 "0.0000001",
		"<${params.null}${params.none}${labels.none}>": "<>",
		"${params.list}":   `[1,"<"]`,
		"${params.evil}":   "${labels.zone}",
		"${params.long}":   strings.Repeat("a", 200),
		"${params.longer}": strings.Repeat("a", 160) + md5Of(strings.Repeat("a", 201)),
		"x${params.runes}": "x" + strings.Repeat("é", 79) + md5Of("x"+strings.Repeat("é", 150)),
	} {
		got := PoolKey(key, params, labels)
		if got != want || !utf8.ValidString(got) || len(got) > 200 {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := PoolKey("${params.odd}", params, labels); got == "" || len(got) > 200 {
		t.Errorf("a value that has no JSON: %q", got)
	}
}
