package web

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/draw"
)

const (
	maxRows    = 200  // stretches of time in the band of a foreach step
	maxBuckets = 60   // of the band of a foreach step
	maxBars    = 1500 // of all bands together
)

// timeline shows where the time of a run went, with one row for each step.
type timeline struct {
	Head, Grid template.HTML
	Rows       []timeRow
	Hidden     int // number of steps without a row
	Shortened  bool
	Lost       bool
	Zoom       string
}

type timeRow struct {
	Task     taskQuery
	State    string
	Aside    string // text after the name: 18/24, attempt 3, handler
	Bars     template.HTML
	Took     string
	Since    time.Time // start of the step, for the running time
	Running  bool
	Selected bool
}

func (s *server) readTimeline(ctx context.Context, p *runPage) (*timeline, error) {
	all := p.span()
	shown := p.urgent()
	bands, err := s.readBands(ctx, p, shown)
	if err != nil {
		return nil, err
	}
	var busy []draw.Interval
	rows := make([]draw.Row, len(shown))
	for i, t := range shown {
		rows[i] = p.row(t, bands[t.Step])
		if t.State != "waiting" {
			for _, b := range rows[i].Bars {
				busy = append(busy, b.Interval)
			}
		}
	}
	if p.Query.Idle {
		busy = nil
	}
	view := &timeline{Hidden: len(p.steps) - len(shown), Lost: len(p.Run.Drives) > 0}
	if i := slices.IndexFunc(shown, func(t *queue.StepSummary) bool { return t.Step == p.Query.Zoom }); i >= 0 && !shown[i].StartedAt.IsZero() {
		view.Zoom = shown[i].Step
		all, busy = zoomed(all, rows[i]), nil
	}
	axis := draw.NewAxis(all, busy)
	marks := make([]draw.Mark, len(p.Run.Drives))
	for i, d := range p.Run.Drives {
		marks[i] = draw.Mark{At: d.At, Label: runview.Printable(d.Worker) + " lost"}
	}
	view.Head, view.Grid, view.Shortened = axis.Head(tickLabel, marks), axis.Grid(marks), axis.IsShortened()
	for i, t := range shown {
		view.Rows = append(view.Rows, timeRow{
			Task: taskQuery{Step: t.Step, Item: t.Failed}, State: t.State, Aside: aside(t), Bars: axis.Row(rows[i]), Took: runview.TaskTime(&t.Task, p.Now),
			Since: t.StartedAt, Running: !t.StartedAt.IsZero() && t.FinishedAt.IsZero(), Selected: t.Step == p.Query.Task.Step,
		})
	}
	return view, nil
}

// readBands reads how many items of each foreach step in shown were in which state over time, by the name of the step. Each band
// reaches from the step's first item to the end of its last, so a step that took one second of an hour has as many bars as a step
// that took all of it. It returns nil if no item has begun.
func (s *server) readBands(ctx context.Context, p *runPage, shown []*queue.StepSummary) (map[string][]queue.Band, error) {
	var spans []queue.BandSpan
	for _, t := range shown {
		if t.Items == 0 || t.First.IsZero() {
			continue
		}
		span := queue.BandSpan{Step: t.Step, From: t.First, To: t.Last}
		if span.To.IsZero() { // items are running, or never began
			span.To = p.endOf(t)
		}
		if least := span.From.Add(time.Millisecond); span.To.Before(least) {
			span.To = least
		}
		spans = append(spans, span)
	}
	if len(spans) == 0 {
		return nil, nil //nolint:nilnil // no item has begun
	}
	return s.store.Bands(ctx, p.Query.ID, spans, min(maxBuckets, max(maxBars/len(bandClasses)/len(spans), 2)))
}

// endOf returns when a step ended. If it has not, it returns when the run ended, or else now.
func (p *runPage) endOf(t *queue.StepSummary) time.Time {
	if t.FinishedAt.IsZero() {
		return p.span().To
	}
	return t.FinishedAt
}

func tickLabel(after time.Duration) string {
	if after == 0 {
		return "0"
	}
	if after >= 10*time.Second && after < time.Minute || after >= time.Second && after%time.Second == 0 && after < time.Minute {
		return fmt.Sprintf("%ds", after/time.Second)
	}
	return runview.Span(after)
}

// span returns the time that the timeline shows: from the creation of the run, or from its run_at if that is later, to its end, or
// until now.
func (p *runPage) span() draw.Interval {
	i := draw.Interval{From: p.Run.CreatedAt, To: p.Now}
	if p.Run.RunAt.After(i.From) {
		i.From = p.Run.RunAt
	}
	if p.Run.Over() {
		i.To = p.Run.FinishedAt
	}
	if begun := p.Run.StartedAt; !begun.IsZero() && begun.Before(i.From) { // clocks of two machines differ
		i.From = begun
	}
	if i.To.Before(i.From) {
		i.From = i.To
	}
	return i
}

// zoomed returns the time from the first bar of row to the end of its last, and a tenth more on both sides. It returns all if row
// has no bars.
func zoomed(all draw.Interval, row draw.Row) draw.Interval {
	if len(row.Bars) == 0 {
		return all
	}
	i := row.Bars[0].Interval
	for _, b := range row.Bars {
		if b.From.Before(i.From) {
			i.From = b.From
		}
		if b.To.After(i.To) {
			i.To = b.To
		}
	}
	around := max(i.To.Sub(i.From)/10, 10*time.Millisecond)
	return draw.Interval{From: i.From.Add(-around), To: i.To.Add(around)}
}

