package script

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// begin is the time at which every script starts. Printed times count from it.
const begin dagrun.Time = 1_000_000

// session is a running script: a core, a store of one run, and a clock.
type session struct {
	graph *dagrun.Graph
	run   *dagrun.Run
	opts  dagrun.Options
	now   dagrun.Time

	saved    dagrun.RunRecord
	rows     map[dagrun.TaskID]dagrun.TaskRecord
	controls map[int64]*dagrun.Control // controls that are not decided
	lastID   int64

	manualGrants, manualCommits bool
	begun                       bool
	shownWake                   dagrun.Time
	out                         strings.Builder
}

// Run runs the commands of one file and returns the file with their output.
func Run(text string) (string, error) {
	blocks, tail, err := parseFile(text)
	if err != nil {
		return "", err
	}
	var s session
	var file strings.Builder
	for i := range blocks {
		s.out.Reset()
		if err := s.do(&blocks[i]); err != nil {
			return "", fmt.Errorf("line %d: %s: %w", blocks[i].line, blocks[i].command, err)
		}
		file.WriteString(blocks[i].print(s.out.String()))
		if i+1 < len(blocks) && !strings.HasPrefix(blocks[i+1].comment, "\n") {
			file.WriteString("\n")
		}
	}
	return file.String() + tail, nil
}

func (s *session) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// do runs one command. A refusal by the core is output; an error is a mistake in the script.
func (s *session) do(b *block) error {
	words := strings.Fields(b.command)
	if words[0] != "dag" && s.graph == nil {
		return errors.New("no dag yet")
	}
	switch words[0] {
	case "dag":
		return s.dag(b.input)
	case "manual":
		s.manualGrants = s.manualGrants || slices.Contains(words, "grants")
		s.manualCommits = s.manualCommits || slices.Contains(words, "commits")
		return nil
	case "crash":
		return s.restore()
	case "commit":
		s.commit()
		return nil
	case "show":
		s.show()
		return nil
	case "explain":
		return s.explain(words[1:])
	}
	event, err := s.event(words)
	if err != nil {
		return err
	}
	if event.Kind == dagrun.EvTick && !s.driven() {
		return nil // time passes for a parked run too
	}
	s.step(event)
	return nil
}

func (s *session) dag(lines []string) error {
	spec, err := parseDAG(lines)
	if err != nil {
		return err
	}
	g, err := dagrun.Compile(spec)
	if err != nil {
		s.printf("refused: %v", err)
		return nil
	}
	*s = session{graph: g, rows: map[dagrun.TaskID]dagrun.TaskRecord{}, controls: map[int64]*dagrun.Control{}}
	s.now = begin
	s.opts = dagrun.Options{Seed: 1, Generation: 1, TimeText: s.at}
	s.run = dagrun.New(g, s.opts)
	return nil
}

func (s *session) restore() error {
	saved := dagrun.Saved{Run: s.saved, Tasks: slices.Collect(maps.Values(s.rows))}
	saved.Run.Generation = max(saved.Run.Generation, s.opts.Generation)
	run, err := dagrun.Restore(s.graph, s.opts, saved)
	if err != nil {
		return err
	}
	s.run, s.begun, s.shownWake = run, false, 0
	for _, id := range slices.Sorted(maps.Keys(s.controls)) {
		s.step(dagrun.Event{Kind: dagrun.EvControl, Control: s.controls[id]})
	}
	return nil
}

// step hands an event to the core, and performs what follows, as a driver would.
func (s *session) step(e dagrun.Event) {
	if e.At == 0 {
		e.At = s.now
	}
	s.begun = s.begun || e.Kind == dagrun.EvBegin
	if err := s.run.Step(e); err != nil {
		s.printf("%v", err)
		return
	}
	for !s.run.Over() {
		if !s.grant() && (s.manualCommits || !s.commit()) {
			break
		}
	}
	if s.manualCommits {
		s.print(false)
	}
}

