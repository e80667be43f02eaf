package check

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Sight is a line of the witness file: a task writes that it starts, lives or ends.
type Sight struct {
	What    string // start, tick, end; of a publish: publish, publishing, published
	Run     int64
	Task    string // as in Change
	Attempt int
	Epoch   int
	Worker  string
}

// OfPublish reports whether the publish of a step wrote the line, not its first body.
func (s *Sight) OfPublish() bool { return strings.HasPrefix(s.What, "publish") }

func (s *Sight) body() bodyOf {
	return bodyOf{attemptOf{s.Run, s.Task, s.Attempt}, s.Epoch, s.OfPublish()}
}

// ReadWitness reads lines of "what run step item attempt epoch worker uptime". An incomplete last line is ignored.
func ReadWitness(r io.Reader) (all []Sight, err error) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the witness: %w", err)
		}
		var s Sight
		var item, up string
		if _, err := fmt.Sscan(line, &s.What, &s.Run, &s.Task, &item, &s.Attempt, &s.Epoch, &s.Worker, &up); err != nil {
			return nil, fmt.Errorf("read the witness: %q: %w", line, err)
		}
		if item != "-" {
			s.Task += "/" + item
		}
		all = append(all, s)
	}
}

// Excused are the workers with tasks that may live on: workers on frozen hosts, and worker processes that died with their
// guard and were not started again before their lease was over.
type Excused map[string]bool

// Witness compares what tasks wrote down with what the trail records about them.
func Witness(sights []Sight, trail []Change, excused Excused) (broken []Violation) {
	broken = append(broken, checkEpochs(sights, excused)...)
	w := newRecorded(trail)
	started := map[attemptOf]int{}
	ended := map[attemptOf]bool{}
	for _, s := range sights {
		if s.OfPublish() {
			continue // it lives after the end of the first body, and only its epoch is judged
		}
		a := attemptOf{s.Run, s.Task, s.Attempt}
		say := func(rule, format string, args ...any) {
			broken = append(broken, Violation{rule, s.Run, fmt.Sprintf(format, args...)})
		}
		if s.What == "start" {
			if started[a]++; started[a] > 1 {
				say("W2", "attempt %d of %s started %d times", s.Attempt, s.Task, started[a])
			}
			w.checkStart(s, a, say)
		}
		if done := w.doneBefore(a); done != 0 && ended[attemptOf{s.Run, s.Task, done}] && !excused[s.Worker] {
			say("W3", "%s of attempt %d of %s after the end of attempt %d, which succeeded", s.What, s.Attempt, s.Task, done)
		}
		if ended[a] && w.succeeded[a] && !excused[s.Worker] {
			say("W3", "%s of attempt %d of %s after its end", s.What, s.Attempt, s.Task)
		}
		if s.What == "end" {
			ended[a] = true
		}
	}
	return append(broken, w.checkRan(started, ended)...)
}

// checkEpochs reports a task of one epoch that shows life after the first sign of life of the next epoch of its run.
func checkEpochs(sights []Sight, excused Excused) (broken []Violation) {
	last := map[int64]Sight{}
	for _, s := range sights {
		if excused[s.Worker] {
			continue
		}
		if before := last[s.Run]; before.Epoch > s.Epoch {
			broken = append(broken, Violation{"W1", s.Run, fmt.Sprintf("%s of %s#%d in epoch %d by %s, after %s of %s#%d in epoch %d by %s",
				s.What, s.Task, s.Attempt, s.Epoch, s.Worker, before.What, before.Task, before.Attempt, before.Epoch, before.Worker)})
			continue
		}
		last[s.Run] = s
	}
	return broken
}

type attemptOf struct {
	run     int64
	task    string
	attempt int
}

// recorded is what a trail says about attempts.
type recorded struct {
	epochs     map[attemptOf]map[int]bool // epochs in which the attempt was running
	generation map[attemptOf]int
	succeeded  map[attemptOf]bool
	wins       map[taskIn]int // the attempt that succeeded
	shell      map[attemptOf]bool
}

type taskIn struct {
	run        int64
	task       string
	generation int
}

func newRecorded(trail []Change) *recorded {
	w := &recorded{
		epochs: map[attemptOf]map[int]bool{}, generation: map[attemptOf]int{}, succeeded: map[attemptOf]bool{},
		wins: map[taskIn]int{}, shell: map[attemptOf]bool{},
	}
	for _, c := range trail {
		if c.Task == "" || c.Attempt == 0 {
			continue
		}
		a := attemptOf{c.Run, c.Task, c.Attempt}
		w.generation[a] = c.Generation
		w.shell[a] = c.Shell
		if c.Is == "running" {
			if w.epochs[a] == nil {
				w.epochs[a] = map[int]bool{}
			}
			w.epochs[a][c.Epoch] = true
		}
		if c.Is == "succeeded" && c.Was != "succeeded" {
			w.succeeded[a] = true
			w.wins[taskIn{c.Run, c.Task, c.Generation}] = c.Attempt
		}
	}
	return w
}

