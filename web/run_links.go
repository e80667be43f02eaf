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

// pageKind is which page of a run an address leads to.
type pageKind string

const (
	runKind  pageKind = "run"
	stepKind pageKind = "step" // the panel alone
	logKind  pageKind = "log"  // the log alone
	textKind pageKind = "text" // the log as a file
)

// address is the path and query of a page, below the base, in one form only.
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

// The methods below are the links of a page. Each leads to the same page, but for what it names.

// Steers reports whether the page offers to steer the run.
func (p *runPage) Steers() bool { return p.Rights.Steers(p.Run.SubmittedBy) }

// dagLink is the page of the run's DAG, or its runs where the login may not read DAGs.
func (p *runPage) dagLink() string {
	if p.dag == nil {
		return (&runFilter{DAG: p.Run.DAG}).path()
	}
	return dagPath(p.Run.DAG)
}

// VersionLink is what the run's version of its DAG says; "" where the login may not read it.
func (p *runPage) VersionLink() string {
	if p.dag == nil {
		return ""
	}
	return versionPath(p.Run.DAG, p.Run.Version)
}

// SteerLink is the page that asks the run for something.
func (p *runPage) SteerLink(verb string) string { return runPath(p.Query.ID) + "/" + verb }

// AskedText says what became of what somebody asked.
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

// ViewLink is another view of the run. The panel stays as it is.
func (p *runPage) ViewLink(view string) string {
	q := p.Query
	q.View, q.States, q.Only, q.Find, q.After, q.Before, q.Zoom, q.Idle = view, nil, "", "", queue.TaskKey{}, "", "", false
	return q.address()
}

// TaskLink is the run's page with a task in its panel.
func (p *runPage) TaskLink(t taskQuery) string {
	q := p.Query
	q.Kind, q.Task = runKind, taskQuery{Step: t.Step, Item: t.Item}
	return q.address()
}

// ItemsOf is the run's page with a foreach step in its panel: the list of its items.
func (p *runPage) ItemsOf(step string) string { return p.TaskLink(taskQuery{Step: step}) }

// TabLink is another tab of the panel.
func (p *runPage) TabLink(name string) string {
	q := p.Query
	q.Task.Tab, q.Task.Log = name, logQuery{}
	return q.address()
}

// AttemptLink is another attempt of the task in the panel.
func (p *runPage) AttemptLink(n int) string {
	q := p.Query
	q.Task.Attempt, q.Task.Log = n, logQuery{Stream: q.Task.Log.Stream}
	return q.address()
}

// StreamLink is the log of one stream; "" both.
func (p *runPage) StreamLink(stream string) string {
	q := p.Query
	q.Task.Log.Stream = stream
	return q.address()
}

// FromLink is the log from a line on; 0 its end.
func (p *runPage) FromLink(line int64) string {
	q := p.Query
	q.Task.Log.From, q.Task.Log.Line, q.Task.Log.To = line, 0, 0
	return q.address()
}

// LineLink is the log around a line, which is marked.
func (p *runPage) LineLink(line int64) string {
	q := p.Query
	q.Task.Attempt = p.Panel.Attempt
	q.Task.Log = logQuery{Line: line, To: line, Stream: q.Task.Log.Stream}
	return q.address()
}

// LogLink is the log as a page of its own.
func (p *runPage) LogLink() string {
	q := p.Query
	q.Kind = logKind
	return q.address()
}

// TextLink is the log as a file.
func (p *runPage) TextLink() string {
	q := runQuery{Kind: textKind, ID: p.Query.ID, Task: taskQuery{Step: p.Query.Task.Step, Item: p.Query.Task.Item, Attempt: p.Panel.Attempt}}
	q.Task.Log.Stream = p.Query.Task.Log.Stream
	return q.address()
}

// StateLink adds a state to those that the list of tasks shows, or takes it out.
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

// AfterLink is the next window of the list of tasks.
func (p *runPage) AfterLink(key string) string {
	q := p.Query
	q.After, _ = parseTaskKey(key) // we made it
	return q.address()
}

// OnlyLink is the list of tasks of one step.
func (p *runPage) OnlyLink(step string) string {
	q := p.Query
	q.View, q.Only, q.After = "tasks", step, queue.TaskKey{}
	return q.address()
}

// BeforeLink is the story before an event.
func (p *runPage) BeforeLink(event string) string {
	q := p.Query
	q.Before = event
	return q.address()
}

// ZoomLink is the timeline of the time that one step took; "" all of it.
func (p *runPage) ZoomLink(step string) string {
	q := p.Query
	q.Zoom = step
	return q.address()
}

// IdleLink draws stretches without anything as long as they were, or short again.
func (p *runPage) IdleLink() string {
	q := p.Query
	q.Idle = !q.Idle
	return q.address()
}

// ItemsLink is the list of the items of the step in the panel, in one state.
func (p *runPage) ItemsLink(state string) string {
	q := p.Query
	q.Kind, q.View, q.Only, q.States, q.After = runKind, "tasks", q.Task.Step, []string{state}, queue.TaskKey{}
	return q.address()
}

// AllLink is the log without a search.
func (p *runPage) AllLink() string {
	q := p.Query
	q.Task.Log = logQuery{Stream: q.Task.Log.Stream, Whole: q.Task.Log.Whole}
	return q.address()
}

// FindOnLink goes on with a search from a line.
func (p *runPage) FindOnLink(line int64) string {
	q := p.Query
	q.Task.Log.From, q.Task.Log.Line, q.Task.Log.To = line, 0, 0
	return q.address()
}

// field is a value that a form sends on.
type field struct{ Name, Value string }

// LogForm and LogFields send a search to the same page.
func (p *runPage) LogForm() string {
	path, _, _ := strings.Cut(p.AllLink(), "?")
	return path
}

func (p *runPage) LogFields() (fields []field) {
	_, query, _ := strings.Cut(p.AllLink(), "?")
	values, _ := url.ParseQuery(query) // we made it
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[name] {
			fields = append(fields, field{name, v})
		}
	}
	return fields
}

// lineAt is a line of a log with the address at which it is marked.
type lineAt struct {
	Line logLine
	Link string
}

// LogLine gives a line its address.
func (p *runPage) LogLine(l logLine) lineAt { return lineAt{l, p.LineLink(l.Number)} }

// LogRange says which part of the log is there.
func (p *runPage) LogRange() string {
	log := p.Panel.Log
	if len(log.Lines) == 0 {
		return ""
	}
	return fmt.Sprintf("lines %s–%s of %s", num(log.First), num(log.Last), num(log.Total))
}
