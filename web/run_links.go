package web

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// pageKind says to which page about a run an address leads.
type pageKind string

const (
	runKind  pageKind = "run"
	stepKind pageKind = "step" // the panel alone
	logKind  pageKind = "log"  // the log alone
	textKind pageKind = "text" // the log as a file
)

// address returns the path and query of a page, below the base. It leaves out defaults, so equal queries have equal addresses.
func (q runQuery) address() string {
	path := runPath(q.ID)
	v := url.Values{}
	add := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Kind == runKind {
		if q.View != views[0] {
			add("view", q.View)
		}
		add("step", q.Task.Step)
		add("zoom", q.Zoom)
		if q.Asked > 0 {
			add("asked", strconv.FormatInt(q.Asked, 10))
		}
		add("only", q.Only)
		add("find", q.Find)
		add("before", q.Before)
		v["state"] = q.States
		if q.Idle {
			add("idle", "1")
		}
		if q.After != (queue.TaskKey{}) {
			add("after", taskKeyText(q.After))
		}
	} else {
		path += "/steps/" + url.PathEscape(q.Task.Step)
	}
	switch q.Kind {
	case logKind:
		path += "/log"
	case textKind:
		path += "/log.txt"
	case runKind, stepKind:
	}
	q.Task.address(v)
	if query := v.Encode(); query != "" {
		return path + "?" + query
	}
	return path
}

// address adds the names and values for the task to the query v. It leaves out defaults.
func (q *taskQuery) address(v url.Values) {
	add := func(name, value string, usual string) {
		if value != usual {
			v.Set(name, value)
		}
	}
	add("item", q.Item, "")
	add("attempt", strconv.Itoa(q.Attempt), "0")
	if q.Tab != "" {
		add("tab", q.Tab, panelTabs[0])
	}
	add("q", q.Log.Find, "")
	add("stream", q.Log.Stream, "")
	switch line := strconv.FormatInt(q.Log.Line, 10); {
	case q.Log.To > q.Log.Line:
		add("line", line+"-"+strconv.FormatInt(q.Log.To, 10), "")
	case q.Log.Line > 0:
		add("line", line, "")
	default:
		add("from", strconv.FormatInt(q.Log.From, 10), "0")
	}
}

// The methods below return the links of a page. Each link leads to the same page, with the change that its name says.

// Steers reports whether the login is allowed to steer the run, so that the page offers it.
func (p *runPage) Steers() bool { return p.Rights.Steers(p.Run.SubmittedBy) }

// dagLink returns the path of the DAG's page. If the login is not allowed to read the DAG, it returns the path of the list of the
// DAG's runs.
func (p *runPage) dagLink() string {
	if p.dag == nil {
		return (&runFilter{DAG: p.Run.DAG}).path()
	}
	return dagPath(p.Run.DAG)
}

// VersionLink links to the run's version of its DAG; "" if the login is not allowed to read it.
func (p *runPage) VersionLink() string {
	if p.dag == nil {
		return ""
	}
	return versionPath(p.Run.DAG, p.Run.Version)
}

// SteerLink links to the page with the form for a verb.
func (p *runPage) SteerLink(verb string) string { return runPath(p.Query.ID) + "/" + verb }

// AskedText returns the outcome of p.Asked, which must not be nil, as a sentence.
func (p *runPage) AskedText() string { return askedText(p.Asked, &p.Run.Run) }

func askedText(c *queue.Control, run *queue.Run) string {
	what := fmt.Sprintf("run %d", c.Run)
	if c.Step != "" {
		what = runview.TaskName(c.Step, c.Item)
	}
	if waits := runview.CancelWaits(c, run); waits != "" {
		return what + ": " + waits
	}
	word, rest := runview.Outcome(c)
	return fmt.Sprintf("%s: %s %s%s", what, c.Verb, word, rest)
}

// ViewLink links to another view of the run, without filters of the present view. The panel stays as it is.
func (p *runPage) ViewLink(view string) string {
	q := p.Query
	q.View, q.States, q.Only, q.Find, q.After, q.Before, q.Zoom, q.Idle = view, nil, "", "", queue.TaskKey{}, "", "", false
	return q.address()
}

// TaskLink links to the run's page with a task in the panel.
func (p *runPage) TaskLink(t taskQuery) string {
	q := p.Query
	q.Kind, q.Task = runKind, taskQuery{Step: t.Step, Item: t.Item}
	return q.address()
}

// ItemsOf links to the run's page with a foreach step in the panel, which lists its items.
func (p *runPage) ItemsOf(step string) string { return p.TaskLink(taskQuery{Step: step}) }

// TabLink links to another tab of the panel.
func (p *runPage) TabLink(name string) string {
	q := p.Query
	q.Task.Tab, q.Task.Log = name, logQuery{}
	return q.address()
}

// AttemptLink links to another attempt of the task in the panel.
func (p *runPage) AttemptLink(n int) string {
	q := p.Query
	q.Task.Attempt, q.Task.Log = n, logQuery{Stream: q.Task.Log.Stream}
	return q.address()
}

