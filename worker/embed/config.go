package embed

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/http"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
	"github.com/oarlock-dev/oarlock/worker/exec"
	"github.com/oarlock-dev/oarlock/worker/logship"
	"github.com/oarlock-dev/oarlock/worker/metrics"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// Config says what a worker is, and what it may do. Only Database is required.
type Config struct {
	Database queue.Config

	Name    string            // as people see it; "": the host's name
	Version string            // of the program
	Queues  []string          // that it serves; none: all
	Labels  map[string]string // that selectors of DAGs are compared with
	Only    queue.RunID       // not 0: it serves this run and the children it waits for, and nothing else
	Slots   int               // 0: DefaultSlots

	TTL          time.Duration // of the lease; 0: queue.DefaultTTL
	DrainTimeout time.Duration // 0: worker.DefaultDrain

	Commands   *exec.Config // nil: it runs no commands; Dir "" is made below Folder
	HTTP       http.Policy
	SQL        postgres.Config // its connection postgres.Own is made of Database if it is missing
	Secrets    worker.SecretPolicy
	Logs       logship.Config // its limits; Dir "" is made below Folder
	LocalFiles bool           // DAGs are put from files of this host: tasks learn their folder
	Source     string         // with Only: the file that run was made of; "": where its DAG was put from last

	Folder string // for working folders and spooled logs; "": one for this user below os.TempDir
	Memory string // folder for what this host remembers of installations, which its workers share; "": one below Folder

	Metrics metrics.Config // Registerer nil: a registry of its own
	Listen  string         // host:port where /livez, /readyz and /metrics answer; "": nowhere, see Rig.Metrics

	Link        *supervise.Link // to the guard that started this process; nil: there is none
	KeepProcess bool            // do not end it when a body outlives the lease: such a body may then run twice at once
	Log         *slog.Logger    // nil: silent
}

// DefaultSlots of a worker that names none.
const DefaultSlots = 8

// complete fills in what is left out.
func (c Config) complete() (Config, error) {
	if c.Database.URL == "" && c.Database.Pool == nil {
		return c, errors.New("a worker needs a database: set Database.URL or Database.Pool")
	}
	if c.Slots < 0 {
		return c, fmt.Errorf("%d slots: a worker needs one or more", c.Slots)
	}
	c.Name = orElse(c.Name, hostName())
	c.Database.FreshPaths = c.LocalFiles
	c.Database.FewConns = orElse(c.Database.FewConns, queue.CallConns)
	c.Slots = orElse(c.Slots, DefaultSlots)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.SQL.Connections = maps.Clone(c.SQL.Connections)
	if _, ok := c.SQL.Connections[postgres.Own]; !ok {
		if c.SQL.Connections == nil {
			c.SQL.Connections = map[string]postgres.Connection{}
		}
		c.SQL.Connections[postgres.Own] = c.ownConnection()
	}
	c.Metrics.Version = orElse(c.Metrics.Version, c.Version)
	c.Folder = orElse(c.Folder, filepath.Join(os.TempDir(), fmt.Sprintf("oarlock-%d", os.Getuid())))
	c.Memory = orElse(c.Memory, filepath.Join(c.Folder, "installations"))
	c.Logs.Dir = orElse(c.Logs.Dir, filepath.Join(c.Folder, "spool"))
	return c, nil
}

// ownConnection is to where the queue is, in the same way. A pool's own way may differ from the text it was parsed of: a
// program sets passwords, TLS and hooks in it.
func (c *Config) ownConnection() postgres.Connection {
	own := postgres.Connection{URL: c.Database.URL}
	if c.Database.Pool != nil {
		pool := c.Database.Pool.Config()
		own.URL, own.Config, own.BeforeConnect = "", pool.ConnConfig, pool.BeforeConnect
	}
	return own
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
