//go:build !unix

package supervise

import (
	"context"
	"errors"
)

// Run fails, because there is no guard on this system.
func Run(context.Context, Config) (int, error) {
	return 0, errors.New("guard: this system has none: embed the worker in a program, with containment none")
}

// Attach reports that no guard started this process.
func Attach() (*Link, bool) { return nil, false }

func sweep(context.Context, []string, cgroup) error { return nil }

type cgroup string

func listProcesses() ([]process, error) { return nil, nil }
