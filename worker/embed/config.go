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

// Config is the configuration of a worker. Only Database is required.
type Config struct {
	Database queue.Config

	Name    string            // shown to users; "": the host's name
	Version string            // of the program
	Queues  []string          // queues that it serves; none: all
	Labels  map[string]string // labels that the selectors of DAGs are matched against
	Only    queue.RunID       // not 0: the worker serves only this run and the children that the run waits for
	Slots   int               // 0: DefaultSlots

	TTL          time.Duration // of the lease; 0: queue.DefaultTTL
	DrainTimeout time.Duration // 0: worker.DefaultDrain

	Commands   *exec.Config // nil: the worker runs no commands; Dir "": a folder below Folder
	HTTP       http.Policy
	SQL        postgres.Config // the connection postgres.Own is made from Database if it is missing
	Secrets    worker.SecretPolicy
	Logs       logship.Config // limits of logs; Dir "": a folder below Folder
	LocalFiles bool           // DAGs are put from files of this host, so tasks get the file's folder
	Source     string         // with Only: file from which that run was made; "": the file from which its DAG was put last

	Folder string // for working folders and spooled logs; "": one for this user below os.TempDir
	Memory string // folder, shared by the workers of this host, that records which installations they served; "": a folder below Folder

	Metrics metrics.Config // Registerer nil: the worker has a registry of its own
	Listen  string         // host:port of /livez, /readyz and /metrics; "": no server, see Rig.Metrics

	Link        *supervise.Link // link to the guard that started this process; nil: there is none
	KeepProcess bool            // do not exit when a body outlives the lease; such a body may then run twice at once
	Log         *slog.Logger    // nil: silent
}

// DefaultSlots is the number of slots of a Config that sets none.
const DefaultSlots = 8

// complete returns the configuration with its defaults filled in. It returns an error if the database is missing or the number of
// slots is negative.
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

// ownConnection returns the connection postgres.Own, to the queue's database. With Database.Pool it copies the configuration of the
// pool, which may differ from the text that was parsed: a program sets passwords, TLS and hooks in it.
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
