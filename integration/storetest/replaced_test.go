package storetest_test

import (
	"fmt"
	"slices"
	"testing"
)

const relayDAG = `name: relay
steps:
  - id: gate
    run: "true"
    on_error:
      - do: replace
        with:
          - {action: approval, with: {approvers: [%s]}}
          - {action: approval, with: {approvers: [%s], inputs: [{name: ticket, required: true}]}}
  - {id: deploy, run: "true", depends: [gate]}
`

// Each replacement names its own approvers and inputs. The approver of one replacement may not decide the other.
func TestApprove_OfAReplacementIsUpToItsOwnApprovers(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.put(fmt.Sprintf(relayDAG, o.role("another"), o.role("boss")))
	run := o.enqueue("owner", "relay")
	for who, want := range map[string]string{"owner": "OA008", "another": "OA007", "boss": "OA007", "admin": "OA008"} {
		if code := o.says(who, "approve($1, 'gate~1')", run); code != want {
			t.Errorf("before it waits, %s approves the first: %q, not %q", who, code, want)
		}
	}
	o.failing = "gate"
	o.drive()
	o.must("another", "approve($1, 'gate~1')", run)
	o.drive()
	const ticket = `'{"ticket": "7"}'`
	for _, c := range []struct{ who, call, want string }{
		{"another", "approve($1, 'gate~2', outputs => " + ticket + ")", "OA007"},
		{"another", "reject($1, 'gate~2')", "OA007"},
		{"another", "approve($1, 'gate~02', outputs => " + ticket + ")", "OA007"},
		{"owner", "approve($1, 'gate~2', outputs => " + ticket + ")", "OA008"},
		{"admin", "approve($1, 'gate~2', outputs => " + ticket + ")", "OA008"},
		{"boss", "approve($1, 'gate~2')", "OA013"},
		{"boss", "approve($1, 'gate~2', outputs => '{\"ticket\": \"7\", \"more\": \"8\"}')", "OA013"},
	} {
		if code := o.says(c.who, c.call, run); code != c.want {
			t.Errorf("%s: %s: %q, not %q", c.who, c.call, code, c.want)
		}
	}
	o.drive()
	if ran := o.ran[run]; !slices.Equal(ran, []string{"gate"}) {
		t.Errorf("before both are given there ran %v", ran)
	}
	o.must("boss", "approve($1, 'gate~2', outputs => "+ticket+")", run)
	o.drive()
	if ran := o.ran[run]; !slices.Equal(ran, []string{"gate", "deploy"}) || o.state(run) != "succeeded" {
		t.Errorf("once both are given there ran %v", ran)
	}
}

// A mark of a replacement that was rejected passes only with the inputs of that replacement.
func TestMark_OfARejectedReplacementNeedsItsInputs(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.put(fmt.Sprintf(relayDAG, o.role("another"), o.role("boss")) + "  - {id: slow, action: wait, with: {duration: 1h}}\n")
	run := o.enqueue("owner", "relay")
	o.failing = "gate"
	o.drive()
	o.must("another", "reject($1, 'gate~1')", run)
	o.must("boss", "reject($1, 'gate~2')", run)
	o.drive()
	if code := o.says("admin", "mark($1, 'gate~2', 'succeeded')", run); code != "OA013" {
		t.Errorf("a mark without the ticket: %q", code)
	}
	o.must("admin", "mark($1, 'gate~1', 'succeeded')", run)
	o.must("admin", "mark($1, 'gate~2', 'succeeded', outputs => '{\"ticket\": \"7\"}')", run)
	o.failing = ""
	o.drive()
	if ran := o.ran[run]; !slices.Equal(ran, []string{"gate", "deploy"}) {
		t.Errorf("once both are marked there ran %v", ran)
	}
}
