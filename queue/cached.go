package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

// maxCacheKey is the longest cache key that is stored as it is: an index takes no text of any length.
const maxCacheKey = 500

var readCached = sql.Named("queue/cached")

// Cached is what an earlier task of a step put out under a cache key, unless its time is over: a task of the same DAG and of
// the same submitter as the run, or, shared, of any submitter. What Commit was told to Keep is found by every worker.
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

// cacheKey is a key as it is stored.
func cacheKey(key string) string {
	if len(key) <= maxCacheKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}
