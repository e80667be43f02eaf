package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	maxStreams     = 2000
	streamBacklog  = 16               // events that a slow viewer may lag behind; then its stream ends, and the browser starts anew
	streamTimeout  = 5 * time.Second  // of one write
	heartbeat      = 15 * time.Second // sent on a stream without events
	liveInterval   = 250 * time.Millisecond
	liveShare      = 10              // after a read, the reader pauses at least this many times the duration of a read
	awayInterval   = time.Second     // after a read that failed because the database is away
	lookAnyway     = 5 * time.Second // the reason why a run waits may change without news of the run
	listInterval   = 2 * time.Second
	liveTimeout    = 5 * time.Second
	reconnectAfter = 2000 // ms, for browsers
)

// liveView is the content of a page at one moment.
type liveView struct {
	event   string            // name of the event that brings a region; "": region
	regions map[string]string // by name
	order   []string
	log     *liveLog // nil: the page follows no log
	over    bool     // the page will not change any more
}

// liveLog is the last lines of the log that a page follows.
type liveLog struct {
	attempt     int
	first, last int64
	// lines is the HTML of each line, by line number.
	lines map[int64]string
	whole string // region with all lines, for viewers that missed some
	count string
}

// liveSource is how to read a page again and again.
type liveSource struct {
	key  string
	run  queue.RunID // news of this run make the hub read the page; 0: it is read every listInterval
	logs bool
	read func(context.Context) (*liveView, error)
}

// hub lets all viewers of a page share one reader, which runs as long as the page has a viewer.
type hub struct {
	mu      sync.Mutex
	topics  map[string]*topic
	feeds   map[feedKey]*feed
	viewers int
}

func newHub() *hub { return &hub{topics: map[string]*topic{}, feeds: map[feedKey]*feed{}} }

// topic is one page with at least one viewer.
type topic struct {
	source  liveSource
	end     context.CancelFunc
	viewers map[*viewer]bool
	last    *liveView // nil: the page has not been read yet, or not since the database was away
	news    chan struct{}
}

// viewer is one stream. The hub closes its channel when the viewer must start anew, or when no more events will come.
type viewer struct{ events chan string }

// feedKey names the subscription to the news of one run, which all topics about that run share.
type feedKey struct {
	run  queue.RunID
	logs bool
}

type feed struct {
	topics map[*topic]bool
	end    context.CancelFunc
}

// join adds a viewer of the page that source reads, and starts the reading with the first viewer. The viewer gets the newest view
// at once, if the page has been read. The caller calls the returned function to remove the viewer. join returns nil twice if there
// are maxStreams viewers.
func (h *hub) join(store *queue.Store, source liveSource) (*viewer, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers >= maxStreams {
		return nil, nil
	}
	t := h.topics[source.key]
	if t == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t = &topic{source: source, end: cancel, viewers: map[*viewer]bool{}, news: make(chan struct{}, 1)}
		h.topics[source.key] = t
		h.subscribe(store, t)
		go h.keep(ctx, t)
	}
	v := &viewer{events: make(chan string, streamBacklog)}
	t.viewers[v] = true
	h.viewers++
	if t.last != nil {
		v.events <- t.last.whole()
	}
	return v, func() { h.leave(t, v) }
}

func (h *hub) leave(t *topic, v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(t, v)
	if len(t.viewers) == 0 && h.topics[t.source.key] == t {
		delete(h.topics, t.source.key)
		t.end()
		h.unsubscribe(t)
	}
}

// drop removes a viewer from t and closes its events, which ends its stream. A viewer that is gone already is no error. The
// caller holds mu.
func (h *hub) drop(t *topic, v *viewer) {
	if t.viewers[v] {
		delete(t.viewers, v)
		close(v.events)
		h.viewers--
	}
}

func (h *hub) subscribe(store *queue.Store, t *topic) {
	if t.source.run == 0 {
		return
	}
	key := feedKey{t.source.run, t.source.logs}
	f := h.feeds[key]
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &feed{topics: map[*topic]bool{}, end: cancel}
		h.feeds[key] = f
		go func() {
			// Listen returns when the last topic has gone, or the store is closed.
			_ = store.Listen(ctx, key.run, key.logs, func() { h.tell(f) })
		}()
	}
	f.topics[t] = true
}

func (h *hub) unsubscribe(t *topic) {
	key := feedKey{t.source.run, t.source.logs}
	if f := h.feeds[key]; f != nil {
		delete(f.topics, t)
		if len(f.topics) == 0 {
			delete(h.feeds, key)
			f.end()
		}
	}
}

func (h *hub) tell(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range f.topics {
		select {
		case t.news <- struct{}{}:
		default: // an earlier news has not been read yet
		}
	}
}

