package runview

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// RunDetail is the input of Facts. All fields but Run may be missing.
type RunDetail struct {
	Run      *queue.Run
	Spec     *dagspec.Spec   // of the run's version; nil: unknown, so the defaults of params are left out
	Schedule *queue.Schedule // schedule that made the run; nil: no schedule made it, it is gone, or the user may not see it
	Driver   string          // driver of the run, from DriverOf
	Lost     []LostDriver    // oldest first
}

// LostDriver is a worker that was lost while it drove the run.
type LostDriver struct {
	Worker string // "": not known
	At     time.Time
}

// LostDrivers returns the workers that were lost while they drove the run, by the events of the run's own log, in their order.
func LostDrivers(events []queue.Event) []LostDriver {
	var lost []LostDriver
	for i := range events {
		if e := &events[i]; e.Kind == "lost" && e.Step == "" {
			lost = append(lost, LostDriver{Worker: e.Worker, At: e.At})
		}
	}
	return lost
}

// Fact is one thing to know about a run.
type Fact struct {
	Name  string
	Value Text
	Aside string // less important text after the value; "" for most facts
}

// Text is a line in pieces, so that a page can show the times in it in the reader's time zone.
type Text []Piece

// Piece is a part of a line.
type Piece struct {
	Words string    // for a time, as LocalTime or a shorter form of it
	Time  time.Time // zero: the piece is no time
}

// String returns the line in one piece.
func (t Text) String() string {
	var b strings.Builder
	for _, piece := range t {
		b.WriteString(piece.Words)
	}
	return b.String()
}

func words(text string) Piece { return Piece{Words: text} }

func moment(t time.Time) Piece { return Piece{Words: LocalTime(t), Time: t} }

// Facts returns the facts about a run, always in the same order. It leaves out facts that are unknown or have their usual value.
func Facts(d RunDetail) (facts []Fact) {
	r := d.Run
	add := func(name string, value ...Piece) {
		if text := Text(value); text.String() != "" {
			facts = append(facts, Fact{Name: name, Value: text})
		}
	}
	if given, byDefault := Params(r, d.Spec); byDefault != "" {
		facts = append(facts, Fact{Name: "params", Value: Text{words(given)}, Aside: "by default " + byDefault})
	} else {
		add("params", words(given))
	}
	labels := maps.Clone(r.Labels)
	if IsHere(r) {
		delete(labels, HereLabel)
	}
	add("labels", words(LabelText(labels)))
	add("key", words(InlineText(r.Key)))
	asked := " by " + InlineText(r.AskedBy())
	if r.Trigger != "sql" && r.Trigger != "" {
		asked += ", " + r.Trigger
	}
	add("asked", moment(r.CreatedAt), words(asked))
	add("schedule", scheduleText(r, d.Schedule)...)
	add("queue", words(queueText(r)))
	add("started", startedText(r)...)
	add("driven", drivenText(&d)...)
	if r.Generation > 1 {
		add("generation", words(fmt.Sprintf("%d: the run was retried", r.Generation)))
	}
	if r.Parent != 0 {
		add("parent", words(fmt.Sprintf("run %d", r.Parent)))
	}
	if r.RetryOf != 0 {
		add("retry of", words(fmt.Sprintf("run %d", r.RetryOf)))
	}
	return facts
}

// Params returns two texts of the form a=1 b=2: the params that a run was given, and the defaults of the others. Without a spec the
// second is "".
func Params(r *queue.Run, spec *dagspec.Spec) (given, byDefault string) {
	given = ParamText(r.Params)
	var values map[string]json.RawMessage
	if spec == nil || json.Unmarshal(r.Params, &values) != nil {
		return given, ""
	}
	defaults := map[string]any{}
	for i := range spec.ParamDefs {
		def := &spec.ParamDefs[i]
		if _, ok := values[def.Name]; !ok && def.Default != nil {
			defaults[def.Name] = def.Default
		}
	}
	return given, ParamText(json.RawMessage(CompactJSON(defaults)))
}

// queueText returns the queue of a run, with a priority other than 0. It returns "" for the queue default with priority 0.
func queueText(r *queue.Run) string {
	switch {
	case r.Priority != 0:
		return Printable(fmt.Sprintf("%s, priority %d", r.Queue, r.Priority))
	case r.Queue != "default":
		return Printable(r.Queue)
	}
	return ""
}