// grant grants every want.
func (s *session) grant() bool {
	if s.manualGrants {
		return false
	}
	ready, _ := s.run.Ready()
	wants := slices.Clone(ready.Wants)
	for _, w := range wants {
		if err := s.run.Step(dagrun.Event{Kind: dagrun.EvGranted, At: s.now, Task: w.Task}); err != nil {
			s.printf("grant %s: %v", s.graph.TaskName(w.Task), err)
		}
	}
	return len(wants) > 0
}

// driven reports whether a driver has the run: the run has begun and its drive is not over.
func (s *session) driven() bool { return s.begun && !s.run.Over() }

// commit stores, prints and acknowledges what is ready. A cache lookup that the script does not answer is a miss.
func (s *session) commit() bool {
	ready, ok := s.run.Ready()
	s.print(true)
	if !ok {
		return false
	}
	for _, t := range ready.Records.Tasks {
		s.rows[t.ID] = t
	}
	for _, d := range ready.Records.Controls {
		delete(s.controls, d.ID)
	}
	if ready.Records.Run != nil {
		s.saved = *ready.Records.Run
	}
	s.run.Advance()
	return true
}

// task reads the name of a task, as the first of words.
func (s *session) task(words []string) (dagrun.TaskID, []string, error) {
	if len(words) == 0 {
		return dagrun.TaskID{}, nil, errors.New("name a task")
	}
	id, err := s.graph.ParseTask(words[0])
	return id, words[1:], err
}

func (s *session) explain(words []string) error {
	if len(words) == 0 {
		s.printf("run: %s", s.run.Reason())
		return nil
	}
	id, _, err := s.task(words)
	if err == nil {
		s.printf("%s", s.run.Explain(id))
	}
	return err
}

// event reads a command that stands for an event.
func (s *session) event(words []string) (dagrun.Event, error) {
	if verb, err := dagrun.ParseVerb(strings.ReplaceAll(words[0], "-", "_")); err == nil {
		return s.control(verb, words[1:])
	}
	switch words[0] {
	case "begin":
		return dagrun.Event{Kind: dagrun.EvBegin}, s.precompute(words[1:])
	case "tick":
		d, err := duration(strings.Join(words[1:], ""))
		s.now += dagrun.Time(d)
		return dagrun.Event{Kind: dagrun.EvTick}, err
	case "drain":
		return dagrun.Event{Kind: dagrun.EvDrain}, nil
	case "refuse", "drive_limit":
		kind, err := dagrun.ParseEventKind(words[0])
		return dagrun.Event{Kind: kind, Text: strings.Join(words[1:], " ")}, err
	}
	return s.taskEvent(words)
}

// precompute reads step=result words. Precomputed results must be there before the run begins, so precompute makes the
// core anew.
func (s *session) precompute(words []string) error {
	for _, word := range words {
		step, result, _ := strings.Cut(word, "=")
		res, err := parseResult(strings.Split(result, ","))
		if err != nil {
			return err
		}
		if s.opts.Precomputed == nil {
			s.opts.Precomputed = map[string]dagrun.Result{}
		}
		s.opts.Precomputed[step] = *res
	}
	if len(words) > 0 {
		s.run = dagrun.New(s.graph, s.opts)
	}
	return nil
}

var taskEvents = map[string]dagrun.EventKind{
	"grant": dagrun.EvGranted, "started": dagrun.EvStarted, "finish": dagrun.EvFinished, "waits": dagrun.EvWaits,
	"probed": dagrun.EvProbed, "lost": dagrun.EvLost, "settled": dagrun.EvSettled, "queued": dagrun.EvQueued,
}

// taskEvent reads: command task [#attempt] [at=time since the script began] details.
func (s *session) taskEvent(words []string) (dagrun.Event, error) {
	kind, ok := taskEvents[words[0]]
	if !ok {
		return dagrun.Event{}, errors.New("unknown command")
	}
	id, rest, err := s.task(words[1:])
	if err != nil {
		return dagrun.Event{}, err
	}
	e := dagrun.Event{Kind: kind, Task: id}
	record, _ := s.run.Task(id)
	e.Attempt = record.Attempt
	if len(rest) > 0 && strings.HasPrefix(rest[0], "#") {
		if e.Attempt, err = strconv.Atoi(rest[0][1:]); err != nil {
			return e, err
		}
		rest = rest[1:]
	}
	if len(rest) > 0 && strings.HasPrefix(rest[0], "at=") {
		at, err := duration(rest[0][len("at="):])
		if err != nil {
			return e, err
		}
		e.At = begin + dagrun.Time(at)
		rest = rest[1:]
	}
	return e, s.details(&e, rest)
}

