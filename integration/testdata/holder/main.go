// Command holder embeds a worker with the action `hold`, which blocks until standard input ends. Once $HOLD tasks are
// blocked, it prints how much memory it uses.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/oarlock-dev/oarlock/internal/procfs"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	want, err := strconv.ParseInt(os.Getenv("HOLD"), 10, 64)
	if err != nil {
		return err
	}
	slots, err := strconv.Atoi(os.Getenv("SLOTS"))
	if err != nil {
		return err
	}
	w, err := embed.New(embed.Config{
		Database: queue.Config{URL: os.Getenv("DATABASE_URL")}, Slots: slots, Folder: os.Getenv("FOLDER"),
	})
	if err != nil {
		return err
	}
	release := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(release)
	}()
	var held atomic.Int64
	w.Handle("hold", func(ctx context.Context, _ *worker.Task) (worker.Outputs, error) {
		if held.Add(1) == want {
			debug.FreeOSMemory()
			fmt.Println(resident())
		}
		select {
		case <-release:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	return w.Run(context.Background())
}

// resident returns the resident memory of this process by the kernel, in KiB, now and at most.
func resident() string {
	now, err := procfs.StatusValue(os.Getpid(), "VmRSS")
	if err != nil {
		return err.Error()
	}
	most, err := procfs.StatusValue(os.Getpid(), "VmHWM")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(now, " kB") + " " + strings.TrimSuffix(most, " kB")
}
