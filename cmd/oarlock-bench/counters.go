package main

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var countersSQL = sql.Named("bench/ask_counters")

// Counters are what the server has counted so far.
type Counters struct {
	Statements, Rows, Buffers float64 // of a database
	WALBytes, FullPages       float64 // of the server
}

// Names of what is counted, each per unit of work.
const (
	statementsPer = "statements per unit"
	rowsPer       = "rows per unit"
	buffersPer    = "buffers per unit"
	walPer        = "WAL bytes per unit"
	fullPagesPer  = "full-page images per unit"
)

var counts = []string{statementsPer, rowsPer, buffersPer, walPer, serverMicros, processMicros, fullPagesPer}

func isCount(metric string) bool { return slices.Contains(counts, metric) }

// counters reads them; nil where nothing is counted.
func (d *Database) counters(ctx context.Context) (*Counters, error) {
	if d == nil || !d.counting {
		return nil, nil
	}
	rows, err := d.asker.Query(ctx, countersSQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByPos[Counters])
}

// since is the difference, per unit.
func (c *Counters) since(before *Counters, units float64) Values {
	if c == nil || before == nil || units == 0 {
		return nil
	}
	return Values{
		statementsPer: (c.Statements - before.Statements) / units,
		rowsPer:       (c.Rows - before.Rows) / units,
		buffersPer:    (c.Buffers - before.Buffers) / units,
		walPer:        (c.WALBytes - before.WALBytes) / units,
		fullPagesPer:  (c.FullPages - before.FullPages) / units,
	}
}