// urgent returns the steps that get rows, in the order of the graph. If there are more than maxRows, these are the ones in the most
// urgent states.
func (p *runPage) urgent() []*queue.StepSummary {
	all := make([]*queue.StepSummary, len(p.steps))
	for i := range p.steps {
		all[i] = &p.steps[i]
	}
	if len(all) <= maxRows {
		return all
	}
	place := map[*queue.StepSummary]int{}
	for i, t := range all {
		place[t] = i
	}
	slices.SortStableFunc(all, func(a, b *queue.StepSummary) int { return graphview.Urgency(a.State) - graphview.Urgency(b.State) })
	all = all[:maxRows]
	slices.SortFunc(all, func(a, b *queue.StepSummary) int { return place[a] - place[b] })
	return all
}

// aside returns the note after the name of a step, the first of these that applies: ended items of all items, as "3/8"; "attempt 2"
// from the second attempt on; "approval", "handler" or "replacement". It returns "" if none applies.
func aside(t *queue.StepSummary) string {
	switch {
	case t.Items > 0:
		return fmt.Sprintf("%d/%d", doneItems(t), t.Items)
	case t.Attempt > 1:
		return fmt.Sprintf("attempt %d", t.Attempt)
	case t.Approval != nil:
		return "approval"
	case t.Kind == "handler" || t.Kind == "replacement":
		return t.Kind
	}
	return ""
}

// doneItems returns the number of items of a foreach step that have ended.
func doneItems(t *queue.StepSummary) (n int) {
	for state, count := range t.States {
		switch state {
		case "succeeded", "failed", "skipped", "upstream_failed", "canceled", "replaced":
			n += count
		}
	}
	return n
}

// row returns the row of a step: bandRow if there are bands, else one bar for each attempt with the gaps between. A step that has
// not started has only a note.
func (p *runPage) row(t *queue.StepSummary, bands []queue.Band) draw.Row {
	if t.StartedAt.IsZero() {
		note := runview.Printable(t.Reason)
		if note == "" && t.State != "pending" {
			note = t.State
		}
		return draw.Row{Note: note}
	}
	if len(bands) > 0 {
		return bandRow(t, bands)
	}
	var r draw.Row
	for i := range t.Tries {
		a := &t.Tries[i]
		r.Bars = append(r.Bars, draw.Bar{
			Interval: draw.Interval{From: a.StartedAt, To: a.FinishedAt}, Class: barClass(a.State) + " b-old",
			Title: fmt.Sprintf("attempt %d %s after %s", a.Attempt, a.State, runview.Span(a.FinishedAt.Sub(a.StartedAt))),
		})
	}
	from, to := t.StartedAt, t.FinishedAt
	if n := len(r.Bars); n > 0 {
		from = r.Bars[n-1].To
		if t.AttemptAt.After(from) { // otherwise the next attempt has not begun yet
			from = t.AttemptAt
		}
	}
	if to.IsZero() {
		to = p.Now
	}
	for i := range r.Bars {
		next := from
		if i+1 < len(r.Bars) {
			next = r.Bars[i+1].From
		}
		r.Gaps = append(r.Gaps, draw.Interval{From: r.Bars[i].To, To: next})
	}
	r.Bars = append(r.Bars, draw.Bar{Interval: draw.Interval{From: from, To: to}, Class: barClass(t.State), Title: t.State + " " + runview.TaskTime(&t.Task, p.Now)})
	if note := runview.Printable(t.Reason); note != "ran" {
		r.Note = note
	}
	return r
}

var bandClasses = []string{"b-good", "b-faint", "b-bad", "b-wait", "b-active"} // classes of the parts of a bar, from the top

// bandRow returns the bars of a foreach step. In each stretch of time, bars of different classes lie one below the other, and each
// is as high as the share of items in its states. A share that stays the same is one long bar.
func bandRow(t *queue.StepSummary, bands []queue.Band) draw.Row {
	r := draw.Row{In: aside(t)}
	last := map[string]int{} // index of the newest bar, by class
	for _, b := range bands {
		if b.From.Before(t.First) {
			b.From = t.First
		}
		if !t.Last.IsZero() && b.To.After(t.Last) {
			b.To = t.Last
		}
		if !b.From.Before(b.To) {
			continue
		}
		at, total := 0.0, 0
		for _, n := range b.States {
			total += n
		}
		for _, class := range bandClasses {
			n := 0
			for state, count := range b.States {
				if barClass(state) == class {
					n += count
				}
			}
			if n == 0 {
				continue
			}
			to := at + float64(n)/float64(total)
			if k, ok := last[class]; ok && r.Bars[k].Low == at && r.Bars[k].High == to && r.Bars[k].To.Equal(b.From) {
				r.Bars[k].To = b.To // the share has not changed, so the bar grows
			} else {
				last[class] = len(r.Bars)
				r.Bars = append(r.Bars, draw.Bar{Interval: draw.Interval{From: b.From, To: b.To}, Class: class, Low: at, High: to})
			}
			at = to
		}
	}
	return r
}

// barClass returns the CSS class of a state's colour.
func barClass(state string) string {
	switch state {
	case "succeeded":
		return "b-good"
	case "failed", "upstream_failed", "lost":
		return "b-bad"
	case "running", "finishing", "retrying":
		return "b-active"
	case "waiting", "paused":
		return "b-wait"
	}
	return "b-faint"
}
