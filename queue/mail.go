package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

var readMail = sql.Named("queue/mail")

// ReadMail reads what is asked of claimed runs, in the order given; nil stands for a claim that is gone.
func (s *Session) ReadMail(ctx context.Context, claims []*Claim) ([]*Mailbox, error) {
	mail := make([]*Mailbox, 0, len(claims))
	for len(mail) < len(claims) {
		part, err := s.mailOf(ctx, claims[len(mail):min(len(mail)+loadBatch, len(claims))])
		if err != nil {
			return nil, fmt.Errorf("read mail: %w", err)
		}
		mail = append(mail, part...)
	}
	return mail, nil
}

func (s *Session) mailOf(ctx context.Context, claims []*Claim) (mail []*Mailbox, err error) {
	err = s.reads.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, readMail, namesOf(claims))
		if err == nil {
			mail, err = collectMail(rows, claims)
		}
		return err
	})
	return mail, err
}

// namesOf are claims as two arrays.
func namesOf(claims []*Claim) pgx.StrictNamedArgs {
	runs, ids := make([]int64, len(claims)), make([]uuid.UUID, len(claims))
	for i, c := range claims {
		runs[i], ids[i] = int64(c.Run), c.ID
	}
	return pgx.StrictNamedArgs{"runs": runs, "claims": ids}
}

// mailRow is a control of a run, or the run alone.
type mailRow struct {
	Run        RunID
	Inbox      int64
	ID         *int64
	Verb       *string
	Step, Item string
	Args       []byte
	By         *string
	At         *time.Time
}

func collectMail(rows pgx.Rows, claims []*Claim) ([]*Mailbox, error) {
	read, err := pgx.CollectRows(rows, pgx.RowToStructByPos[mailRow])
	if err != nil {
		return nil, err
	}
	byRun := make(map[RunID]*Mailbox, len(claims))
	for i := range read {
		if err := read[i].into(byRun); err != nil {
			return nil, err
		}
	}
	mail := make([]*Mailbox, len(claims))
	for i, c := range claims {
		mail[i] = byRun[c.Run]
	}
	return mail, nil
}

func (r *mailRow) into(byRun map[RunID]*Mailbox) error {
	box := byRun[r.Run]
	if box == nil {
		box = &Mailbox{Inbox: r.Inbox}
		byRun[r.Run] = box
	}
	if r.ID == nil {
		return nil
	}
	verb, err := dagrun.ParseVerb(*r.Verb)
	if err != nil {
		return fmt.Errorf("control %d: %w", *r.ID, err)
	}
	box.Controls = append(box.Controls, Control{
		ID: *r.ID, Run: r.Run, Verb: verb, Step: r.Step, Item: r.Item, Args: json.RawMessage(r.Args), By: *r.By, At: *r.At,
	})
	return nil
}
