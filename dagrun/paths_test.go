package dagrun

import "testing"

func TestPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		spec    Spec
		ends    map[string][]Result
		states  string
		verdict string
	}{
		{
			"fail", spec("a", "b <- a", "c <- b", "d rule=all_done <- b", "e rule=one_failed <- b"),
			map[string][]Result{"a": {exit3}},
			"a=failed b=upstream_failed c=upstream_failed d=succeeded e=succeeded", "failed: step a failed: exit 3",
		},
		{
			"skip", spec("a skip", "b <- a", "c rule=none_failed <- b"),
			map[string][]Result{"a": {exit99}},
			"a=skipped b=skipped c=succeeded", "succeeded: ",
		},
		{"nothing", spec("a when=false", "b <- a"), nil, "a=skipped b=skipped", "succeeded: nothing to do"},
		{"tolerated", spec("a continue=failed", "b <- a"), map[string][]Result{"a": {exit3}}, "a=failed b=succeeded", "succeeded: "},
		{
			"replace", spec("a replace=xx", "b <- a"),
			map[string][]Result{"a": {exit3}},
			"a=replaced a~1=succeeded a~2=succeeded b=succeeded", "succeeded: ",
		},
		{
			"replace fails", spec("a replace=xx", "b <- a"),
			map[string][]Result{"a": {exit3}, "a~2": {exit3}},
			"a=replaced a~1=succeeded a~2=failed b=upstream_failed", "failed: step a~2 failed: exit 3",
		},
		{
			"foreach", spec("a each=x+y+z", "b <- a"),
			map[string][]Result{"a/y": {exit3}},
			"a=failed a/x=succeeded a/y=failed a/z=succeeded b=upstream_failed", "failed: step a/y failed: exit 3",
		},
		{"foreach none", spec("a each=", "b rule=none_failed <- a"), nil, "a=skipped b=succeeded", "succeeded: "},
		{
			"publish", spec("a publish", "b <- a:finished", "c <- a"),
			map[string][]Result{"a!": {exit3}},
			"a=failed b=succeeded c=upstream_failed", "failed: step a failed: publish: exit 3",
		},
		{"noop chain", spec("a noop", "b noop <- a", "c noop <- b"), nil, "a=succeeded b=succeeded c=succeeded", "succeeded: "},
		{"handlers", spec("a", "@init", "@success", "@failure", "@exit"), nil, "a=succeeded @init=succeeded @success=succeeded @exit=succeeded", "succeeded: "},
		{"handlers of failure", spec("a", "@init", "@success", "@failure", "@exit"), map[string][]Result{"a": {exit3}}, "a=failed @init=succeeded @failure=succeeded @exit=succeeded", "failed: step a failed: exit 3"},
		{"init fails", spec("a", "b <- a", "@init", "@failure", "@exit"), map[string][]Result{"@init": {exit3}}, "a=canceled b=canceled @init=failed @failure=succeeded @exit=succeeded", "failed: init failed"},
		{"exit fails", spec("a", "@success", "@exit"), map[string][]Result{"@exit": {exit3}}, "a=succeeded @success=succeeded @exit=failed", "failed: step @exit failed: exit 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDrive(t, c.spec, Options{})
			if c.ends != nil {
				d.ends = c.ends
			}
			d.begin()
			d.want(c.states)
			d.verdict(c.verdict)
		})
	}
}
