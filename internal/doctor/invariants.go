package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	invariantsFolder = "invariants/"
	secondLook       = time.Second // what is under way when it is looked at may be seen half
)

// invariantNames are those of the statements that return no rows as long as all is well.
func invariantNames() []string {
	return slices.DeleteFunc(sql.Names(), func(name string) bool { return !strings.HasPrefix(name, invariantsFolder) })
}

// invariants looks whether what must always hold of runs does. A row counts that is there at a second look, too.
func (x *examination) invariants(ctx context.Context) Check {
	err := migrations.Check(ctx, x.conn)
	if c := unseen(err); c != nil {
		return *c
	}
	if err != nil {
		return skip("%s", Explain(err))
	}
	names := invariantNames()
	var broken []string
	for i, name := range names {
		rows, err := x.brokenTwice(ctx, name)
		switch {
		case ctx.Err() != nil:
			return skip("%d of %d hold; the rest takes longer than %s to look at here", i-len(broken), len(names), checkTimeout)
		case mayNot(err):
			return *unseen(err)
		case err != nil:
			return skip("%s: %s", strings.TrimPrefix(name, invariantsFolder), Explain(err))
		case len(rows) > 0:
			broken = append(broken, fmt.Sprintf("%s (%d, the first: %s)", strings.TrimPrefix(name, invariantsFolder), len(rows), rows[0]))
		}
	}
	if len(broken) > 0 {
		return fail("broken: %s", strings.Join(broken, "; ")).todo("a run was written to in a way that must not happen: report it with what `oarlock events RUN` says")
	}
	return ok("all %d hold", len(names))
}

// brokenTwice is the rows that both looks see, each as text.
func (x *examination) brokenTwice(ctx context.Context, name string) ([]string, error) {
	first, err := x.brokenBy(ctx, name)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	timer := time.NewTimer(secondLook)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	second, err := x.brokenBy(ctx, name)
	return slices.DeleteFunc(second, func(row string) bool { return !slices.Contains(first, row) }), err
}

func (x *examination) brokenBy(ctx context.Context, name string) ([]string, error) {
	rows, err := x.conn.Query(ctx, sql.Named(name))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := pgx.RowToMap(row)
		return strings.TrimPrefix(fmt.Sprint(values), "map"), err
	})
}
