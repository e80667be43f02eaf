package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	latestWord = "@latest"
	runHint    = "`oarlock list` shows the runs you may see"
)

// runChoices complete an argument that names a run.
var runChoices = []string{latestWord + "\tthe newest run"}

// runArg names a run on a command line: 41 or @latest.
type runArg struct {
	id     queue.RunID
	latest bool
}

// looksLikeRun distinguishes runs from steps, which begin with a letter.
func looksLikeRun(word string) bool {
	return word != "" && (word[0] >= '0' && word[0] <= '9' || word == latestWord)
}

func parseRun(word string) (runArg, error) {
	if word == latestWord {
		return runArg{latest: true}, nil
	}
	id, err := strconv.ParseInt(word, 10, 64)
	if err != nil || id < 1 {
		hint := cmp.Or(config.DidYouMean(word, []string{latestWord}), "`oarlock list` shows the numbers of runs")
		return runArg{}, &usageError{msg: fmt.Sprintf("a run is a number or %s, not %q", latestWord, word), hint: hint}
	}
	return runArg{id: queue.RunID(id)}, nil
}

// oneRun reads the argument of a command that takes one run and nothing else.
func oneRun(command string, args []string) (runArg, error) {
	if len(args) != 1 {
		return runArg{}, &usageError{msg: fmt.Sprintf("%s needs one run, got %d", command, len(args)), hint: "a number or " + latestWord}
	}
	return parseRun(args[0])
}

// find returns the number of the run. @latest is the newest run that the user may see.
func (r runArg) find(ctx context.Context, store *queue.Store) (queue.RunID, error) {
	if !r.latest {
		return r.id, nil
	}
	page, err := store.List(ctx, queue.Filter{Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(page.Runs) == 0 {
		message, hint := noRuns(ctx, store)
		return 0, &failure{kind: notFound, err: errors.New(message), hint: hint}
	}
	return page.Runs[0].ID, nil
}

// noRuns explains why no run is listed, and what to do.
func noRuns(ctx context.Context, store *queue.Store) (message, hint string) {
	if rights, err := store.Rights(ctx); err == nil && rights.OnlyApproves() {
		return "there is no run that you may see", "`oarlock approvals` lists those that wait for you"
	}
	return "there are no runs yet", "`oarlock enqueue DAG` asks for one"
}
