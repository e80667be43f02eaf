package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// scenario is an archive that shows a rule. Its .yaml files are DAGs, named after the archive. In them $DAG is that name,
// $DIR a folder of the scenario's own and $SERVER an HTTP server. Its file want is the expected output, and its file do
// the commands, one a line; without it there is one run of dag.yaml. Other files are in $DIR.
//
//	run [file] [{request}] [by role]   enqueue a run; commands from here on are about it
//	rerun [--latest] [{params}] enqueue a new run of the run; commands from here on are about it
//	put FILE                    apply $DIR/FILE as the next version of the DAG
//	when TASK=STATE…: command   once all of these tasks are in these states; run=STATE is the run's, epoch=N its claim's
//	cancel|pause|resume|approve|reject|mark|retry [task] [arguments] [by role]
//	release NAME                let the tasks go on that read the FIFO $DIR/NAME
//	enter NAME                  commands from here on are about the newest run of another DAG
//	reason TEXT                 once the run gives this reason
//	worker NAME=VALUE…          start a worker for the queue $DAG, with the label own=$DAG
//	leave                       stop that worker in order
//	free                        once no worker has a claim to the run
//	deadline TASK               store in $DIR/deadline when its next attempt is due; later print by how much this moved
//	touch FILE | present FILE   make an empty file in $DIR; wait until it exists
//	gone FILE | alive FILE      once the process with the number in $DIR/FILE is gone; check that it lives
//	said TASK TEXT              once the log of a task has a text
//	show | log TASK[#attempt] | attempts | cat FILE    print it
//
// At the end the test awaits the run and shows it.
type scenario struct {
	*house
	name, dir string
	run       queue.RunID
	runs      []queue.RunID
	own       *process // the worker that the command worker started
	due       time.Time
	out       bytes.Buffer
}

func (s *scenario) tell(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// Parts of the output that differ from one run to the next.
var (
	someRun  = regexp.MustCompile(`\b(?:run[_id":]*|oarlock retry) ?\d+`)
	someKey  = regexp.MustCompile(`\boarlock-[0-9a-f-]{36}-`)
	someTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	someSpan = regexp.MustCompile(`\bin \d+m?s`)
	someSize = regexp.MustCompile(`(in TIME, |"Content-Length": ")\d+`) // of outputs that contain the number of a run
	somePID  = regexp.MustCompile(`\(pid \d+\)`)
	digits   = regexp.MustCompile(`\d+`)
)

// inDAG matches the names that a DAG of a scenario may use. $DAG_LEVEL is a variable of its own.
var inDAG = regexp.MustCompile(`\$(DAG|DIR|SERVER)\b`)

// told returns the scenario's output, without what differs each time.
func (s *scenario) told() string {
	text := strings.NewReplacer(s.dir, "$DIR", s.server, "$SERVER", s.db.Name, "$DB").Replace(s.out.String())
	text = someTime.ReplaceAllString(text, "TIME")
	text = someSpan.ReplaceAllString(text, "in TIME")
	text = somePID.ReplaceAllString(text, "(pid PID)")
	text = someKey.ReplaceAllString(text, "oarlock-N-")
	text = someSize.ReplaceAllString(text, "${1}N")
	return someRun.ReplaceAllStringFunc(text, func(m string) string { return digits.ReplaceAllString(m, "N") })
}

func (s *scenario) play(t *testing.T, archive *txtar.Archive) {
	t.Helper()
	script := "run"
	for _, f := range archive.Files {
		switch {
		case f.Name == "do":
			script = strings.TrimSpace(string(f.Data))
		case strings.HasSuffix(f.Name, ".yaml"):
			if !s.put(t, strings.TrimSuffix(f.Name, ".yaml"), f.Data) {
				return
			}
		case f.Name != "want":
			s.write(t, f.Name, f.Data)
		}
	}
	lines := strings.Split(script, "\n")
	s.fifos(t, lines)
	for _, line := range lines {
		s.do(t, line)
	}
	if s.run != 0 && !strings.HasPrefix(lines[len(lines)-1], "show") {
		s.await(t, s.run)
		s.show(t)
	}
}

func (s *scenario) write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// put registers a DAG. A refusal ends the scenario.
func (s *scenario) put(t *testing.T, name string, data []byte) bool {
	t.Helper()
	values := map[string]string{"$DIR": s.dir, "$SERVER": s.server, "$DAG": s.name}
	source := "name: " + s.named(name) + "\n" + inDAG.ReplaceAllStringFunc(string(data), func(m string) string { return values[m] })
	spec, err := dagspec.Parse(name+".yaml", []byte(source))
	if err == nil {
		_, err = s.PutDAG(t.Context(), spec, source, name+".yaml")
	}
	if err != nil {
		s.tell("refused: %v", err)
	}
	return err == nil
}

// putNext registers a file in the scenario's folder as the next version of its DAG.
func (s *scenario) putNext(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, "dag", data)
}

