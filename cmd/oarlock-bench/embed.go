package main

import (
	"context"
	"fmt"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/rig"
)

// busy are the settings of a worker that is meant to be busy.
var busy = rig.Config{Slots: 512}

var busySettings = []string{"oarlock: slots 512; else defaults, embedded in this process"}

// defaults are those of `oarlock worker`.
var defaultSettings = []string{"oarlock: defaults, embedded in this process"}

// embed runs a worker in this process until the stage ends.
func (s *Stage) embed(ctx context.Context, d *Database, config rig.Config, bodies map[string]worker.Func) error {
	folder, err := s.folder("")
	if err != nil {
		return err
	}
	config.Folder, config.Database = folder, queue.Config{URL: d.worker}
	w, err := rig.New(config)
	if err != nil {
		return err
	}
	for name, body := range bodies {
		w.Handle(name, body)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.WithoutCancel(ctx)) }()
	s.later(func() error {
		w.StopNow()
		if err := <-ended; err != nil {
			return fmt.Errorf("embedded worker: %w", err)
		}
		return nil
	})
	return nil
}

// warm has runs go through before anything is measured: connections, plans and definitions are there then.
func (d *Database) warm(ctx context.Context, dag string, runs int) error {
	if _, err := d.enqueue(ctx, dag, runs); err != nil {
		return err
	}
	return d.settled(ctx)
}

// defaultConfig is what `oarlock worker` has when nothing is said.
var defaultConfig rig.Config
