package dagrun

import (
	"strings"
	"testing"
)

// Each case plays moves by hand and looks at the states, and at the last lines of the log of actions and decisions.
var moves = []struct {
	name   string
	spec   Spec
	moves  string
	states string
	log    string // its end
}{
	{
		"cancel stops what runs and cancels the rest", spec("a", "b <- a", "@abort", "@exit"),
		"begin,grant a,cancel,end a,grant @abort,end @abort,grant @exit,end @exit",
		"a=canceled b=canceled @abort=succeeded @exit=succeeded", "canceled: canceled by ana",
	},
	{
		"a second cancel skips the handlers", spec("a", "b <- a", "@abort", "@exit"),
		"begin,grant a,cancel,cancel,end a",
		"a=canceled b=canceled @abort=canceled @exit=canceled", "kill a,accepted,kill a,canceled: canceled by ana",
	},
	{
		"cancel before the verdict is durable", spec("a", "@success", "@abort"),
		"begin,grant a,end a,grant @success,end @success |,cancel,grant @abort,end @abort",
		"a=succeeded @success=succeeded @abort=succeeded", "canceled: canceled by ana",
	},
	{
		"cancel of a task takes its dependants along", spec("a", "b", "c rule=always <- b, a", "d <- c"),
		"begin,grant b,cancel a,end b",
		"a=canceled b=succeeded c=canceled d=canceled", "applied,canceled: step a canceled by ana",
	},
	{
		"running dependants are immune", spec("a", "b <- a:started"),
		"begin,grant a,grant b,cancel a,end a,end b", "a=canceled b=succeeded", "canceled: step a canceled by ana",
	},
	{
		"pause stops a running task, resume starts the next attempt", spec("a"),
		"begin,grant a,pause a,end a,crash,resume a,begin,grant a,end a", "a=succeeded", "accepted,kill a,leave {Drained:false WakeAt:0},applied,start a,succeeded: ",
	},
	{
		"a paused run parks when nothing runs", spec("a", "b <- a"),
		"begin,grant a,pause,end a", "a=succeeded b=pending", "applied,leave {Drained:false WakeAt:0}",
	},
	{
		"a paused run goes on in the next drive", spec("a", "b <- a"),
		"begin,grant a,pause,end a,crash,resume,begin,grant b,end b", "a=succeeded b=succeeded", "applied,start b,succeeded: ",
	},
	{
		"a retry that is due waits for the resume", spec("a retry=x", "b"),
		"begin,grant a,grant b,exit3 a,pause,tick 200,resume,grant a", "a=running b=running", "applied,applied,start a",
	},
	{
		"drain leaves the rest to the next driver", spec("a", "b"),
		"begin,grant a,drain,lost a", "a=pending b=pending", "leave {Drained:true WakeAt:0}",
	},
	{"an attempt found running is lost and tried again", spec("a"), "begin,grant a,crash,begin,grant a", "a=running", "start a"},
	{"on_lost: fail", spec("a onlost=fail", "b <- a"), "begin,grant a,crash,begin", "a=failed b=upstream_failed", "failed: step a failed: lost"},
	{"a settled result needs no second attempt", spec("a", "b <- a"), "begin,grant a,crash,settled a,begin", "a=succeeded b=ready", "start a"},
	{"a request survives a crash", spec("a", "b"), "begin,grant a,grant b,cancel a,crash,begin", "a=canceled b=ready", "accepted,kill a"},
	{
		"the drive limit ends the run by the rules", spec("a", "b", "@failure", "@exit"),
		"begin,grant a,crash,limit,begin,grant @failure,end @failure,grant @exit,end @exit",
		"a=failed b=canceled @failure=succeeded @exit=succeeded", "failed: gave up after too many lost drives",
	},
	{
		"the drive limit among the handlers ends them", spec("a", "@success", "@exit"),
		"begin,grant a,end a,grant @success,crash,limit,begin",
		"a=succeeded @success=failed @exit=canceled", "failed: gave up after too many lost drives",
	},
	{"refused runs end at once", spec("a", "b", "@exit"), "begin,grant a,refuse invalid", "a=canceled b=canceled", "failed: invalid,kill a"},
	{"refused before the begin", spec("a"), "refuse invalid", "a=canceled", "failed: invalid"},
	{"an attempt times out", spec("a timeout"), "begin,grant a,start a,tick 1000,end a", "a=failed", "kill a,failed: step a failed: timed out after 1s"},
	{"a body that ends in time is no timeout", spec("a timeout"), "begin,grant a,start a,tick 999,end a", "a=succeeded", "start a,succeeded: "},
	{"an approval parks the run", spec("a approval", "b <- a"), "begin", "a=waiting b=pending", "leave {Drained:false WakeAt:0}"},
	{"approved in the next drive", spec("a approval", "b <- a"), "begin,crash,approve a,begin", "a=succeeded b=ready", "applied"},
	{"rejected", spec("a approval", "b"), "begin,grant b,reject a,end b", "a=failed b=succeeded", "failed: step a failed: rejected by ana"},
	{"an approval times out", spec("a approval timeout", "b"), "begin,grant b,tick 1000,end b", "a=failed b=succeeded", "failed: step a failed: timed out after 1s"},
	{"a child run is named, parked and ended", spec("a child"), "begin,named a,crash,child_ended a,begin", "a=succeeded", "applied,succeeded: "},
	{"a child run without a name is cancelled when it gets one", spec("a child"), "begin,cancel,named a |,child_ended a", "a=canceled", "open a,accepted,applied,canceled: canceled by ana"},
	{"a wait is opened again at its time", spec("a wait", "b"), "begin,grant b,waits a,tick 60000,end a,end b", "a=succeeded b=succeeded", "open a,succeeded: "},
	{"a long wait parks the run", spec("a wait"), "begin,waits a", "a=waiting", "open a,leave {Drained:false WakeAt:61000}"},
	{"a snooze is no end", spec("a"), "begin,grant a,snooze a |,tick 60000,grant a,end a", "a=succeeded", "start a,start a,succeeded: "},
	{"a cache hit takes no slot", spec("a cache=k", "b <- a"), "begin,hit a", "a=succeeded b=ready", "probe a"},
	{"a cache miss asks for one", spec("a cache=k"), "begin,miss a,grant a", "a=running", "probe a,start a"},
	{"marked while it runs", spec("a", "b <- a"), "begin,grant a,mark succeeded a,exit3 a", "a=succeeded b=ready", "accepted,kill a"},
	{"marked before it runs", spec("a", "b <- a"), "begin,mark skipped a", "a=skipped b=skipped", "applied,succeeded: nothing to do"},
	{
		"controls of what is over are refused", spec("a", "b"), "begin,grant a,end a,cancel a,pause a,mark failed a,approve a,resume a", "a=succeeded b=ready",
		"refused,refused,refused,refused,refused",
	},
	{"a publish is tried again alone", spec("a publish retry=x", "b <- a"), "begin,grant a,end a,exit3 a,tick 200,end a", "a=succeeded b=ready", "start a,start a,start a"},
	{"a publish found under way is started again", spec("a publish"), "begin,grant a,end a,crash,begin,end a", "a=succeeded", "start a,succeeded: "},
	{"the pool of a publish is asked for", spec("a publish=p"), "begin,grant a,end a,grant a,end a", "a=succeeded", "start a,start a,succeeded: "},
	{"a publish that fails before the child started", spec("a publish", "b <- a:finished"), "begin,grant a,end a,exit3 a", "a=failed b=upstream_failed", "failed: step a failed: publish: exit 3"},
	{"a started edge holds for good", spec("a retry=x", "b <- a:started"), "begin,grant a,exit3 a,grant b,end b", "a=retrying b=succeeded", "start b"},
	{"retry of what failed", spec("a", "b <- a", "c"), "begin,grant a,grant c,exit3 a,end c,again,crash,retry,begin", "a=ready b=pending c=succeeded", "applied"},
	{"retry of one step", spec("a", "b <- a", "c <- b"), "begin,grant a,end a,grant b,end b,grant c,end c,again,crash,retry step b,begin", "a=succeeded b=ready c=succeeded", "applied"},
	{"retry from a step", spec("a", "b <- a", "c <- b"), "begin,grant a,end a,grant b,end b,grant c,end c,again,crash,retry from b,begin", "a=succeeded b=ready c=pending", "applied"},
	{"retry of nothing", spec("a"), "begin,grant a,end a,again,crash,retry", "a=succeeded", "refused"},
	{"retry of a handler whose replacement failed", spec("a", "@success replace=x"), "begin,grant a,end a,grant @success,exit3 @success,grant @success~1,exit3 @success~1,again,crash,retry,begin", "a=succeeded @success=ready", "applied"},
	{"retry of an item", spec("a each=x+y", "b <- a"), "begin,grant a/x,end a/x,grant a/y,exit3 a/y,again,crash,retry,begin", "a=running a/x=succeeded a/y=ready b=pending", "applied"},
	{"init is first, and cancelled with the run", spec("a", "@init", "@abort"), "begin,cancel,grant @abort,end @abort", "a=canceled @init=canceled @abort=succeeded", "canceled: canceled by ana"},
}

func TestMoves(t *testing.T) {
	t.Parallel()
	for _, c := range moves {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDrive(t, c.spec, Options{})
			d.play(split(c.moves)...)
			d.want(c.states)
			if got := strings.Join(d.log, ","); !strings.HasSuffix(got, c.log) {
				t.Errorf("log\n got %s\nwant … %s", got, c.log)
			}
		})
	}
}

func split(moves string) []string { return strings.Split(moves, ",") }