func (s *scenario) named(file string) string {
	if file == "dag" {
		return s.name
	}
	return s.name + "." + file
}

// fifos makes the FIFOs that the script will release, before any task reads them.
func (s *scenario) fifos(t *testing.T, lines []string) {
	t.Helper()
	for _, line := range lines {
		if _, name, ok := strings.Cut(line, "release "); ok {
			err := syscall.Mkfifo(filepath.Join(s.dir, name), 0o600)
			if err != nil && !errors.Is(err, syscall.EEXIST) {
				t.Fatal(err)
			}
		}
	}
}

func (s *scenario) do(t *testing.T, line string) {
	t.Helper()
	if cond, rest, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(cond, "when ") {
		s.wait(t, strings.Fields(cond)[1:])
		line = rest
	}
	verb, args, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch verb {
	case "run":
		s.enqueue(t, args)
	case "rerun":
		s.rerun(t, args)
	case "put":
		s.putNext(t, args)
	case "release":
		s.release(t, args)
	case "enter":
		s.enter(t, args)
	case "reason":
		s.reason(t, args)
	case "worker":
		s.own = s.worker(t, s.name, append(strings.Fields(args), "queues="+s.name, "labels=own="+s.name)...)
	case "leave":
		s.own.leave(t)
	default:
		s.look(t, verb, args)
	}
}

// doFile executes a command about a file in the scenario's folder.
func (s *scenario) doFile(t *testing.T, verb, name string) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	switch verb {
	case "touch":
		s.write(t, name, nil)
	case "present":
		until(t, "a file "+name, func() bool { _, err := os.Stat(path); return err == nil })
	case "gone":
		until(t, "the process in "+name+" is gone", func() bool { return gone(path) })
		s.tell("gone: %s", name)
	case "alive":
		if gone(path) {
			t.Errorf("the process in %s is gone", name)
		}
		s.tell("alive: %s", name)
	case "cat":
		data, err := os.ReadFile(path)
		s.tell("cat %s: %s", name, bytes.TrimSpace(data))
		if err != nil {
			t.Error(err)
		}
	}
}

// look executes a command that reads the run.
func (s *scenario) look(t *testing.T, verb, args string) {
	t.Helper()
	switch verb {
	case "", "#":
	case "await":
		s.await(t, s.run)
	case "show":
		s.show(t)
	case "log":
		s.log(t, args)
	case "said":
		task, text, _ := strings.Cut(args, " ")
		until(t, task+" says "+text, func() bool { log, _ := s.read(t, task); return strings.Contains(log, text) })
	case "free":
		until(t, "nobody has the run", func() bool { return s.get(t).Worker == "" })
	case "deadline":
		s.deadline(t, args)
	case "touch", "present", "gone", "alive", "cat":
		s.doFile(t, verb, args)
	case "attempts":
		s.attempts(t)
	default:
		s.control(t, verb, strings.Fields(args))
	}
}

// wait waits until tasks, or the run, are in given states.
func (s *scenario) wait(t *testing.T, conditions []string) {
	t.Helper()
	until(t, fmt.Sprint(conditions), func() bool {
		states := s.states(t)
		return !slices.ContainsFunc(conditions, func(c string) bool {
			name, state, _ := strings.Cut(c, "=")
			return states[name] != state
		})
	})
}

func (s *scenario) states(t *testing.T) map[string]string {
	t.Helper()
	r := s.get(t)
	states := map[string]string{"run": r.State, "epoch": strconv.Itoa(r.Epoch)}
	for _, task := range s.tasks(t) {
		states[nameOf(&task)] = task.State
	}
	return states
}

