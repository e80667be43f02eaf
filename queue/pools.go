package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	setPoolSQL     = sql.Named("queue/set_pool")
	setPoolKeySQL  = sql.Named("queue/set_pool_key")
	closePoolSQL   = sql.Named("queue/close_pool")
	openPoolSQL    = sql.Named("queue/open_pool")
	removePoolSQL  = sql.Named("queue/remove_pool")
	poolsSQL       = sql.Named("queue/pools")
	poolKeysSQL    = sql.Named("queue/pool_keys")
	poolPermitsSQL = sql.Named("queue/pool_permits")
)

// PoolLimits is what an administrator sets of a pool. A pool has Slots, a Rate, or both.
type PoolLimits struct {
	Slots  int           // bodies under way at once, each counted by its weight; 0: any number
	PerKey bool          // Slots, Rate and Burst hold for each key that steps give; false: for all steps together
	Rate   int           // bodies that start in Per; 0: any number
	Per    time.Duration // 0 without a Rate
	Burst  int           // bodies that start at once after a quiet time; 0: as many as Rate allows in 250 ms
	Note   string
}

// PoolClosure says that no body starts in a pool, or in one key of it. The zero value means that it is open.
type PoolClosure struct {
	By    string    // the administrator that closed it; "": it is open
	Until time.Time // zero: until an administrator opens it
}

// Pool is a pool as shown to users.
type Pool struct {
	PoolLimits

	Name    string
	Taken   int64         // weights of all bodies that have permits
	Waiting int64         // permits that workers wait for; a worker asks for as many as it has free slots
	Oldest  time.Duration // how long the first of these has waited
	Keys    int64         // different keys of the bodies that have permits or wait for them
	Closed  PoolClosure
	SetBy   string
	SetAt   time.Time
}

// PoolKey is a key of a pool that has its own number of slots, or is closed.
type PoolKey struct {
	Key    string
	Slots  int // 0: as many as the pool says
	Closed PoolClosure
}

// PoolPermit is a permit of a pool that a worker has or waits for.
type PoolPermit struct {
	Key       string // "": the pool does not count by key, or the step's key has no value
	Worker    string // "": the worker was pruned
	Run       RunID  // the run that used the permit last, or asked for it
	DAG       string // "": the run was pruned
	Weight    int
	Since     time.Time // when the worker asked for it
	GrantedAt time.Time // zero: the worker waits
}

// SetPool makes a pool, or changes all limits of it, and reports whether the pool is new. After a lost reply, it reports a new pool
// as an old one. If the pool becomes smaller than what runs, nothing is ended. For administrators.
func (s *Store) SetPool(ctx context.Context, pool string, limits PoolLimits) (isNew bool, err error) {
	args := pgx.StrictNamedArgs{
		"pool": pool, "slots": given(limits.Slots), "per_key": limits.PerKey, "rate": given(limits.Rate), "per_ms": given(limits.Per.Milliseconds()),
		"burst": given(limits.Burst), "note": limits.Note,
	}
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, setPoolSQL, args).Scan(&isNew)
	}
	return isNew, wrapError("set a pool", s.write(ctx, askTimeout, do, do))
}

// SetPoolKey gives one key of a pool its own number of slots; 0 gives it the number of the pool again. For administrators.
func (s *Store) SetPoolKey(ctx context.Context, pool, key string, slots int) error {
	args := pgx.StrictNamedArgs{"pool": pool, "key": key, "slots": given(slots)}
	return wrapError("set a pool", s.change(ctx, setPoolKeySQL, args))
}

// ClosePool closes a pool, or one key of it if key is not "", so that no body starts in it. It stays closed for this time, by the
// clock of the database, or with 0 until OpenPool. Bodies that run go on. For administrators.
func (s *Store) ClosePool(ctx context.Context, pool, key string, within time.Duration) error {
	args := pgx.StrictNamedArgs{"pool": pool, "key": given(key), "for_ms": given(within.Milliseconds())}
	return wrapError("close a pool", s.change(ctx, closePoolSQL, args))
}

