package cli

import (
	"context"

	"github.com/oarlock-dev/oarlock/queue"
)

// store opens the store of the database in the settings. The caller must call shut.
func (e *env) store(ctx context.Context) (store *queue.Store, shut func(), err error) {
	url, _, err := e.database(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err = queue.Open(ctx, queue.Config{URL: url, OwnSchema: true})
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// withStore calls use with the store of the database in the settings.
func (e *env) withStore(ctx context.Context, use func(*queue.Store) error) error {
	store, shut, err := e.store(ctx)
	if err != nil {
		return err
	}
	defer shut()
	return use(store)
}