func (s *scenario) get(t *testing.T) *queue.Run {
	t.Helper()
	r, err := s.Get(t.Context(), s.run)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *scenario) tasks(t *testing.T) []queue.Task {
	t.Helper()
	tasks, err := s.Tasks(t.Context(), s.run)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func nameOf(task *queue.Task) string {
	if task.Item != "" {
		return task.Step + "/" + task.Item
	}
	return task.Step
}

// enqueue makes a run. The request is a queue.Request as JSON.
func (s *scenario) enqueue(t *testing.T, args string) {
	t.Helper()
	store := s.Store
	if before, role, ok := strings.Cut(args, "by "); ok {
		store, args = s.people[role], strings.TrimSpace(before)
	}
	file, request := "dag", args
	if name, rest, _ := strings.Cut(args, " "); name != "" && name[0] != '{' {
		file, request = name, rest
	}
	r := queue.Request{DAG: s.named(file)}
	if request != "" {
		d := json.NewDecoder(strings.NewReader(request))
		d.UseNumber()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
	}
	run, err := store.Enqueue(t.Context(), r)
	s.take(run, err)
}

// take makes a new run the one that commands are about, if there is one.
func (s *scenario) take(run queue.RunID, err error) bool {
	if err != nil {
		s.tell("refused: %v", err)
		return false
	}
	s.run = run
	s.runs = append(s.runs, run)
	return true
}

// rerun enqueues a new run of the run, and prints from which of the script's runs it says it comes.
func (s *scenario) rerun(t *testing.T, args string) {
	t.Helper()
	var params map[string]any
	text, latest := strings.CutPrefix(args, "--latest")
	if text = strings.TrimSpace(text); text != "" {
		if err := json.Unmarshal([]byte(text), &params); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	run, err := s.Rerun(t.Context(), s.run, params, latest)
	if s.take(run, err) {
		r := s.get(t)
		s.tell("rerun: a new run of version %d, of the %d. of the script", r.Version, slices.Index(s.runs, r.RetryOf)+1)
	}
}

// deadline stores when the next attempt of a task is due. Later calls print by how much this moved.
func (s *scenario) deadline(t *testing.T, name string) {
	t.Helper()
	tasks := s.tasks(t)
	due := tasks[slices.IndexFunc(tasks, func(task queue.Task) bool { return nameOf(&task) == name })].NextAttemptAt
	switch {
	case due.IsZero():
		s.tell("deadline %s: none", name)
	case s.due.IsZero():
		s.due = due
		s.write(t, "deadline", []byte(strconv.FormatInt(due.UnixNano(), 10)))
		s.tell("deadline %s: stored", name)
	default:
		s.tell("deadline %s: moved by %v", name, due.Sub(s.due))
	}
}

// release writes to a FIFO as soon as a process reads it.
func (s *scenario) release(t *testing.T, name string) {
	t.Helper()
	until(t, "somebody reads "+name, func() bool {
		f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return false
		}
		_, err = io.WriteString(f, "go\n")
		return errors.Join(err, f.Close()) == nil
	})
}

// enter makes the newest run of another DAG, or the nth run of the script, the one that commands are about.
func (s *scenario) enter(t *testing.T, name string) {
	t.Helper()
	if n, err := strconv.Atoi(name); err == nil {
		s.run = s.runs[n-1]
		return
	}
	until(t, "a run of "+name, func() bool {
		page, err := s.List(t.Context(), queue.Filter{DAG: s.named(name), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Runs) > 0 {
			s.run = page.Runs[0].ID
		}
		return len(page.Runs) > 0
	})
}

func (s *scenario) reason(t *testing.T, want string) {
	t.Helper()
	was := ""
	until(t, "the reason "+want, func() bool {
		r, err := s.Get(t.Context(), s.run)
		if err != nil {
			t.Fatal(err)
		}
		if r.Reason != was {
			was = r.Reason
			t.Logf("reason: %s", was)
		}
		return strings.Contains(was, want)
	})
	s.tell("reason: %s", was)
}

// gone reports whether the process with the number in a file has ended.
func gone(path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(data)))
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// control sends a request to the run, and prints the answer.
func (s *scenario) control(t *testing.T, verb string, args []string) {
	t.Helper()
	store := s.Store
	if n := len(args); n > 1 && args[n-2] == "by" {
		store, args = s.people[args[n-1]], args[:n-2]
	}
	ask, err := asked(s.run, verb, args)
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Control(t.Context(), ask)
	if err == nil {
		c, err = s.AwaitControl(t.Context(), c)
	}
	what := strings.Join(append([]string{verb}, args...), " ")
	switch {
	case err != nil:
		s.tell("%s: %v", what, err)
	case c.Message != "":
		s.tell("%s: %s: %s", what, c.Outcome, c.Message)
	default:
		s.tell("%s: %s", what, c.Outcome)
	}
}

// asked parses a request. A word that is no argument is its task.
func asked(run queue.RunID, verb string, args []string) (ask queue.Ask, err error) {
	ask.Run = run
	if ask.Verb, err = dagrun.ParseVerb(verb); err != nil {
		return ask, err
	}
	for _, arg := range args {
		switch {
		case arg == "--now":
			ask.Now = true
		case strings.HasPrefix(arg, "--"):
			ask.Mode, err = dagrun.ParseRetryMode(arg[2:])
		case arg[0] == '{':
			ask.Outputs = json.RawMessage(arg)
		case ask.Step == "":
			ask.Step, ask.Item, _ = strings.Cut(arg, "/")
		case ask.Verb == dagrun.VerbMark:
			ask.As, err = dagrun.ParseState(arg)
		default:
			ask.Reason = strings.TrimSpace(ask.Reason + " " + arg)
		}
		if err != nil {
			return ask, err
		}
	}
	return ask, nil
}
