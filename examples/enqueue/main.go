// Command enqueue makes a run in the transaction of its order, from Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

func main() {
	if err := run(context.Background(), os.Getenv("DATABASE_URL")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	store, err := queue.Open(ctx, queue.Config{URL: url})
	if err != nil {
		return err
	}
	defer store.Close()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// sql-shown: the application's own table
	if _, err := conn.Exec(ctx, "CREATE TEMP TABLE orders (id bigint PRIMARY KEY, item text NOT NULL)"); err != nil {
		return err
	}
	if err := commits(ctx, store, conn); err != nil {
		return err
	}
	return rollsBack(ctx, store, conn)
}

func commits(ctx context.Context, store *queue.Store, conn *pgx.Conn) error {
	var id queue.RunID
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
		id, err = placeOrder(ctx, tx, 1, "oars")
		return err
	})
	if err != nil {
		return err
	}
	found, err := store.Get(ctx, id)
	if err != nil {
		return err
	}
	fmt.Println("committed: run is", found.State)
	return nil
}

func rollsBack(ctx context.Context, store *queue.Store, conn *pgx.Conn) error {
	var id queue.RunID
	changedMind := errors.New("changed my mind")
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
		if id, err = placeOrder(ctx, tx, 2, "locks"); err != nil {
			return err
		}
		return changedMind
	})
	if !errors.Is(err, changedMind) {
		return err
	}
	var orders, runs int
	// sql-shown: the application's own table
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM orders WHERE id = 2").Scan(&orders); err != nil {
		return err
	}
	switch _, err := store.Get(ctx, id); {
	case err == nil:
		runs = 1
	case !errors.Is(err, queue.ErrNotFound):
		return err
	}
	fmt.Printf("rolled back: %d orders, %d runs\n", orders, runs)
	return nil
}

func placeOrder(ctx context.Context, tx pgx.Tx, order int, item string) (queue.RunID, error) {
	// sql-shown: the application's own table
	if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2)", order, item); err != nil {
		return 0, err
	}
	return queue.EnqueueTx(ctx, tx, queue.Request{
		DAG: "report", Params: map[string]any{"order": order}, Key: fmt.Sprintf("go-order-%d", order),
	})
}
