package cli

import (
	"context"

	"github.com/oarlock-dev/oarlock/queue"
)

// store opens the store that the settings lead to. The caller calls shut when it is done.
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

// withStore has use work with the store that the settings lead to.
func (e *env) withStore(ctx context.Context, use func(*queue.Store) error) error {
	store, shut, err := e.store(ctx)
	if err != nil {
		return err
	}
	defer shut()
	return use(store)
}
