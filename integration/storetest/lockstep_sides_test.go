package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// lockstep is a database that sequences use one after the other, each with its own names.
type lockstep struct {
	db       *pgtest.DB
	store    *queue.Store
	fleet    *queue.Store
	pool     *pgxpool.Pool
	user     string
	sequence int
	done     map[string]int // by verb: how often a call did something
	plant    bool           // compare with a second store in memory that has a fault, instead of Postgres
}

func newLockstep(t *testing.T) *lockstep {
	t.Helper()
	l := &lockstep{db: pgtest.NewWithRoles(t), done: map[string]int{}}
	login := l.db.Login(t, "oarlock_worker")
	l.store, l.fleet = open(t, l.db.URL), open(t, login)
	var err error
	if l.pool, err = pgxpool.New(t.Context(), login); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.pool.Close)
	if err := l.db.Conn(t).QueryRow(t.Context(), "SELECT session_user").Scan(&l.user); err != nil {
		t.Fatal(err)
	}
	return l
}

// side is one of the two stores, as a sequence sees it.
type side struct {
	ctx      context.Context
	prefix   string
	client   storetest.Client
	admin    storetest.Administrator
	history  storetest.Historian
	logs     storetest.LogReader
	enroll   func(context.Context, queue.Worker) (storetest.Session, error)
	settleBy func(context.Context, storetest.Session, queue.Settlement) error
	now      func() time.Time
	tick     func()

	runs    []queue.RunID // in the order in which the sequence got to know them
	workers [lockstepWorkers]*mate
	gone    []past
}

