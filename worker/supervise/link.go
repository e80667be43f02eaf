package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/internal/offspring"
)

// ErrGone means that the guard died. The driver process must then kill its tasks, release its runs, and end.
var ErrGone = errors.New("guard: it is gone")

// errMute means that the guard is alive but does not answer.
var errMute = errors.New("guard: no answer")

// Link is the driver process's connection to its guard. Its methods are safe for concurrent use. On a nil Link they do nothing.
type Link struct {
	in, out *os.File
	hello   hello
	gone    chan struct{}
	reading sync.WaitGroup

	release func() // ends the reaping of orphans; nil: there is none

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	used    []string
}

func newLink(in, out *os.File) *Link {
	l := &Link{in: in, out: out, gone: make(chan struct{}), waiting: map[int]chan answer{}}
	l.reading.Add(1)
	go l.listen()
	return l
}

func (l *Link) listen() {
	defer l.reading.Done()
	defer close(l.gone)
	for s := lines(l.in); s.Scan(); {
		var a answer
		if json.Unmarshal(s.Bytes(), &a) != nil {
			return // it is not a guard of ours, so treat it as gone
		}
		l.mu.Lock()
		if c := l.waiting[a.N]; c != nil {
			c <- a // does not block: it has a buffer for one answer
			delete(l.waiting, a.N)
		}
		l.mu.Unlock()
	}
}

// ask sends a request and waits for its answer. It returns ErrGone if the guard is gone, and errMute if the guard does not answer
// within answerWithin. An error of the guard is not an error of ask: it is in the answer.
func (l *Link) ask(r request) (answer, error) {
	c := make(chan answer, 1)
	l.mu.Lock()
	l.last++
	r.N = l.last
	l.waiting[r.N] = c
	l.mu.Unlock()
	defer l.drop(r.N)
	if err := l.send(r); err != nil {
		return answer{}, err
	}
	late := time.NewTimer(answerWithin)
	defer late.Stop()
	select {
	case a := <-c:
		return a, nil
	case <-l.gone:
		return answer{}, ErrGone
	case <-late.C:
		return answer{}, errMute
	}
}

const answerWithin = 10 * time.Second // meanwhile the guard writes one line to a file

func (l *Link) drop(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, n)
}

func (l *Link) send(r request) error {
	select {
	case <-l.gone:
		return ErrGone
	default:
	}
	if err := send(l.out, r); err != nil {
		return errors.Join(ErrGone, err)
	}
	return nil
}

func (l *Link) change(r request) error {
	a, err := l.ask(r)
	if err == nil && a.Err != "" {
		err = errors.New("guard: " + a.Err)
	}
	return err
}

// Extend sets the deadline: an instant of package boottime from which on nothing of this driver process may run. The guard begins
// to kill a little before. 0 or less means that the driver process holds no lease, so there is no deadline. Extend does not wait
// for an answer; it returns ErrGone if the guard is gone.
func (l *Link) Extend(deadline time.Duration) error {
	if l == nil {
		return nil
	}
	deadline = max(0, deadline)
	return l.send(request{Extend: &deadline})
}

// Use adds a worker id to the lock file, and waits until the guard has written it. Only after Use returned nil may a row of the
// database show the id, and tasks run under it. A nil Link, without a guard, returns nil.
func (l *Link) Use(workerID string) error {
	if l == nil {
		return nil
	}
	if err := l.change(request{Use: workerID}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = withWorker(l.used, workerID)
	return nil
}

// Forget removes ids from the lock file, and waits until the guard has written it. The ids must hold nothing in the database: ids
// that were replaced, or the driver process's own after everything was released and none of its tasks runs.
func (l *Link) Forget(workerIDs ...string) error {
	if l == nil || len(workerIDs) == 0 {
		return nil
	}
	return l.change(request{Forget: workerIDs})
}

// Replaces returns the worker ids that the driver process replaces: all processes of them are gone. The list is as of Attach.
func (l *Link) Replaces() []string {
	if l == nil {
		return nil
	}
	return slices.Clone(l.hello.Replaces)
}

// Gone returns a channel that is closed when the guard has died, or this process has called Close. A nil Link returns nil, which is
// never closed.
func (l *Link) Gone() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.gone
}

// Containment returns the means that keeps tasks from outliving the driver process: cgroup, subreaper, group or none.
func (l *Link) Containment() string {
	if l == nil || l.hello.Containment == "" {
		return "none"
	}
	return l.hello.Containment
}

// Cgroup returns the folder of the cgroup v2 with all processes of the worker; "" if there is none. Attempts may get cgroups in it.
func (l *Link) Cgroup() string {
	if l == nil {
		return ""
	}
	return l.hello.Cgroup
}

// Sweep kills everything that this driver process started and every process that carries an id it used, whatever parent it has by
// now. It returns nil when nothing is left; if ctx ends before, it returns an error with the processes that are left. The caller
// must start no process meanwhile.
func (l *Link) Sweep(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	ids := slices.Clone(l.used)
	l.mu.Unlock()
	return sweep(ctx, ids, cgroup(l.hello.Cgroup))
}

// Adopt makes this process the parent of processes that its descendants orphan, and reaps them until Close. A sweep then finds
// orphans whatever they do, since they are below this process, also after the guard has died. The caller must start every process
// by package offspring from now on, and must call Adopt at most once. Servers that this process started before, and that are
// orphans already, stay with the guard.
func (l *Link) Adopt() (err error) {
	if l == nil {
		return nil
	}
	l.release, err = offspring.Adopt()
	return err
}

// Close closes the connection and ends the reaping of Adopt. The guard goes on with the deadline of the last Extend. The lock stays
// held as long as the process lives.
func (l *Link) Close() {
	if l == nil {
		return
	}
	l.in.Close()
	l.out.Close()
	l.reading.Wait()
	if l.release != nil {
		l.release()
	}
}
