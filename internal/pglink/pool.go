package pglink

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// NewPool makes a pool for a URL, which it reads as Parse does. It opens one connection to check that it can, and fails if it
// cannot. The caller closes the pool. The pool treats parameters like Dial. Behind a pooler in session mode it has at most
// Options.PooledConns connections, if that is set; behind one in transaction mode it keeps no prepared statements.
func NewPool(ctx context.Context, url string, o Options) (*pgxpool.Pool, error) {
	o = o.withDefaults()
	config, err := parse(url, o)
	if err != nil {
		return nil, err
	}
	b := builder{options: o, way: wayOf(config.ConnConfig), params: asked(config.ConnConfig)}
	config.BeforeConnect, config.AfterConnect = b.before, b.after
	pool, err := b.build(ctx, config)
	if found, _ := b.way.known(); err == nil && found == SessionPooler && o.PooledConns > 0 && o.PooledConns < config.MaxConns {
		ClosePool(pool)
		config.MaxConns, config.MinConns = o.PooledConns, min(config.MinConns, o.PooledConns)
		return b.build(ctx, config)
	}
	return pool, err
}

// builder makes pools, and adapts each of their connections to the way to the server.
type builder struct {
	options Options
	way     *way
	params  map[string]string
}

func (b *builder) before(_ context.Context, c *pgx.ConnConfig) error {
	if b.way.refuses.Load() {
		withoutOurs(c)
	}
	keeps := c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	if found, _ := b.way.known(); keeps && (b.options.Unprepared || found == TransactionPooler) {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

func (b *builder) after(ctx context.Context, conn *pgx.Conn) error {
	if found, _ := b.way.known(); found != SessionPooler {
		return nil
	}
	err := b.way.set(ctx, conn, b.params)
	if err != nil {
		HangUp(ctx, conn)
	}
	return err
}

func (b *builder) build(ctx context.Context, config *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, config.Copy())
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	err = b.probe(ctx, pool)
	if b.way.learns(err) {
		err = b.probe(ctx, pool)
	}
	if err != nil {
		ClosePool(pool)
		return nil, fmt.Errorf("connect: %w", err)
	}
	return pool, nil
}

func (b *builder) probe(ctx context.Context, pool *pgxpool.Pool) error {
	if b.options.Probe != nil {
		return b.options.Probe(ctx, pool)
	}
	if _, known := b.way.known(); known {
		return pool.Ping(ctx)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	bounded, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	found, err := b.way.look(bounded, conn.Conn(), conn.Conn().Config(), false)
	if found != NoPooler {
		pool.Reset() // the connection was set up for a direct server
	}
	return err
}
