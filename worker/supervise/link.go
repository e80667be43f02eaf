package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"time"
)

// ErrGone is what a driver process hears when its guard died: it is to kill its tasks, release its runs, and end.
var ErrGone = errors.New("guard: it is gone")

// errMute is a guard that lives but does not answer.
var errMute = errors.New("guard: no answer")

// Link is the driver process's side. All its methods may be called at once, and on nil, where they do nothing.
type Link struct {
	in, out *os.File
	hello   hello
	gone    chan struct{}
	reading sync.WaitGroup

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
			return // no guard of ours: as good as none
		}
		l.mu.Lock()
		if c := l.waiting[a.N]; c != nil {
			c <- a // has room for it
			delete(l.waiting, a.N)
		}
		l.mu.Unlock()
	}
}

// ask sends a request and waits for its answer.
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

const answerWithin = 10 * time.Second // a guard writes one line to a file meanwhile

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

// Extend sets the deadline: an instant of package boottime at which nothing of this driver process may run any more. The
// guard begins to kill a little before. 0 is for a driver process that holds no lease.
func (l *Link) Extend(deadline time.Duration) error {
	if l == nil {
		return nil
	}
	deadline = max(0, deadline)
	return l.send(request{Extend: &deadline})
}

// Use puts a worker id into the lock file. Only when it returned nil may a row of the database show that id, and tasks
// run under it.
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

// Forget takes ids out of the lock file that hold nothing in the database: those that were replaced, or one's own after
// all was released and nothing of it runs.
func (l *Link) Forget(workerIDs ...string) error {
	if l == nil || len(workerIDs) == 0 {
		return nil
	}
	return l.change(request{Forget: workerIDs})
}

// Replaces lists the worker ids whose processes are all gone, and whose place the driver process takes.
func (l *Link) Replaces() []string {
	if l == nil {
		return nil
	}
	return slices.Clone(l.hello.Replaces)
}

// Gone is closed when the guard died.
func (l *Link) Gone() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.gone
}

// Containment is what keeps tasks from outliving the driver process: cgroup, subreaper, group or none.
func (l *Link) Containment() string {
	if l == nil || l.hello.Containment == "" {
		return "none"
	}
	return l.hello.Containment
}

// Cgroup is the folder of the cgroup v2 that holds everything, "" without one. Attempts may get folders of their own in it.
func (l *Link) Cgroup() string {
	if l == nil {
		return ""
	}
	return l.hello.Cgroup
}

// Sweep kills everything that this driver process started and everything that carries an id it used, wherever it is by
// now, and returns when nothing of it is left, or at the end of ctx. Nothing may be started meanwhile.
func (l *Link) Sweep(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	ids := slices.Clone(l.used)
	l.mu.Unlock()
	return sweep(ctx, ids, cgroup(l.hello.Cgroup))
}

// Close stops listening. The lock stays held for as long as the process lives.
func (l *Link) Close() {
	if l == nil {
		return
	}
	l.in.Close()
	l.out.Close()
	l.reading.Wait()
}
