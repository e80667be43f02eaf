package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// Bounds of a query. Rows in outputs must be few; rows in the log may be more.
const (
	maxStatements    = 100
	defaultMaxRows   = 1000      // rows in the output rows
	defaultLogRows   = 1_000_000 // rows in the log
	maxOutputBytes   = 1 << 20   // of all outputs of a task
	defaultLogBytes  = 16 << 20  // of rows in the log; held in memory until COMMIT
	maxLogBytes      = 64 << 20  // the limit of an attempt's log
	timeoutAllowance = 5 * time.Second
)

// query is a step's `with`, checked.
type query struct {
	connection string
	statements []statement
	format     string // "": the rows are an output
	maxRows    int
	maxBytes   int
	options    options
}

// options are those of a transaction.
type options struct {
	statement, lock time.Duration // timeouts; 0: the server's defaults
	tx              pgx.TxOptions
}

// statement is one statement with its values.
type statement struct {
	sql    string
	params []any
}

// parse parses a step's `with`, in which references are replaced by their values, and checks the statements. An error is the fault
// of the DAG; the query must not be used then.
func parse(with map[string]any) (*query, error) {
	q := &query{connection: Own}
	if name, ok := with["connection"].(string); ok {
		q.connection = name
	}
	q.format, _ = with["format"].(string)
	return q, errors.Join(q.setStatements(with), q.setLimits(with), q.setOptions(with))
}

func (q *query) setStatements(with map[string]any) error {
	switch given := with["sql"].(type) {
	case string:
		params, _ := with["params"].([]any)
		q.statements = []statement{{given, params}}
	case []any:
		if with["params"] != nil {
			return errors.New("with.params is for a single statement: in a list, give each statement its own params: {sql: …, params: […]}")
		}
		for _, entry := range given {
			q.statements = append(q.statements, listed(entry))
		}
	}
	switch n := len(q.statements); {
	case n == 0:
		return errors.New("with.sql must be a statement, or a list of statements")
	case n > maxStatements:
		return fmt.Errorf("with.sql has %d statements: at most %d", n, maxStatements)
	}
	for i, s := range q.statements {
		if err := s.check(); err != nil {
			return fmt.Errorf("with.sql%s: %w", q.place(i), err)
		}
	}
	return nil
}

// listed returns an entry of a list of statements as a statement. The entry is a text, or a map with a text and params. For
// anything else the statement is empty, which check refuses.
func listed(entry any) (s statement) {
	switch entry := entry.(type) {
	case string:
		s.sql = entry
	case map[string]any:
		s.sql, _ = entry["sql"].(string)
		s.params, _ = entry["params"].([]any)
	}
	return s
}

// place returns a text for messages that names the statement with index i, such as ", statement 1" for 0; "" if it is the only one.
func (q *query) place(i int) string {
	if len(q.statements) == 1 {
		return ""
	}
	return fmt.Sprintf(", statement %d", i+1)
}

func (q *query) setLimits(with map[string]any) (err error) {
	q.maxRows, q.maxBytes = defaultMaxRows, maxOutputBytes
	most := maxOutputBytes
	if q.format != "" {
		q.maxRows, q.maxBytes, most = defaultLogRows, defaultLogBytes, maxLogBytes
	}
	if given, ok := with["max_rows"]; ok {
		if q.maxRows, err = strconv.Atoi(fmt.Sprint(given)); err != nil || q.maxRows < 0 {
			return fmt.Errorf("with.max_rows: %v is not 0 or more", given)
		}
	}
	if given, ok := with["max_bytes"]; ok {
		if q.maxBytes, err = strconv.Atoi(fmt.Sprint(given)); err != nil || q.maxBytes < 1 || q.maxBytes > most {
			return fmt.Errorf("with.max_bytes: %v is not from 1 to %d", given, most)
		}
	}
	return nil
}

func (q *query) setOptions(with map[string]any) (err error) {
	for name, to := range map[string]*time.Duration{"statement_timeout": &q.options.statement, "lock_timeout": &q.options.lock} {
		if text, ok := with[name].(string); ok {
			span, err := dagspec.ParseDuration(text)
			if err != nil {
				return fmt.Errorf("with.%s: %w", name, err)
			}
			*to = span.Std()
		}
	}
	level, _ := with["isolation"].(string)
	q.options.tx.IsoLevel = pgx.TxIsoLevel(level)
	if readOnly, _ := with["read_only"].(bool); readOnly {
		q.options.tx.AccessMode = pgx.ReadOnly
	}
	return nil
}

// complete returns the options of a step with the timeouts that it leaves out, taken from its connection c. If c has no statement
// timeout either, complete derives one from the timeout of step, a little longer, so that the attempt ends as timed out first. A
// nil step has no timeout.
func (o options) complete(c *database, step *dagspec.Step) options {
	o.statement, o.lock = cmp.Or(o.statement, c.StatementTimeout), cmp.Or(o.lock, c.LockTimeout)
	if o.statement == 0 && step != nil && step.Timeout != nil && step.Timeout.Value > 0 {
		o.statement = step.Timeout.Value.Std() + timeoutAllowance
	}
	return o
}