func (l *lockstep) sides(t *testing.T) (sides [2]*side) {
	t.Helper()
	sides[0] = l.inMemory(t)
	if l.plant {
		sides[1] = l.inMemory(t)
		sides[1].admin = forgetful{sides[1].admin}
	} else {
		sides[1] = l.inPostgres(t)
	}
	for _, s := range sides {
		s.prefix = fmt.Sprintf("s%d-", l.sequence)
		for i, source := range lockstepDAGs {
			source = strings.ReplaceAll(source, "$P", s.prefix)
			spec, err := dagspec.Parse(lockstepNames[i]+".yaml", []byte(source))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.client.PutDAG(s.ctx, spec, source, "lockstep.yaml"); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sides
}

// forgetful does not pause queues when it is asked to.
type forgetful struct{ storetest.Administrator }

func (f forgetful) SetQueue(ctx context.Context, c queue.QueueChange) error {
	c.Paused = nil
	return f.Administrator.SetQueue(ctx, c)
}

func (l *lockstep) inMemory(t *testing.T) *side {
	t.Helper()
	clock := &clock{now: time.Now()}
	m := storetest.NewMemory(storetest.Options{Now: clock.Now, User: l.user})
	sessions := map[storetest.Lease]*storetest.MemorySession{}
	return &side{
		ctx: t.Context(), client: m, admin: m, history: m, logs: m, now: clock.Now, tick: func() { clock.advance(5 * time.Millisecond) },
		enroll: func(ctx context.Context, w queue.Worker) (storetest.Session, error) {
			s, err := m.Register(ctx, w)
			if err != nil {
				return storetest.Session{}, err
			}
			sessions[s] = s
			return s.Roles(), nil
		},
		settleBy: func(ctx context.Context, s storetest.Session, set queue.Settlement) error {
			return sessions[s.Lease].Settle(ctx, set)
		},
	}
}

func (l *lockstep) inPostgres(t *testing.T) *side {
	t.Helper()
	return &side{
		ctx: t.Context(), client: l.store, admin: l.store, history: l.store, logs: l.fleet, now: time.Now, tick: func() {},
		enroll: func(ctx context.Context, w queue.Worker) (storetest.Session, error) {
			s, err := l.fleet.Register(ctx, w)
			if err != nil {
				return storetest.Session{}, err
			}
			return storetest.Session{Claimer: s, Reader: s, Journal: s, Lease: s, LogSink: s}, nil
		},
		settleBy: func(ctx context.Context, s storetest.Session, set queue.Settlement) error {
			journal, ok := s.Journal.(*queue.Session)
			if !ok {
				return errors.New("no session of a database")
			}
			return settleIn(l.pool)(ctx, storetest.Session{Journal: journal}, set)
		},
	}
}

// leave closes the sessions of all workers, replaced ones too.
func (s *side) leave() {
	for _, w := range s.workers {
		if w != nil {
			_ = w.session.Close(s.ctx)
		}
	}
	for _, p := range s.gone {
		_ = p.session.Close(s.ctx)
	}
}

// number returns the sequence's number of a run: runs count in the order in which the sequence got to know them.
func (s *side) number(run queue.RunID) int {
	if run == 0 {
		return 0
	}
	i := slices.Index(s.runs, run)
	if i < 0 {
		s.runs = append(s.runs, run)
		i = len(s.runs) - 1
	}
	return i + 1
}

// claim returns the part of a claim in which both stores must agree.
func (s *side) claim(c *queue.Claim) map[string]any {
	return map[string]any{
		"run": s.number(c.Run), "epoch": c.Epoch, "inbox": c.Inbox, "dag": c.DAG, "version": c.Version, "queue": c.Queue, "priority": c.Priority,
		"losses": c.Losses, "params": c.Params, "labels": c.Labels, "trigger": c.Trigger, "by": c.SubmittedBy, "key": c.Key,
		"parent": s.number(c.Parent), "root": s.number(c.Root), "depth": c.Depth, "row": c.Row, "lost": isClosed(c.Lost()),
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// all returns everything that a store reports about a run.
func (s *side) all(run queue.RunID) any {
	r, err := s.client.Get(s.ctx, run)
	if err != nil {
		return err
	}
	if r.State == "queued" || r.State == "scheduled" || r.State == "waiting" || r.State == "paused" {
		r.Reason = "" // only one of the stores explains why a run waits
	}
	if !r.Over() || r.Reason == "internal: "+errUndrivable.Error() {
		r.Counts = dagrun.Counts{} // of the last drive that ended, or of the present one
	}
	tasks, err1 := s.client.Tasks(s.ctx, run)
	result, err2 := s.client.Result(s.ctx, run)
	attempts, err3 := s.history.Attempts(s.ctx, run)
	controls, err4 := s.history.Controls(s.ctx, run)
	events, err5 := s.history.Events(s.ctx, run, 0)
	if result != nil {
		result.Reason = r.Reason
	}
	return map[string]any{
		"run": r, "tasks": tasks, "result": result, "attempts": attempts, "controls": controls, "events": events,
		"errors": errors.Join(err1, err2, err3, err4, err5),
	}
}

func (s *side) everything() string {
	var shown []any
	for len(shown) < len(s.runs) { // reading a run may reveal more runs
		shown = append(shown, s.all(s.runs[len(shown)]))
	}
	return s.normal(shown)
}

// normal spells an answer without the parts that may differ: ids, times, and the prefix of the sequence.
func (s *side) normal(answer any) string {
	raw, err := json.Marshal(s.plain(reflect.ValueOf(answer)))
	if err != nil {
		panic(fmt.Sprintf("%#v: %v", answer, err))
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return uidInText.ReplaceAllString(strings.ReplaceAll(string(text), s.prefix, ""), "a uid")
}

var uidInText = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)

// momentInText matches the end of a timer, which each store gives by its own clock.
var momentInText = regexp.MustCompile(`\bwaits until \w+`)

var runInText = regexp.MustCompile(`\b(run|oarlock retry) (\d+)\b`)

// plain returns a value as JSON can have it.
func (s *side) plain(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch known := v.Interface().(type) {
	case json.RawMessage:
		return s.document(known)
	case dagrun.JSON:
		return s.document([]byte(known))
	case error:
		return said(known)
	case time.Time:
		return !known.IsZero()
	case queue.RunID:
		return s.number(known)
	case []byte:
		return string(known)
	case fmt.Stringer:
		if v.Kind() != reflect.Struct && v.Kind() != reflect.Pointer {
			return known.String()
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return s.plain(v.Elem())
	case reflect.Slice:
		all := make([]any, 0, v.Len())
		for i := range v.Len() {
			all = append(all, s.plain(v.Index(i)))
		}
		return all
	case reflect.Map:
		all := map[string]any{}
		for _, key := range v.MapKeys() {
			all[key.String()] = s.plain(v.MapIndex(key))
		}
		return all
	case reflect.Struct:
		return s.fields(v)
	case reflect.String:
		return s.text(v.String())
	default:
		return v.Interface()
	}
}

// fields returns the fields of a struct, without numbers that each store chooses itself. Of a time only its presence
// stays.
func (s *side) fields(v reflect.Value) any {
	all := map[string]any{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || field.Name == "ID" && field.Type.Kind() == reflect.Int64 && field.Type.Name() == "int64" {
			continue
		}
		value := v.Field(i)
		switch {
		case v.Type() == reflect.TypeFor[dagrun.RunRecord]() && field.Name == "Counts": // each drive counts them anew
		case field.Type.Name() == "Time" && field.Type.Kind() == reflect.Int64:
			all[field.Name] = value.Int() != 0
		case field.Name == "Ref" && value.String() != "":
			ref, err := strconv.ParseInt(value.String(), 10, 64)
			if err != nil {
				panic(err)
			}
			all[field.Name] = s.number(queue.RunID(ref))
		default:
			all[field.Name] = s.plain(value)
		}
	}
	return all
}

// document decodes stored JSON, so that spelling does not matter. It returns nil where there is none.
func (s *side) document(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return string(raw)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if ref, ok := object["ref"].(string); ok {
		n, err := strconv.ParseInt(ref, 10, 64)
		if err == nil {
			object["ref"] = s.number(queue.RunID(n))
		}
	}
	return object
}

func (s *side) text(t string) string {
	if strings.HasPrefix(t, "oarlock:child:") { // the marker by which one of the stores finds children again
		return ""
	}
	t = momentInText.ReplaceAllString(t, "waits until then")
	return runInText.ReplaceAllStringFunc(t, func(found string) string {
		digits := strings.LastIndexByte(found, ' ') + 1
		n, err := strconv.ParseInt(found[digits:], 10, 64)
		if err != nil {
			return found
		}
		return fmt.Sprintf("%sr%d", found[:digits], s.number(queue.RunID(n)))
	})
}

// said returns the parts of an error that callers branch on.
func said(err error) string {
	for _, is := range []error{
		errAbandoned, queue.ErrLeaseLost, queue.ErrInboxMoved, queue.ErrRefused, queue.ErrClosed, queue.ErrUnknown, queue.ErrNotFound, queue.ErrConflict,
	} {
		if errors.Is(err, is) {
			return is.Error()
		}
	}
	if refused, ok := errors.AsType[*queue.Error](err); ok {
		return refused.Code
	}
	return err.Error()
}