// scheduleText returns the schedule that made a run, and the time that the run is for, such as "nightly, for 2026-11-20 03:30
// Europe/Paris, late by 2.0s". It returns nil if no schedule made the run. It gives the time in the schedule's zone, which is the
// zone that its owner thinks in. If s is nil, the zone is unknown, and the time is a piece of its own.
func scheduleText(r *queue.Run, s *queue.Schedule) Text {
	if r.Schedule == "" {
		return nil
	}
	text := InlineText(r.Schedule) + ", for "
	if s == nil {
		return Text{words(text), moment(r.LogicalAt)}
	}
	text += WallTime(r.LogicalAt, s.Timezone) + " " + s.Timezone
	due := r.LogicalAt.Add(s.Jitter.Std()) // latest time, jitter included
	if late := r.CreatedAt.Sub(due); late >= time.Second && r.Trigger == "schedule" {
		text += ", late by " + Span(late)
	}
	return Text{words(text)}
}

func startedText(r *queue.Run) Text {
	if r.StartedAt.IsZero() {
		return nil
	}
	text := Text{moment(r.StartedAt)}
	if waited, known := runWait(r); known && waited >= time.Second {
		text = append(text, words(" after "+Span(waited)+" in the queue"))
	}
	if r.Over() {
		text = append(text, words(", ended "), moment(r.FinishedAt))
	}
	return text
}

// runWait returns how long a run waited for a worker, from the time when it could begin. known is false for a run that has not
// begun, and for one that was retried.
func runWait(r *queue.Run) (waited time.Duration, known bool) {
	ready := r.CreatedAt
	if r.RunAt.After(ready) {
		ready = r.RunAt
	}
	return max(r.StartedAt.Sub(ready), 0), !r.StartedAt.IsZero() && r.Generation <= 1
}

// drivenText returns the worker that drives a run or drove it last, the number of drives if there were several, and the workers
// that were lost while they drove it.
func drivenText(d *RunDetail) Text {
	var text Text
	add := func(pieces ...Piece) {
		if len(text) > 0 {
			text = append(text, words(", "))
		}
		text = append(text, pieces...)
	}
	if d.Driver != "" {
		add(words("by " + InlineText(d.Driver)))
	}
	if d.Run.Epoch > 1 {
		add(words(fmt.Sprintf("drive %d (workers took the run up again %s)", d.Run.Epoch, times(d.Run.Epoch-1))))
	}
	for _, l := range d.Lost {
		name := "(unknown)"
		if l.Worker != "" {
			name = InlineText(l.Worker)
		}
		add(words("worker "+name+" was lost at "), Piece{Words: l.At.Local().Format(time.TimeOnly), Time: l.At})
	}
	return text
}

// The commands run and exec give their runs this label, and require it of a worker. No worker has the label: the command
// passes the ID of its run to the worker that it starts, and that worker needs no label.
const (
	HereLabel = "oarlock"
	HereValue = "here"
)

// IsHere reports whether the command run or exec made a run. The worker of such a run ends with the command.
func IsHere(r *queue.Run) bool { return r.Labels[HereLabel] == HereValue }

// Took returns how long a run took, or has taken so far. It returns "" for a run that has not begun.
func Took(r *queue.Run, now time.Time) string { return elapsed(r.StartedAt, r.FinishedAt, now) }

// RunNote returns one line about a run in a list: its reason, or else how many failures it tolerated. It returns "" if there is
// neither.
func RunNote(r *queue.Run) string {
	note := InlineText(RunReason(r, nil))
	if note == "" && r.Tolerated > 0 {
		note = Count(r.Tolerated, "failure") + " tolerated"
	}
	return note
}

// RunReason returns the reason of a run. It replaces only the reason queue_timeout, by a sentence with the duration from spec. A
// nil spec means that the DAG is not known; then the sentence names no duration.
func RunReason(r *queue.Run, spec *dagspec.Spec) string {
	switch {
	case r.Reason != "queue_timeout":
		return r.Reason
	case spec == nil || spec.QueueTimeout == 0:
		return "no worker started the run within its queue_timeout"
	}
	return fmt.Sprintf("no worker started the run within %s (queue_timeout)", spec.QueueTimeout)
}

// DriverOf returns the name of the worker that drives a run. If none does, it returns the worker of the task that ended last, and
// "" if tasks name none.
func DriverOf(r *queue.Run, tasks []queue.Task) string {
	if r.Worker != "" {
		return r.Worker
	}
	last := queue.Task{}
	for i := range tasks {
		if t := &tasks[i]; t.Worker != "" && !t.FinishedAt.Before(last.FinishedAt) {
			last = *t
		}
	}
	return last.Worker
}
