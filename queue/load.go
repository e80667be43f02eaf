package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of one round trip. A run is loaded as a whole, so the last run of a trip may exceed the bytes.
const (
	loadBatch = 200      // claims
	loadBytes = 16 << 20 // of mail, and again of tasks
)

var (
	readMail  = sql.Named("queue/mail")
	loadTasks = sql.Named("queue/load_tasks")
)

// Load reads the state that earlier drives left of claimed runs, with their mailboxes, in the order of claims. It returns nil in
// the place of a claim that is gone. A run that cannot be read counts as gone too, and DoChores gives it back for other workers.
func (s *Session) Load(ctx context.Context, claims []*Claim) ([]*Loaded, error) {
	loaded := make([]*Loaded, 0, len(claims))
	for len(loaded) < len(claims) {
		l := s.loading(claims[len(loaded):])
		if err := l.run(ctx); err != nil {
			return nil, fmt.Errorf("load runs: %w", err)
		}
		loaded = append(loaded, l.loaded()...)
	}
	return loaded, nil
}

// ReadMail reads the mailboxes of claimed runs, in the order of claims. It returns nil in the place of a claim that is gone. A
// run with a control that cannot be read counts as gone too, and DoChores gives it back for other workers.
func (s *Session) ReadMail(ctx context.Context, claims []*Claim) ([]*Mailbox, error) {
	mail := make([]*Mailbox, 0, len(claims))
	for len(mail) < len(claims) {
		l := s.loading(claims[len(mail):])
		l.loadedTo = len(l.claims) // ReadMail reads no tasks
		if err := l.run(ctx); err != nil {
			return nil, fmt.Errorf("read mail: %w", err)
		}
		for _, loaded := range l.loaded() {
			if loaded == nil {
				mail = append(mail, nil)
			} else {
				mail = append(mail, &loaded.Mailbox)
			}
		}
	}
	return mail, nil
}

// loading is a Load or ReadMail of some claims that is under way.
type loading struct {
	session  *Session
	claims   []*Claim
	mailedTo int // number of claims with their mail read
	loadedTo int // number of claims with their tasks read
	byRun    map[RunID]*Loaded
	mailed   map[RunID]bool
	odd      map[RunID]error // runs that cannot be read, with the reason
}

// loading begins a Load of the first loadBatch claims, or of all if there are fewer. It reads nothing yet.
func (s *Session) loading(claims []*Claim) *loading {
	l := &loading{session: s, claims: claims[:min(loadBatch, len(claims))], mailed: map[RunID]bool{}, odd: map[RunID]error{}}
	l.byRun = make(map[RunID]*Loaded, len(l.claims))
	for _, c := range l.claims {
		l.byRun[c.Run] = &Loaded{Saved: dagrun.Saved{Run: c.Row}}
	}
	return l
}

// run reads the mail and the tasks of all l.claims; loaded returns the results. It makes as many round trips as necessary: one if
// nothing is large. Mail and tasks may come from different moments, because only the claim's owner, the caller, writes the tasks.
func (l *loading) run(ctx context.Context) error {
	for l.mailedTo < len(l.claims) || l.loadedTo < len(l.claims) {
		if err := l.session.reads.use(ctx, l.next); err != nil {
			return err
		}
	}
	return nil
}

// next makes one round trip, for the claims with mail or tasks still to read.
func (l *loading) next(ctx context.Context, conn *pgx.Conn) (err error) {
	var batch pgx.Batch
	mail, tasks := l.mailedTo < len(l.claims), l.loadedTo < len(l.claims)
	if mail {
		batch.Queue(readMail, partsOf(l.claims[l.mailedTo:]))
	}
	if tasks {
		batch.Queue(loadTasks, partsOf(l.claims[l.loadedTo:]))
	}
	results := conn.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	if mail {
		if err := l.read(results, &l.mailedTo, l.takeMail); err != nil {
			return err
		}
	}
	if tasks {
		return l.read(results, &l.loadedTo, l.takeTask)
	}
	return nil
}

func partsOf(claims []*Claim) pgx.StrictNamedArgs {
	args := namesOf(claims)
	args["bytes"] = loadBytes
	return args
}

// read passes the rows of the next statement in results to take. The statement was about the claims from *to on, and its answer
// may be complete only for the first of them. take sets upto to the number of these. Without rows the answer is complete for all.
// read then adds that number to *to.
func (l *loading) read(results pgx.BatchResults, to *int, take func(row pgx.CollectableRow, upto *int) error) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	more := len(l.claims) - *to
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, take(row, &more) })
	*to += more
	return err
}

