package worker

import (
	"slices"
	"sync"
	"time"
)

// Causes for which a worker claims nothing.
const (
	unfitRecords = "records" // the database takes no records
	unfitReads   = "reads"   // the database lets no runs be read
	unfitPolls   = "polls"   // the database answers no polls
	unfitHost    = "host"    // this host cannot start tasks
)

// fitness keeps the reasons why a worker claims nothing now. Without one the worker is fit. It is safe for concurrent use.
type fitness struct {
	mu      sync.Mutex
	reasons []reason // in the order in which they began
	mended  func()   // called outside of the lock when the last reason is gone; nil: nobody is told
	changed func()   // called outside of the lock when the oldest reason is another one, or has another text; nil: nobody is told
}

// reason is why a worker claims nothing.
type reason struct {
	cause string
	since time.Time
	why   string // for people, in one line and without secrets
}

// String is for people: what is wrong, and since when.
func (r reason) String() string { return r.why + ", since " + r.since.UTC().Format(time.RFC3339) }

// set adds a reason that holds since a moment. One that is there already keeps that moment, and takes the new text.
func (f *fitness) set(cause string, since time.Time, why string) {
	f.mu.Lock()
	before := f.firstLocked()
	if i := f.find(cause); i >= 0 {
		f.reasons[i].why = why
	} else {
		f.reasons = append(f.reasons, reason{cause, since, why})
	}
	changed := f.firstLocked() != before
	f.mu.Unlock()
	if changed && f.changed != nil {
		f.changed()
	}
}

// clear takes a reason back, if it is there.
func (f *fitness) clear(cause string) {
	f.mu.Lock()
	i := f.find(cause)
	if i >= 0 {
		f.reasons = slices.Delete(f.reasons, i, i+1)
	}
	mended := i >= 0 && len(f.reasons) == 0
	f.mu.Unlock()
	if mended && f.mended != nil {
		f.mended()
	}
	if i == 0 && f.changed != nil {
		f.changed()
	}
}

// find needs f.mu. It answers -1 where there is no such reason.
func (f *fitness) find(cause string) int {
	return slices.IndexFunc(f.reasons, func(r reason) bool { return r.cause == cause })
}

// ok says whether the worker may claim runs now.
func (f *fitness) ok() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.reasons) == 0
}

// of is the reason of a cause; false: there is none.
func (f *fitness) of(cause string) (reason, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.find(cause); i >= 0 {
		return f.reasons[i], true
	}
	return reason{}, false
}

// first is the oldest of the reasons, or an empty one.
func (f *fitness) first() reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.firstLocked()
}

func (f *fitness) firstLocked() reason {
	if len(f.reasons) == 0 {
		return reason{}
	}
	return f.reasons[0]
}

// texts are the reasons for people, the oldest first.
func (f *fitness) texts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, r := range f.reasons {
		all = append(all, r.String())
	}
	return all
}
