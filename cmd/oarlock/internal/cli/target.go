package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/oarlock-dev/oarlock/queue"
)

// target is the parsed arguments of a command: runs, and perhaps a step or an item of it.
type target struct {
	runs       []runArg
	step, item string
}

// stepName matches a step, a step that replaces another one, and a handler: load, search~1, @exit.
var stepName = regexp.MustCompile(`^(@?[a-z][a-z0-9_-]*)(~[0-9]{1,2})?$`)

// parseTarget reads RUN… [STEP[/item]].
func parseTarget(command string, words []string) (target, error) {
	var t target
	for _, word := range words {
		switch {
		case looksLikeRun(word) && t.step != "":
			return t, &usageError{msg: fmt.Sprintf("run %s comes after step %s", word, t.step), hint: "runs first, then one step"}
		case looksLikeRun(word):
			run, err := parseRun(word)
			if err != nil {
				return t, err
			}
			t.runs = append(t.runs, run)
		case t.step != "":
			return t, &usageError{msg: fmt.Sprintf("%s takes one step, got %s and %s", command, t.step, word)}
		default:
			t.step, t.item, _ = strings.Cut(word, "/")
			if !stepName.MatchString(t.step) {
				return t, &usageError{
					msg:  fmt.Sprintf("%q is neither a run nor a step", word),
					hint: "a run is a number or " + latestWord + ", a step is like load, load/item, search~1 or @exit",
				}
			}
		}
	}
	if t.step != "" && len(t.runs) == 0 {
		return t, &usageError{msg: fmt.Sprintf("of which run is %s a step?", t.step), hint: "put the run before it, like `" + program + " " + command + " 41 " + t.step + "`"}
	}
	return t, nil
}

// find returns the numbers of the runs, each once.
func (t target) find(ctx context.Context, store *queue.Store) ([]queue.RunID, error) {
	var ids []queue.RunID
	seen := map[queue.RunID]bool{}
	for _, run := range t.runs {
		id, err := run.find(ctx, store)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}
