package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
)

var (
	// ahead matches what may stand before the first word of a statement: spaces, comments without nested ones, semicolons.
	ahead = regexp.MustCompile(`^(?:[\s;\v]+|--[^\n]*(?:\n|$)|/\*(?s:.*?)\*/)+`)
	words = regexp.MustCompile(`[A-Za-z_]+`)
	stdio = regexp.MustCompile(`(?i)\b(?:stdin|stdout)\b`)
)

// check returns an error for a statement that is empty, would begin or end a transaction, or waits for data from a client. It runs
// before anything is sent, and looks mostly at the first words; execute notices an end of the transaction that check misses.
func (s statement) check() error {
	text := ahead.ReplaceAllString(s.sql, "")
	if text == "" {
		return errors.New("there is nothing to execute")
	}
	first := strings.ToLower(strings.Join(words.FindAllString(text[:min(len(text), 200)], 4), " "))
	switch {
	case begins(first, "begin", "start transaction", "commit", "end", "abort", "prepare transaction"), begins(first, "rollback") && !strings.Contains(first, " to"):
		return errors.New("all statements of a step are one transaction, which begins and commits by itself: remove this statement")
	case begins(first, "copy") && stdio.MatchString(text):
		return errors.New("COPY has no STDIN or STDOUT in this action: use INSERT or SELECT, or psql in a run: step")
	}
	return nil
}

func begins(text string, with ...string) bool {
	return slices.ContainsFunc(with, func(w string) bool { return text == w || strings.HasPrefix(text, w+" ") })
}

// run executes the statements of a query in order, and returns the rows of the last one. It stops at the first error, which it
// returns as a statementError.
func (t *transaction) run(ctx context.Context, q *query) (*rows, error) {
	collected := &rows{query: q}
	for i, s := range q.statements {
		to := collected
		if i < len(q.statements)-1 {
			to = nil
		}
		if err := t.execute(ctx, s, to); err != nil {
			return nil, &statementError{place: q.place(i), statement: s, err: err}
		}
	}
	return collected, nil
}

// execute sends s by the extended query protocol, so that s cannot hold a second statement. It sends all values in the text format
// of the type that the server expects. Rows go to to; a nil to discards them. If the statement ended the transaction, execute
// returns a permanent failure.
func (t *transaction) execute(ctx context.Context, s statement, to *rows) error {
	conn := t.session.conn.PgConn()
	described, err := conn.Prepare(ctx, "", s.sql, nil)
	if err != nil {
		return err
	}
	values, err := s.values(described.ParamOIDs)
	if err != nil {
		return &failure{kind: dagrun.KindConfig, reason: err.Error()}
	}
	if to != nil {
		if err := to.begin(described.Fields); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tag, err := to.read(conn.ExecPrepared(ctx, "", values, nil, nil), stop)
	if conn.TxStatus() == idle || endsTransaction(tag) {
		return &failure{kind: dagrun.KindSQL, reason: "the statement ended the transaction: the statements before it were not rolled back", permanent: true}
	}
	return err
}

// read adds all rows of a result to r, sets r.affected, and closes the result. If a row is too much, it calls stop and returns the
// error of add. A nil r discards the rows. tag says which command the server has executed.
func (r *rows) read(result *pgconn.ResultReader, stop context.CancelFunc) (tag pgconn.CommandTag, err error) {
	for result.NextRow() {
		if r == nil || err != nil {
			continue
		}
		if err = r.add(result.Values()); err != nil {
			stop()
		}
	}
	tag, closing := result.Close()
	if err != nil {
		return tag, err
	}
	if r != nil {
		r.affected = tag.RowsAffected()
	}
	return tag, closing
}

// endsTransaction reports whether a statement ended the transaction, by its command tag. The status of the connection does not
// show COMMIT AND CHAIN.
func endsTransaction(tag pgconn.CommandTag) bool {
	return slices.Contains([]string{"COMMIT", "PREPARE TRANSACTION"}, tag.String()) // sql-shown: command tags of the server
}

// values returns the params in the text format of the types that the server expects. It returns an error if the numbers of params
// and types differ, or a value cannot be sent.
func (s statement) values(types []uint32) ([][]byte, error) {
	if len(s.params) != len(types) {
		return nil, fmt.Errorf("the statement has %d parameters, but params has %d values", len(types), len(s.params))
	}
	values := make([][]byte, len(types))
	for i, p := range s.params {
		value, err := encode(types[i], p)
		if err != nil {
			return nil, fmt.Errorf("$%d: %w", i+1, err)
		}
		values[i] = value
	}
	return values, nil
}
