package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

const variablePrefix = "OARLOCK_"

// otherVariables are the variables of Oarlock that are not settings: the first two are for users, Oarlock sets the others
// for tasks. See docs/environment.md.
var otherVariables = []string{
	"OARLOCK_CONFIG", "OARLOCK_PG_BIN",
	"OARLOCK_RUN_ID", "OARLOCK_RUN_UID", "OARLOCK_DAG", "OARLOCK_STEP", "OARLOCK_ITEM", "OARLOCK_ATTEMPT", "OARLOCK_PUBLISH_TRY", "OARLOCK_FENCE",
	"OARLOCK_IDEMPOTENCY_KEY", "OARLOCK_OUTPUT", "OARLOCK_UPSTREAM", "OARLOCK_RUN_STATE", "OARLOCK_FAILED_STEPS",
	"OARLOCK_LOGICAL_AT", "OARLOCK_PREVIOUS_LOGICAL_AT", "OARLOCK_SCHEDULE", "OARLOCK_SOURCE_DIR", "OARLOCK_WORKER_ID", "OARLOCK_BODY_ID", "OARLOCK_GUARD",
}

// sayMisspelled warns of variables that look like a misspelled setting. It prints nothing inside a task, in a driver
// process, or in another command's worker: there the parent process has warned already, or the user did not set the
// environment. It ignores a variable that resembles no known name, because the variable may belong to another program.
// Kubernetes, for example, sets variables for a service named oarlock.
func (e *env) sayMisspelled(args []string) {
	if e.Environ == nil || slices.Contains(args, "--until-eof") {
		return
	}
	for _, name := range []string{"OARLOCK_RUN_ID", "OARLOCK_WORKER_ID", "OARLOCK_GUARD"} {
		if text, _ := e.Lookup(name); text != "" {
			return
		}
	}
	known := slices.Clone(otherVariables)
	for _, k := range allKeys() {
		known = append(known, k.Env...)
	}
	var words []string
	for _, name := range known {
		if word, ok := strings.CutPrefix(name, variablePrefix); ok {
			words = append(words, word)
		}
	}
	for _, pair := range e.Environ() {
		name, text, _ := strings.Cut(pair, "=")
		word, ours := strings.CutPrefix(name, variablePrefix)
		near := config.Near(word, words)
		if !ours || text == "" || near == "" || slices.Contains(words, word) {
			continue
		}
		said := fmt.Sprintf("%s is no setting: did you mean %s%s?", runview.Printable(name), variablePrefix, near)
		if slices.Contains(args, "worker") {
			e.log.Warn(said)
		} else {
			e.remark("%s", said)
		}
	}
}
