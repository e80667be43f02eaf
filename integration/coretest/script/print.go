package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// print shows what is ready: first the records, then the actions.
func (s *session) print(committed bool) {
	ready, ok := s.run.Ready()
	if !ok {
		s.printWake(ready.WakeAt)
		return
	}
	if !committed {
		s.printf("not stored yet:")
	}
	s.printRecords(&ready.Records)
	for _, a := range ready.Actions {
		s.printf("-> %s", s.action(a))
	}
	for _, w := range ready.Wants {
		s.printf("-> want %s", s.want(w))
	}
	for _, id := range ready.Drops {
		s.printf("-> no longer wanted: %s", s.graph.TaskName(id))
	}
	if l := ready.Leave; l != nil {
		s.printLeave(l)
	}
	if v := ready.Result; v != nil {
		s.printf("over: %s", join(v.State.String(), quote(v.Reason), times(v.Tolerated, "tolerated")))
	}
	s.printWake(ready.WakeAt)
}

func (s *session) printRecords(rs *dagrun.Records) {
	for _, a := range rs.Attempts {
		s.printf("attempt #%d of %s: %s", a.Attempt, s.graph.TaskName(a.ID),
			join(a.State.String(), string(a.Kind), quote(a.Reason)))
	}
	for i := range rs.Tasks {
		s.printf("%s: %s", s.graph.TaskName(rs.Tasks[i].ID), s.record(&rs.Tasks[i]))
	}
	for _, d := range rs.Controls {
		s.printf("control %d: %s", d.ID, join(string(d.Outcome), "("+d.State+")", quote(d.Message)))
	}
	for _, n := range rs.Notes {
		name := ""
		if n.Task != nil {
			name = s.graph.TaskName(*n.Task)
		}
		s.printf("note: %s", join(n.Kind, name, quote(n.Text)))
	}
	if r := rs.Run; r != nil {
		s.printf("run: %s", s.runRecord(r))
	}
}

func (s *session) record(t *dagrun.TaskRecord) string {
	attempt := ""
	if t.Attempt > 0 {
		attempt = fmt.Sprintf("#%d", t.Attempt)
	}
	parts := []string{t.State.String(), attempt}
	if t.Kind != "" && string(t.Kind) != "exit" {
		parts = append(parts, string(t.Kind)+":")
	}
	if t.Tolerated {
		parts = append(parts, "tolerated")
	}
	if t.Request != dagrun.RequestNone {
		parts = append(parts, t.Request.String()+" requested")
	}
	parts = append(parts, quote(t.Reason), string(t.Outputs))
	if t.NextAt != 0 {
		parts = append(parts, "until "+s.at(t.NextAt))
	}
	if t.Deadline != 0 {
		parts = append(parts, "deadline "+s.at(t.Deadline))
	}
	if t.CacheKey != "" && t.State == dagrun.TaskSucceeded {
		parts = append(parts, "to the cache as "+t.CacheKey)
	}
	if t.Growth != nil {
		parts = append(parts, growth(t.Growth))
	}
	return join(append(parts, asks(t.Asks))...)
}

// asks spells the question of an approval.
func asks(a *dagrun.Asks) string {
	switch {
	case a == nil:
		return ""
	case !a.Open:
		return "asks nothing"
	}
	parts := []string{"asks", quote(a.Prompt)}
	if a.Inputs != "" {
		parts = append(parts, "for "+string(a.Inputs))
	}
	if len(a.Approvers) > 0 {
		parts = append(parts, "of "+strings.Join(a.Approvers, "+"))
	}
	return join(parts...)
}

func growth(g *dagrun.Growth) string {
	if g.Count > 0 {
		by := fmt.Sprintf("by %d from ~%d", g.Count, g.FirstAlt)
		for _, c := range g.Choices {
			by += join(" with", strconv.Itoa(c.With), string(c.Value))
		}
		return by
	}
	var keys []string
	for _, it := range g.Items {
		keys = append(keys, it.Key)
	}
	return "items [" + strings.Join(keys, " ") + "]"
}

func (s *session) runRecord(r *dagrun.RunRecord) string {
	parts := []string{r.State.String(), quote(r.Reason)}
	if r.Ending != dagrun.EndingNone {
		parts = append(parts, "ending by "+r.Ending.String())
	}
	if r.Deadline != 0 {
		parts = append(parts, "deadline "+s.at(r.Deadline))
	}
	if r.Left != 0 {
		parts = append(parts, "left "+span(r.Left))
	}
	if r.Generation > 1 {
		parts = append(parts, fmt.Sprintf("generation %d", r.Generation))
	}
	return join(parts...)
}

func (s *session) action(a dagrun.Action) string {
	parts := []string{strings.ReplaceAll(a.Kind.String(), "_", " "), s.graph.TaskName(a.Task)}
	if a.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("#%d", a.Attempt))
	}
	if a.Publish {
		parts = append(parts, "publish")
	}
	if a.Kind == dagrun.ActKill {
		parts = append(parts, "("+a.Cause.String()+")")
	}
	if a.Now {
		parts = append(parts, "now")
	}
	return join(append(parts, a.Ref, a.Key)...)
}

func (s *session) want(w dagrun.Want) string {
	parts := []string{s.graph.TaskName(w.Task)}
	if w.Publish {
		parts = append(parts, "publish")
	}
	if w.Slots > 1 {
		parts = append(parts, fmt.Sprintf("slots %d", w.Slots))
	}
	if len(w.Pools) > 0 {
		parts = append(parts, dagrun.PoolNames(w.Pools))
	}
	if w.Priority != 0 {
		parts = append(parts, fmt.Sprintf("priority %d", w.Priority))
	}
	return join(parts...)
}

func (s *session) printLeave(l *dagrun.Leave) {
	switch {
	case l.Drained:
		s.printf("leave: released")
	case l.WakeAt == 0:
		s.printf("leave: parked")
	default:
		s.printf("leave: parked until %s", s.at(l.WakeAt))
	}
}

// printWake prints when the next tick is due, once per change.
func (s *session) printWake(at dagrun.Time) {
	if at == s.shownWake || s.run.Over() {
		return
	}
	s.shownWake = at
	if at != 0 {
		s.printf("wake at %s", s.at(at))
	}
}

// show lists every task as the core sees it now.
func (s *session) show() {
	for t := range s.run.Tasks() {
		s.printf("%s: %s", s.graph.TaskName(t.ID), s.record(&t))
	}
}

// at spells a time as the span since the script began.
func (s *session) at(t dagrun.Time) string { return span(dagrun.Duration(t - begin)) }

func span(d dagrun.Duration) string { return (time.Duration(d) * time.Millisecond).String() }

func quote(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

func times(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

// join joins the parts that are not empty.
func join(parts ...string) string {
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " ")
}
