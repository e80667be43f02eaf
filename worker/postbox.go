package worker

import (
	"sync"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// happening is what somebody tells a driver.
type happening struct {
	event  dagrun.Event
	ticket *Ticket // of EvGranted: the ticket that was granted
	body   *body   // of EvFinished and EvLost: the body that ended
	mail   bool    // there are new controls; event says nothing
	yield  bool    // others may have a slot for the run: give it back if it still waits for one
}

// postbox takes what happens to a run until its driver has time. What it holds is bounded by what the run has under way.
type postbox struct {
	mu     sync.Mutex
	posted []happening
	signal chan struct{}
}

func newPostbox() *postbox { return &postbox{signal: make(chan struct{}, 1)} }

func (p *postbox) put(h happening) {
	p.mu.Lock()
	p.posted = append(p.posted, h)
	p.mu.Unlock()
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

func (p *postbox) take() []happening {
	p.mu.Lock()
	defer p.mu.Unlock()
	posted := p.posted
	p.posted = nil
	return posted
}
