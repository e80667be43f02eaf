package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	statement "github.com/oarlock-dev/oarlock/sql"
)

// MaxOpen bounds how many open runs InUse counts.
const MaxOpen = 100_000

// Use says who would miss a schema that is taken down.
type Use struct {
	Workers []string // that gave a sign of life within their lease, by name
	Runs    int64    // that are not over; MaxOpen of them may be more
}

var inUseSQL = statement.Named("migrate/in_use")

// InUse says who works with the schema now. Nobody does where there are no tables. It changes nothing.
func InUse(ctx context.Context, url string, opts ...Option) (use Use, err error) {
	config := newConfig(opts)
	link, err := pglink.Parse(url, pglink.Options{AppName: "oarlock migrate", Log: config.log})
	if err != nil {
		return use, err
	}
	conn, err := pglink.Dial(ctx, link, nil)
	if err != nil {
		return use, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, inUseSQL, pgx.QueryExecModeExec, MaxOpen).Scan(&use.Workers, &use.Runs)
	if isUndefined(err) {
		return Use{}, nil
	}
	if err != nil {
		return use, fmt.Errorf("look who works with the schema: %w", err)
	}
	return use, nil
}
