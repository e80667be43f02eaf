package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

var runStates = []string{"running", "queued", "waiting", "paused", "failed", "succeeded", "scheduled", "canceled"}

// runFilter picks runs by the flags of `oarlock list`, which are also the names of its values in a URL. The values are as the
// user typed them.
type runFilter struct {
	States, Labels                    []string
	DAG, Queue, Since, Parent, Before string
}

func filterOf(query url.Values) runFilter {
	return runFilter{
		States: given(query["state"]), Labels: given(query["label"]), DAG: query.Get("dag"), Queue: query.Get("queue"),
		Since: query.Get("since"), Parent: query.Get("parent"), Before: query.Get("before"),
	}
}

// given returns the values that are not empty.
func given(values []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
}

// parts returns the flags that have values, in the order of the command's help. A flag with several values occurs several times.
func (f *runFilter) parts() (all [][2]string) {
	add := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				all = append(all, [2]string{name, value})
			}
		}
	}
	add("state", f.States...)
	add("dag", f.DAG)
	add("queue", f.Queue)
	add("label", f.Labels...)
	add("since", f.Since)
	add("parent", f.Parent)
	add("before", f.Before)
	return all
}

// path returns the path, below the base, of the list of the runs that match.
func (f *runFilter) path() string {
	query := url.Values{}
	for _, p := range f.parts() {
		query.Add(p[0], p[1])
	}
	if len(query) == 0 {
		return "/runs"
	}
	return "/runs?" + query.Encode()
}

// command returns the command that lists the same runs in a terminal.
func (f *runFilter) command() string {
	line := "oarlock list"
	for _, p := range f.parts() {
		line += " --" + p[0] + " " + runview.ShellWord(p[1])
	}
	return line
}

// box returns the text of the filter box: KEY:VALUE for each part. It leaves out the states, which have chips of their own, and
// before, which is the place in the list.
func (f *runFilter) box() string {
	var all []string
	for _, p := range f.parts() {
		if p[0] != "state" && p[0] != "before" {
			all = append(all, p[0]+":"+quoted(runview.Printable(p[1])))
		}
	}
	return strings.Join(all, " ")
}

// query parses the filter for the store. Ages such as 2h count back from now. A wrong field is a refusal with status 400, which the
// page of runs shows.
func (f *runFilter) query(now time.Time) (q queue.Filter, err error) {
	for _, state := range f.States {
		if !slices.Contains(runStates, state) {
			return q, badFilter("a run is never %q: it is %s", state, strings.Join(runStates, ", "))
		}
	}
	q = queue.Filter{DAG: f.DAG, Queue: f.Queue, States: f.States, Labels: map[string]string{}}
	for _, label := range f.Labels {
		name, value, ok := strings.Cut(label, "=")
		if !ok || name == "" {
			return q, badFilter("a label is NAME=VALUE, not %q", label)
		}
		q.Labels[name] = value
	}
	if q.Since, err = sinceTime(f.Since, now); err == nil {
		q.Parent, err = runNumber("parent", f.Parent)
	}
	if err == nil {
		q.Before, err = runNumber("before", f.Before)
	}
	return q, err
}

// badFilter returns a refusal with status 400 and a formatted message.
func badFilter(form string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, message: fmt.Sprintf(form, args...)}
}

// sinceTime parses an age such as 2h, which counts back from now, or a time. A time without an offset is in the zone of this
// server. It returns the zero time for "".
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, ok, err := runview.ReadPast(text, now, time.Local)
	if err == nil && !ok {
		err = badFilter("since: %q is neither a duration nor a time: write 2h, 7d, 2026-11-20 or 2026-11-20T03:00:00Z", text)
	}
	return at, err
}

// runNumber parses the number of a run, as 41 or #41; 0 for "". The refusal of any other text begins with name.
func runNumber(name, text string) (queue.RunID, error) {
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
	if err != nil || id < 1 {
		return 0, badFilter("%s: a run is a number, not %q", name, text)
	}
	return queue.RunID(id), nil
}

// read parses the text of the filter box into f. A word KEY:VALUE sets a field; state and label may occur several times, and add to
// the values in f. It returns the word without a key, or "" if there is none. It refuses a second such word, and a key that does
// not exist.
func (f *runFilter) read(text string) (free string, err error) {
	single := map[string]*string{"dag": &f.DAG, "queue": &f.Queue, "since": &f.Since, "parent": &f.Parent, "before": &f.Before}
	several := map[string]*[]string{"state": &f.States, "label": &f.Labels}
	for _, word := range splitWords(text) {
		key, value, keyed := strings.Cut(word, ":")
		switch {
		case strings.HasPrefix(word, "params."):
			return "", badFilter("runs cannot be filtered by params: %q. Filter by a label: label:NAME=VALUE", word)
		case keyed && single[key] != nil:
			*single[key] = value
		case keyed && several[key] != nil:
			*several[key] = append(*several[key], value)
		case keyed:
			return "", badFilter("there is no filter %q: write dag:NAME, queue:NAME, state:STATE, label:NAME=VALUE, since:2h or parent:RUN", key)
		case free != "":
			return "", badFilter("one word without a key is a run's number or a DAG's name: %q and %q are two", free, word)
		default:
			free = word
		}
	}
	return free, nil
}

// splitWords splits text at spaces outside of double quotes. A backslash between quotes keeps the next character as it is.
func splitWords(text string) (all []string) {
	var b strings.Builder
	begun, inside, escaped := false, false, false
	for _, r := range text {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case inside && r == '\\':
			escaped = true
		case r == '"':
			begun, inside = true, !inside
		case r == ' ' && !inside:
			if begun {
				all = append(all, b.String())
			}
			b.Reset()
			begun = false
		default:
			b.WriteRune(r)
			begun = true
		}
	}
	if begun {
		all = append(all, b.String())
	}
	return all
}

// quoted returns a value as one word for splitWords: in quotes if it has a space or a double quote, else as it is.
func quoted(value string) string {
	if !strings.ContainsAny(value, ` "`) {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
