package dagrun

import (
	"fmt"
	"slices"
	"strings"
)

// Names of constants. Each table is in the order of its constants.
var (
	stateNames = []string{
		"pending", "ready", "running", "finishing", "retrying", "waiting", "paused",
		"succeeded", "failed", "skipped", "upstream_failed", "canceled", "replaced",
	}
	runStateNames = []string{"queued", "running", "waiting", "paused", "succeeded", "failed", "canceled"}
	ruleNames     = []string{
		"all_success", "all_done", "all_failed", "one_success", "one_failed", "one_done",
		"none_failed", "none_failed_min_one_success", "none_skipped",
	}
	edgeStateNames = []string{"succeeded", "finished", "started"}
	bodyNames      = []string{"task", "noop", "wait", "approval", "child"}
	onLostNames    = []string{"retry", "fail"}
	doNames        = []string{"retry", "fail", "skip", "continue", "replace"}
	requestNames   = []string{"none", "pause", "cancel", "timeout", "mark"}
	endingNames    = []string{"none", "fail_fast", "init", "timeout", "drives", "cancel", "now", "refused"}
	eventNames     = []string{
		"begin", "tick", "granted", "started", "finished", "waits", "probed", "lost",
		"settled", "drive_limit", "refuse", "drain", "control", "queued",
	}
	verbNames      = []string{"cancel", "pause", "resume", "retry", "approve", "reject", "mark", "child_ended"}
	retryModeNames = []string{"failed", "from", "step", "all"}
	actionNames    = []string{"start", "open", "kill", "cancel_child", "probe"}
)

func (s State) String() string      { return word(stateNames, s) }
func (s RunState) String() string   { return word(runStateNames, s) }
func (rule Rule) String() string    { return word(ruleNames, rule) }
func (s EdgeState) String() string  { return word(edgeStateNames, s) }
func (b Body) String() string       { return word(bodyNames, b) }
func (o OnLost) String() string     { return word(onLostNames, o) }
func (d Do) String() string         { return word(doNames, d) }
func (r Request) String() string    { return word(requestNames, r) }
func (e Ending) String() string     { return word(endingNames, e) }
func (k EventKind) String() string  { return word(eventNames, k) }
func (v Verb) String() string       { return word(verbNames, v) }
func (m RetryMode) String() string  { return word(retryModeNames, m) }
func (k ActionKind) String() string { return word(actionNames, k) }

// ParseState parses the output of State.String.
func ParseState(s string) (State, error) { return parse[State]("task state", stateNames, s) }

// ParseRunState parses the output of RunState.String.
func ParseRunState(s string) (RunState, error) { return parse[RunState]("run state", runStateNames, s) }

// ParseEdgeState parses the output of EdgeState.String.
func ParseEdgeState(s string) (EdgeState, error) {
	return parse[EdgeState]("edge state", edgeStateNames, s)
}

// ParseBody parses the output of Body.String.
func ParseBody(s string) (Body, error) { return parse[Body]("body", bodyNames, s) }

// ParseOnLost parses the output of OnLost.String.
func ParseOnLost(s string) (OnLost, error) { return parse[OnLost]("on_lost", onLostNames, s) }

// ParseDo parses the output of Do.String.
func ParseDo(s string) (Do, error) { return parse[Do]("do", doNames, s) }

// ParseRequest parses the output of Request.String.
func ParseRequest(s string) (Request, error) { return parse[Request]("request", requestNames, s) }

// ParseEnding parses the output of Ending.String.
func ParseEnding(s string) (Ending, error) { return parse[Ending]("ending", endingNames, s) }

// ParseEventKind parses the output of EventKind.String.
func ParseEventKind(s string) (EventKind, error) { return parse[EventKind]("event", eventNames, s) }

// ParseVerb parses the output of Verb.String.
func ParseVerb(s string) (Verb, error) { return parse[Verb]("verb", verbNames, s) }

// ParseRetryMode parses the output of RetryMode.String.
func ParseRetryMode(s string) (RetryMode, error) {
	return parse[RetryMode]("retry mode", retryModeNames, s)
}

// ParseActionKind parses the output of ActionKind.String.
func ParseActionKind(s string) (ActionKind, error) {
	return parse[ActionKind]("action", actionNames, s)
}

// ParseRule parses the output of Rule.String, and always, which is another name of all_done.
func ParseRule(s string) (Rule, error) {
	if s == "always" {
		return AllDone, nil
	}
	return parse[Rule]("trigger rule", ruleNames, s)
}

func word[T ~uint8](words []string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("unknown(%d)", uint8(v))
}

func parse[T ~uint8](what string, words []string, s string) (T, error) {
	i := slices.Index(words, s)
	if i < 0 {
		return 0, fmt.Errorf("%s %q is unknown: use one of %s", what, s, strings.Join(words, ", "))
	}
	return T(i), nil
}