// OpenPool opens a pool, or one key of it if key is not "". A key stays closed while its whole pool is. For administrators.
func (s *Store) OpenPool(ctx context.Context, pool, key string) error {
	return wrapError("open a pool", s.change(ctx, openPoolSQL, pgx.StrictNamedArgs{"pool": pool, "key": given(key)}))
}

// RemovePool removes a pool. It returns ErrNotFound if there is no such pool. The database refuses a pool that a current DAG names,
// or that a run uses. For administrators.
func (s *Store) RemovePool(ctx context.Context, pool string) error {
	removed := int64(0)
	again := func(ctx context.Context, conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, removePoolSQL, pgx.StrictNamedArgs{"pool": pool})
		removed = tag.RowsAffected()
		return err
	}
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		if err := again(ctx, conn); err != nil || removed > 0 {
			return err
		}
		return fmt.Errorf("there is no pool %q: %w", pool, ErrNotFound)
	}
	return wrapError("remove a pool", s.write(ctx, askTimeout, do, again))
}

// Pools lists all pools by name, or only the pool of this name if it is not "". It counts all permits, so it is meant for people. For
// readers and workers.
func (s *Store) Pools(ctx context.Context, name string) ([]Pool, error) {
	pools, err := list(ctx, s, poolsSQL, pgx.StrictNamedArgs{"pool": given(name)}, scanPool)
	return pools, wrapError("list pools", err)
}

// PoolKeys lists at most limit keys of a pool that have their own number of slots or are closed, by key. If key is not "", it lists at
// most this key. For readers and workers.
func (s *Store) PoolKeys(ctx context.Context, pool, key string, limit int) ([]PoolKey, error) {
	keys, err := list(ctx, s, poolKeysSQL, pgx.StrictNamedArgs{"pool": pool, "key": given(key), "rows": limit}, scanPoolKey)
	return keys, wrapError("list keys", err)
}

// PoolPermits lists at most limit permits of a pool, or of one key of it if key is not "". First come the permits that workers have,
// oldest first, and then the ones that workers wait for, in the order in which they are served. For readers and workers.
func (s *Store) PoolPermits(ctx context.Context, pool, key string, limit int) ([]PoolPermit, error) {
	permits, err := list(ctx, s, poolPermitsSQL, pgx.StrictNamedArgs{"pool": pool, "key": given(key), "rows": limit}, scanPoolPermit)
	return permits, wrapError("list permits", err)
}

func scanPool(row pgx.CollectableRow) (p Pool, err error) {
	var slots, rate, burst, perMS, oldestMS zeronull.Int8
	err = row.Scan(&p.Name, &slots, &p.PerKey, &rate, &perMS, &burst, &p.Note, &p.Taken, &p.Waiting, &oldestMS, &p.Keys,
		(*zeronull.Text)(&p.Closed.By), (*zeronull.Timestamptz)(&p.Closed.Until), &p.SetBy, &p.SetAt)
	p.Slots, p.Rate, p.Burst = int(slots), int(rate), int(burst)
	p.Per, p.Oldest = time.Duration(perMS)*time.Millisecond, time.Duration(oldestMS)*time.Millisecond
	return p, err
}

func scanPoolKey(row pgx.CollectableRow) (k PoolKey, err error) {
	var slots zeronull.Int8
	err = row.Scan(&k.Key, &slots, (*zeronull.Text)(&k.Closed.By), (*zeronull.Timestamptz)(&k.Closed.Until))
	k.Slots = int(slots)
	return k, err
}

func scanPoolPermit(row pgx.CollectableRow) (p PoolPermit, err error) {
	err = row.Scan(&p.Key, (*zeronull.Text)(&p.Worker), (*zeronull.Int8)(&p.Run), (*zeronull.Text)(&p.DAG), &p.Weight, &p.Since,
		(*zeronull.Timestamptz)(&p.GrantedAt))
	return p, err
}