// keep reads the page of t at once and then again and again, and sends the changed regions. It returns when the last viewer has
// gone, or when the page will not change any more. It reads after news of the run, and without news every lookAnyway, or every
// listInterval for a page of no run.
//
// Between two reads it pauses for at least liveShare times the duration of a read. It takes the shorter of the last two durations,
// where a failed read counts as 0, because a long read may only have waited for the end of an outage.
func (h *hub) keep(ctx context.Context, t *topic) {
	pause := listInterval
	if t.source.run != 0 {
		pause = lookAnyway
	}
	for last := time.Duration(0); ; {
		began := time.Now()
		over, away := h.look(ctx, t)
		took := time.Since(began)
		switch {
		case over || ctx.Err() != nil:
			return
		case away:
			last = 0
			wait(ctx, awayInterval, nil)
			continue
		}
		wait(ctx, max(liveInterval, liveShare*min(last, took)), nil)
		last = took
		wait(ctx, pause, t.news)
	}
}

// wait returns when d has passed, when there is news, or when ctx ends. A nil channel has no news.
func wait(ctx context.Context, d time.Duration, news <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-news:
	case <-timer.C:
	}
}

// look reads the page once, sends its changes, and keeps what it read in t.last. It returns over if keep must end, because the run
// is over, the page can no longer be read, or ctx has ended. It returns away if the database did not answer: it tells the viewers,
// and the next look sends the whole page.
func (h *hub) look(ctx context.Context, t *topic) (over, away bool) {
	within, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	next, err := t.source.read(within)
	if ctx.Err() != nil {
		return true, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if p := problemOf(err); p.status != http.StatusServiceUnavailable {
			h.send(t, event("gone", p.message))
			h.endAll(t)
			return true, false
		}
		t.last = nil // the next read sends all, so that viewers see that the database is back
		h.send(t, event("away", ""))
		return false, true
	}
	if text := next.since(t.last); text != "" {
		h.send(t, text)
	}
	t.last = next
	if next.over {
		h.send(t, event("over", ""))
		h.endAll(t)
	}
	return next.over, false
}

// send gives an event to all viewers of t, and waits for none. It drops a viewer with a full backlog, and the browser then opens a
// new stream. The caller holds mu.
func (h *hub) send(t *topic, text string) {
	for v := range t.viewers {
		select {
		case v.events <- text:
		default:
			h.drop(t, v)
		}
	}
}

// endAll ends the streams of all viewers of t, and removes t from the hub. The caller holds mu.
func (h *hub) endAll(t *topic) {
	for v := range t.viewers {
		h.drop(t, v)
	}
	if h.topics[t.source.key] == t {
		delete(h.topics, t.source.key)
		h.unsubscribe(t)
	}
}

// event returns one event of a stream in its wire format.
func event(name, data string) string {
	return "event: " + name + "\ndata: " + strings.ReplaceAll(data, "\n", "\ndata: ") + "\n\n"
}

// whole returns the events that bring all regions of a page, and all lines of its log.
func (v *liveView) whole() string {
	var b strings.Builder
	for _, name := range v.order {
		b.WriteString(event(cmp.Or(v.event, "region"), v.regions[name]))
	}
	if v.log != nil {
		b.WriteString(event("region", v.log.whole))
	}
	return b.String()
}

// since returns the events that bring the regions with other HTML than in last, and the new lines of the log. If last is nil, it
// returns whole.
func (v *liveView) since(last *liveView) string {
	if last == nil {
		return v.whole()
	}
	var b strings.Builder
	for _, name := range v.order {
		if v.regions[name] != last.regions[name] {
			b.WriteString(event(cmp.Or(v.event, "region"), v.regions[name]))
		}
	}
	if v.log != nil {
		b.WriteString(v.log.since(last.log))
	}
	return b.String()
}

// lines is the data of an event with new lines of a log.
type lines struct {
	HTML  string `json:"html"`
	Count string `json:"count"`
}

// since returns the event that brings the lines that are new since last, or to which the task has added; "" if there are none. It
// brings all lines of l if last is nil or of another attempt, or if lines between the two are missing.
func (l *liveLog) since(last *liveLog) string {
	if last == nil || last.attempt != l.attempt || last.last > 0 && l.first > last.last+1 {
		return event("region", l.whole)
	}
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(l.lines)) {
		if l.lines[n] != last.lines[n] && (n > last.last || last.lines[n] != "") { // the line is new, or the task has added to it
			b.WriteString(l.lines[n])
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return event("lines", runview.CompactJSON(lines{b.String(), l.count}))
}

// stream sends the page as events, at first and after each change. It returns when the browser disconnects, when it falls too far
// behind, or when the page will not change any more. It refuses a viewer beyond maxStreams.
func (s *server) stream(w http.ResponseWriter, r *http.Request, source liveSource) error {
	v, leave := s.hub.join(s.store, source)
	if v == nil {
		w.Header().Set("Retry-After", "10")
		return &refusal{status: http.StatusServiceUnavailable, message: "This server follows too many pages live.", hint: "Load the page again to see its present state."}
	}
	defer leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(text string) error {
		if err := out.SetWriteDeadline(time.Now().Add(streamTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("set the deadline of a stream: %w", err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return fmt.Errorf("write to a stream: %w", err)
		}
		return out.Flush()
	}
	if send(fmt.Sprintf("retry: %d\n\n", reconnectAfter)) != nil {
		return nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		text := ": \n\n"
		select {
		case <-r.Context().Done():
			return nil
		case event, more := <-v.events:
			if !more {
				return nil
			}
			text = event
		case <-beat.C:
		}
		if send(text) != nil {
			return nil // the browser has disconnected
		}
	}
}