func (s *session) details(e *dagrun.Event, words []string) (err error) {
	switch e.Kind {
	case dagrun.EvFinished, dagrun.EvSettled:
		e.Result, err = s.result(words)
	case dagrun.EvProbed:
		if !slices.Equal(words, []string{"miss"}) {
			e.Result, err = s.result(words)
		}
	case dagrun.EvLost, dagrun.EvQueued:
		e.Text = strings.Join(words, " ")
	case dagrun.EvWaits:
		for _, word := range words {
			key, value, _ := strings.Cut(word, "=")
			var d dagrun.Duration
			switch key {
			case "for":
				d, err = duration(value)
				e.Until = s.now + dagrun.Time(d)
			case "ref":
				e.Ref = value
			}
		}
	}
	return err
}

// result reads the same words as parseResult, and also snooze=5s.
func (s *session) result(words []string) (*dagrun.Result, error) {
	snooze := dagrun.Time(0)
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		value, ok := strings.CutPrefix(w, "snooze=")
		if d, err := duration(value); ok && err == nil {
			snooze = s.now + dagrun.Time(d)
		}
		return ok
	})
	for i, w := range words {
		words[i] = strings.Replace(w, "=", ":", 1)
	}
	res, err := parseResult(words)
	if err == nil {
		res.SnoozeUntil = snooze
	}
	return res, err
}

// control reads: verb [task] by=… now mode=… as=… out=… ref=… text=… decides=…, and for the end of a child run its
// result.
func (s *session) control(verb dagrun.Verb, words []string) (dagrun.Event, error) {
	s.lastID++
	c := &dagrun.Control{ID: s.lastID, Verb: verb, By: "ana"}
	var end []string
	for _, word := range words {
		key, value, isKey := strings.Cut(word, "=")
		var err error
		switch {
		case word == "now":
			c.Now = true
		case key == "by" && isKey:
			c.By = value
		case key == "mode" && isKey:
			c.Mode, err = dagrun.ParseRetryMode(value)
		case key == "as" && isKey:
			c.As, err = dagrun.ParseState(value)
		case key == "out" && isKey && verb != dagrun.VerbChildEnded:
			c.Outputs = dagrun.JSON(value)
		case key == "ref" && isKey:
			c.Ref = value
		case key == "decides" && isKey:
			c.Decides = strings.Split(value, ",")
		case key == "text" && isKey:
			c.Text = value
		case key == "id" && isKey:
			c.ID, err = strconv.ParseInt(value, 10, 64)
		case isKey || word == "ok":
			end = append(end, word)
		default:
			var id dagrun.TaskID
			id, err = s.graph.ParseTask(word)
			c.Task = &id
		}
		if err != nil {
			return dagrun.Event{}, err
		}
	}
	if verb == dagrun.VerbChildEnded {
		var err error
		if c.Result, err = s.result(end); err != nil {
			return dagrun.Event{}, err
		}
	}
	if verb == dagrun.VerbRetry {
		if err := s.open(c); err != nil {
			return dagrun.Event{}, err
		}
	}
	s.controls[c.ID] = c
	return dagrun.Event{Kind: dagrun.EvControl, Control: c}, nil
}

// open does to a finished run what the database does for a retry: it opens a new generation.
func (s *session) open(c *dagrun.Control) error {
	if !s.saved.State.Terminal() {
		return nil // without a generation, the retry is of the run under way
	}
	s.opts.Generation = s.saved.Generation + 1
	c.Generation = s.opts.Generation
	s.saved.Generation, s.saved.State, s.saved.FinishedAt = s.opts.Generation, dagrun.RunQueued, 0
	return s.restore()
}
