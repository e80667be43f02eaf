package queue

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

var actorSQL = sql.Named("queue/actor")

type actorKey struct{}

// WithActor has what a Store writes recorded as asked by a person, through the login that the store has. The database believes
// members of the role oarlock_web, and passes over the actor of anybody else. What may be done goes by the login all the same.
func WithActor(ctx context.Context, name string) context.Context {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, ""), "\x00", "") // what Postgres takes for no text
	return context.WithValue(ctx, actorKey{}, name)
}

// asActor does something for the actor of a context. The setting ends with the transaction, so that a pooler may lend the
// connection to others.
func asActor(ctx context.Context, conn *pgxpool.Conn, do ask) error {
	name, _ := ctx.Value(actorKey{}).(string)
	if name == "" {
		return do(ctx, conn)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, actorSQL, pgx.StrictNamedArgs{"actor": name}); err != nil {
			return err
		}
		return do(ctx, conn)
	})
}