func (l *loading) takeMail(row pgx.CollectableRow, upto *int) error {
	var m mailRow
	if err := row.Scan(upto, &m.run, &m.inbox, &m.id, &m.verb, &m.step, &m.item, &m.args, &m.by, &m.at); err != nil {
		return err
	}
	l.mailed[m.run] = true
	if err := m.into(&l.byRun[m.run].Mailbox); err != nil {
		l.odd[m.run] = err
	}
	return nil
}

func (l *loading) takeTask(row pgx.CollectableRow, upto *int) error {
	var t taskRow
	if err := row.Scan(append([]any{upto}, t.targets()...)...); err != nil {
		return err
	}
	if err := l.byRun[t.run].take(&t); err != nil {
		l.odd[t.run] = err
	}
	return nil
}

// loaded returns the results in the order of l.claims, once run has succeeded. It returns nil in the place of a claim that is
// gone or that cannot be read. It forfeits a claim that cannot be read, and leaves it to DoChores.
func (l *loading) loaded() []*Loaded {
	loaded := make([]*Loaded, len(l.claims))
	for i, c := range l.claims {
		switch why := l.odd[c.Run]; {
		case why != nil:
			l.session.x.addUnreadable(c, why)
		case l.mailed[c.Run]:
			loaded[i] = l.byRun[c.Run]
		}
	}
	return loaded
}

// take adds a stored task to l.Saved. If its log goes on, it adds the end of the log to l.Logs. If it has a result that is not
// recorded yet, it adds that to l.Settled. An error means that this version cannot read the task.
func (l *Loaded) take(t *taskRow) error {
	record, err := t.record()
	if err != nil {
		return fmt.Errorf("step %d: %w", record.ID.Step, err)
	}
	l.Saved.Tasks = append(l.Saved.Tasks, record)
	if t.day != nil && (record.State == dagrun.TaskRunning || record.LogGoesOn()) {
		l.Logs = append(l.Logs, LogEnd{Task: record.ID, Attempt: record.Attempt, Day: *t.day, Next: t.next, Lines: t.lines, Final: t.final})
	}
	return t.settle(&record, l)
}

// namesOf returns the arguments that name claims in a statement: their runs and their ids, as two arrays of the same order.
func namesOf(claims []*Claim) pgx.StrictNamedArgs {
	runs, ids := make([]int64, len(claims)), make([]uuid.UUID, len(claims))
	for i, c := range claims {
		runs[i], ids[i] = int64(c.Run), c.ID
	}
	return pgx.StrictNamedArgs{"runs": runs, "claims": ids}
}

// mailRow is one control of a run, or only the run if it has none.
type mailRow struct {
	run        RunID
	inbox      int64
	id         *int64
	verb       *string
	step, item string
	args       []byte
	by         *string
	at         *time.Time
}

func (r *mailRow) into(box *Mailbox) error {
	box.Inbox = r.inbox
	if r.id == nil {
		return nil
	}
	verb, err := dagrun.ParseVerb(*r.verb)
	if err != nil {
		return fmt.Errorf("control %d: %w", *r.id, err)
	}
	box.Controls = append(box.Controls, Control{
		ID: *r.id, Run: r.run, Verb: verb, Step: r.step, Item: r.item, Args: json.RawMessage(r.args), By: *r.by, At: *r.at,
	})
	return nil
}

// maxCacheKey is the longest cache key that is stored unchanged. An index does not take texts of any length.
const maxCacheKey = 500

var readCached = sql.Named("queue/cached")

// Cached returns the outputs that an earlier task of a step stored under a cache key. found is false if there are none, or if
// they have expired. The task must be of the same DAG and, unless shared is set, of the same submitter as the run. Every worker
// finds the outputs that another worker passed to Commit as a Keep.
func (s *Session) Cached(ctx context.Context, run RunID, step, key string, shared bool) (outputs dagrun.JSON, found bool, err error) {
	var stored []byte
	err = s.reads.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, readCached, pgx.StrictNamedArgs{"run": run, "step": step, "key": cacheKey(key), "shared": shared}).Scan(&stored)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	if err == nil {
		outputs, err = compact(stored)
	}
	if err != nil {
		return "", false, fmt.Errorf("look for a result of step %s: %w", step, err)
	}
	return outputs, true, nil
}

// cacheKey returns a key as it is stored: unchanged up to maxCacheKey bytes, and a hash of it if it is longer.
func cacheKey(key string) string {
	if len(key) <= maxCacheKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}
