package runview

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// UnfinishedStates are the states of runs that have not ended.
var UnfinishedStates = []string{"scheduled", "queued", "running", "waiting", "paused"}

// AskCommand returns the oarlock command with which a person makes the request a, such as "oarlock cancel 41 --now".
func AskCommand(a *queue.Ask) string {
	command := fmt.Sprintf("oarlock %s %d", a.Verb, a.Run)
	task := TaskName(a.Step, a.Item)
	if a.Step != "" && a.Verb != dagrun.VerbRetry {
		command += " " + ShellWord(task)
	}
	switch a.Verb {
	case dagrun.VerbCancel:
		if a.Now {
			command += " --now"
		}
	case dagrun.VerbRetry:
		switch a.Mode {
		case dagrun.RetryFailed:
		case dagrun.RetryFrom, dagrun.RetryStep:
			command += " --" + a.Mode.String() + " " + ShellWord(task)
		case dagrun.RetryAll:
			command += " --all"
		}
	case dagrun.VerbApprove:
		command += pairFlags("-i", a.Outputs)
	case dagrun.VerbReject:
		if a.Reason != "" {
			command += " --comment " + ShellWord(a.Reason)
		}
	case dagrun.VerbMark:
		command += " --as " + a.As.String() + pairFlags("--value", a.Outputs)
	default:
	}
	return command
}

// pairFlags writes each value of an object as a flag: flag NAME=VALUE for a text, and flag-json NAME=JSON for any other value. Each
// flag has a blank before it. If values is no object, pairFlags returns "".
func pairFlags(flag string, values any) string {
	raw, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return ""
	}
	texts, others := map[string]string{}, map[string]string{}
	for name, value := range all {
		var text *string
		if json.Unmarshal(value, &text) == nil && text != nil {
			texts[name] = *text
		} else {
			others[name] = string(value)
		}
	}
	return textFlags(flag, texts, exactWord) + textFlags(flag+"-json", others, exactWord)
}

// CancelWaits returns the full answer to an accepted cancel that waits for a worker: "cancel accepted, ends when a worker takes it
// (none is live): @exit is to run first". It returns "" if the cancel does not wait, and for any other request. run is the run as
// it is after the answer.
func CancelWaits(c *queue.Control, run *queue.Run) string {
	if c.Verb != dagrun.VerbCancel || c.Outcome != dagrun.Accepted || c.Message == "" || run.State != "queued" {
		return ""
	}
	_, needs, _ := strings.Cut(c.Message, ": ")
	return Printable(run.Reason + ": " + needs)
}

// Outcome returns the outcome of a request as one word, and the text that follows the word: "refused" and ", " with the reason,
// "applied" and " (canceled)" with the state of the run. A request that is not decided yet is "asked for".
func Outcome(c *queue.Control) (word, rest string) {
	if c.Outcome == dagrun.Refused {
		return "refused", ", " + refusalMessage(c)
	}
	state := ""
	if c.State != "" { // state of the run
		state = " (" + c.State + ")"
	}
	if c.Outcome == "" {
		return "asked for", ", the next worker that drives the run decides" + state
	}
	return string(c.Outcome), state
}