// checkStart reports a start that was not recorded before in the same drive, or that follows a success.
func (w *recorded) checkStart(s Sight, a attemptOf, say sayer) {
	if !w.epochs[a][s.Epoch] {
		say("W2", "attempt %d of %s started in epoch %d, which is not recorded", s.Attempt, s.Task, s.Epoch)
	}
	if won, ok := w.wins[taskIn{s.Run, s.Task, w.generation[a]}]; ok && won < s.Attempt {
		say("W2", "attempt %d of %s started though attempt %d succeeded", s.Attempt, s.Task, won)
	}
}

// doneBefore returns another attempt of the same generation that succeeded, 0 for none.
func (w *recorded) doneBefore(a attemptOf) int {
	if won := w.wins[taskIn{a.run, a.task, w.generation[a]}]; won != a.attempt {
		return won
	}
	return 0
}

// checkRan reports a recorded success of an attempt that did not run from its start to its end.
func (w *recorded) checkRan(started map[attemptOf]int, ended map[attemptOf]bool) (broken []Violation) {
	for a := range w.succeeded {
		if w.shell[a] && (started[a] != 1 || !ended[a]) {
			broken = append(broken, Violation{"W2", a.run, fmt.Sprintf("attempt %d of %s succeeded; it started %d times, ended: %t", a.attempt, a.task, started[a], ended[a])})
		}
	}
	return broken
}

// Log is the stored output of an attempt, beside the output that the attempt noted down itself.
type Log struct {
	Run      int64
	Attempt  string // the task and its attempt: s1/a#2
	Chunks   []LogChunk
	Wrote    []byte
	Known    bool // Wrote is known
	Complete bool // Wrote is complete: the attempt came to its end
	Lost     bool // its driver died
	Over     bool // the attempt ended, and its driver or the next one recorded that
}

// LogChunk is a stored chunk.
type LogChunk struct {
	Seq     int
	Final   bool
	Data    []byte
	Dropped int64
}

// Logs checks the numbers, the final marker and the bytes of each log.
func Logs(logs []Log) (broken []Violation) {
	for i := range logs {
		broken = append(broken, logs[i].check()...)
	}
	return broken
}

func (l *Log) check() (broken []Violation) {
	say := func(rule, format string, args ...any) {
		broken = append(broken, Violation{rule, l.Run, l.Attempt + ": " + fmt.Sprintf(format, args...)})
	}
	var stored strings.Builder
	var dropped int64
	final := -1
	for i, c := range l.Chunks {
		if c.Seq != i {
			say("G1", "chunk %d stands at place %d", c.Seq, i)
		}
		if c.Final && final < 0 {
			final = i
		}
		stored.Write(c.Data)
		dropped += c.Dropped
	}
	if final >= 0 && final != len(l.Chunks)-1 {
		say("G2", "%d chunks come after the final one", len(l.Chunks)-1-final)
	}
	if final < 0 && l.Over && (len(l.Chunks) > 0 || l.Lost) { // if the attempt wrote nothing, only its record shows the end
		say("G2", "no final marker after %d chunks", len(l.Chunks))
	}
	if l.Known && dropped == 0 {
		l.checkBytes(stored.String(), say)
	} else if l.Complete && !l.Lost && int64(stored.Len())+dropped != int64(len(l.Wrote)) {
		say("G3", "%d bytes stored and %d dropped, %d written", stored.Len(), dropped, len(l.Wrote))
	}
	return broken
}

// checkBytes compares the stored bytes with the written ones. Unless the task came to its end, its own note may be longer
// or shorter than what its driver read.
func (l *Log) checkBytes(stored string, say sayer) {
	wrote := string(l.Wrote)
	switch {
	case l.Complete && !l.Lost && stored != wrote:
		say("G3", "%d bytes stored, %d written, or others", len(stored), len(wrote))
	case !strings.HasPrefix(wrote, stored) && !strings.HasPrefix(stored, wrote):
		say("G3", "%d bytes stored are no beginning of the %d written", len(stored), len(wrote))
	case l.Complete && len(stored) > len(wrote):
		say("G3", "%d bytes stored, only %d written", len(stored), len(wrote))
	}
}