// StreamLink links to the log of one stream; of both if stream is "".
func (p *runPage) StreamLink(stream string) string {
	q := p.Query
	q.Task.Log.Stream = stream
	return q.address()
}

// FromLink links to the log from a line on; to its end if line is 0.
func (p *runPage) FromLink(line int64) string {
	q := p.Query
	q.Task.Log.From, q.Task.Log.Line, q.Task.Log.To = line, 0, 0
	return q.address()
}

// LineLink links to the log around a line, with the line marked.
func (p *runPage) LineLink(line int64) string {
	q := p.Query
	q.Task.Attempt = p.Panel.Attempt
	q.Task.Log = logQuery{Line: line, To: line, Stream: q.Task.Log.Stream}
	return q.address()
}

// LogLink links to the log on a page of its own.
func (p *runPage) LogLink() string {
	q := p.Query
	q.Kind = logKind
	return q.address()
}

// TextLink links to the log as a file.
func (p *runPage) TextLink() string {
	q := runQuery{Kind: textKind, ID: p.Query.ID, Task: taskQuery{Step: p.Query.Task.Step, Item: p.Query.Task.Item, Attempt: p.Panel.Attempt}}
	q.Task.Log.Stream = p.Query.Task.Log.Stream
	return q.address()
}

// StateLink links to the list of tasks with a state added to its filter, or removed if the filter has it.
func (p *runPage) StateLink(state string) string {
	q := p.Query
	q.View, q.After = "tasks", queue.TaskKey{}
	if slices.Contains(q.States, state) {
		q.States = slices.DeleteFunc(slices.Clone(q.States), func(s string) bool { return s == state })
	} else {
		q.States = append(slices.Clone(q.States), state)
	}
	return q.address()
}

// AfterLink links to the next window of the list of tasks. key is the Next of the present window.
func (p *runPage) AfterLink(key string) string {
	q := p.Query
	q.After, _ = parseTaskKey(key) // the key comes from taskKeyText
	return q.address()
}

// OnlyLink links to the list of the tasks of one step.
func (p *runPage) OnlyLink(step string) string {
	q := p.Query
	q.View, q.Only, q.After = "tasks", step, queue.TaskKey{}
	return q.address()
}

// BeforeLink links to the next page of events, which are older. event is the Before of the present page.
func (p *runPage) BeforeLink(event string) string {
	q := p.Query
	q.Before = event
	return q.address()
}

// ZoomLink links to the timeline of one step's time; of the whole run if step is "".
func (p *runPage) ZoomLink(step string) string {
	q := p.Query
	q.Zoom = step
	return q.address()
}

// IdleLink links to the timeline with idle stretches at full length, or shortened again.
func (p *runPage) IdleLink() string {
	q := p.Query
	q.Idle = !q.Idle
	return q.address()
}

// ItemsLink links to the list of tasks, with the items of the panel's step that are in one state.
func (p *runPage) ItemsLink(state string) string {
	q := p.Query
	q.Kind, q.View, q.Only, q.States, q.After = runKind, "tasks", q.Task.Step, []string{state}, queue.TaskKey{}
	return q.address()
}

// AllLink links to the end of the log without a search.
func (p *runPage) AllLink() string {
	q := p.Query
	q.Task.Log = logQuery{Stream: q.Task.Log.Stream, Whole: q.Task.Log.Whole}
	return q.address()
}

// FindOnLink links to the same search, begun at a line.
func (p *runPage) FindOnLink(line int64) string {
	q := p.Query
	q.Task.Log.From, q.Task.Log.Line, q.Task.Log.To = line, 0, 0
	return q.address()
}

// field is a hidden field of a form.
type field struct{ Name, Value string }

// LogForm returns the path to which the search form is sent.
func (p *runPage) LogForm() string {
	path, _, _ := strings.Cut(p.AllLink(), "?")
	return path
}

// LogFields returns the hidden fields of the search form. With them the form searches the log that the page shows.
func (p *runPage) LogFields() (fields []field) {
	_, query, _ := strings.Cut(p.AllLink(), "?")
	values, _ := url.ParseQuery(query) // AllLink has encoded it
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[name] {
			fields = append(fields, field{name, v})
		}
	}
	return fields
}

// lineAt is a line of a log, with the link to the page that marks the line.
type lineAt struct {
	Line logLine
	Link string
}

// LogLine returns a line together with the link that marks it.
func (p *runPage) LogLine(l logLine) lineAt { return lineAt{l, p.LineLink(l.Number)} }

// LogRange returns which lines of the log the page shows, in words; "" if it shows none.
func (p *runPage) LogRange() string {
	log := p.Panel.Log
	if len(log.Lines) == 0 {
		return ""
	}
	return fmt.Sprintf("lines %s–%s of %s", num(log.First), num(log.Last), num(log.Total))
}
