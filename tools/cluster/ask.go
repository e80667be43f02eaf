package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

const askPatience = 3 * time.Minute // `down` waits for workers to end

// request and reply are one line of JSON each.
type request struct {
	Verb string   `json:"verb"`
	Args []string `json:"args"`
}

type reply struct {
	Text  string `json:"text"`
	Error string `json:"error"`
}

// ask has the keeper of a place do something, and prints what it says.
func ask(ctx context.Context, p place, verb string, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.socket())
	if err != nil && verb == "down" {
		return p.vacate() // nothing is up: what a killed keeper left goes
	}
	if err != nil {
		return fmt.Errorf("no cluster is up in %s: `up` starts one", p.dir)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(request{verb, args}); err != nil {
		return fmt.Errorf("ask the keeper: %w", err)
	}
	var r reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return fmt.Errorf("hear the keeper (see %s): %w", p.path("keeper.log"), err)
	}
	fmt.Fprint(os.Stdout, r.Text)
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}
