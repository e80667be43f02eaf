package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

const mostWorkers = 64

// do is what people ask for.
func (k *keeper) do(ctx context.Context, q request) (string, error) {
	switch q.Verb {
	case "status":
		return k.status()
	case "env":
		return fmt.Sprintf("export DATABASE_URL='%s'\nexport PATH='%s':\"$PATH\"\n", k.url, k.path("bin")), nil
	case "down":
		return "", k.end()
	case "scale":
		return k.scale(ctx, q.Args)
	}
	if len(q.Args) != 1 {
		return "", fmt.Errorf("%s wants the name of a worker; all words: %s", q.Verb, words)
	}
	name := q.Args[0]
	if _, err := strconv.Atoi(name); err == nil {
		name = "w" + name
	}
	m := k.find(name)
	if m == nil {
		return "", fmt.Errorf("there is no worker %s", name)
	}
	return k.doTo(ctx, q.Verb, m)
}

// doTo is what is about one worker.
func (k *keeper) doTo(ctx context.Context, verb string, m *member) (string, error) {
	if !m.up() && verb != "start" {
		return "", fmt.Errorf("%s has ended: `start %s` starts it again", m.name, m.name)
	}
	switch verb {
	case "kill":
		k.kill(m)
		return m.name + " was killed: its runs go on elsewhere once its lease is over\n", nil
	case "start":
		return m.name + " is up\n", k.start(ctx, m.name)
	case "drain":
		return k.oarlock("workers", "drain", m.name)
	case "cut", "mend":
		if k.net == nil {
			return "", errors.New("the workers share this machine's network: `up --networks` gives each its own")
		}
		return "", k.net.set(m.name, map[string]string{"cut": "down", "mend": "up"}[verb])
	}
	return "", fmt.Errorf("%q is none of: %s", verb, words)
}

func (k *keeper) scale(ctx context.Context, args []string) (string, error) {
	n, err := strconv.Atoi(strings.Join(args, " "))
	if err != nil || n < 0 || n > mostWorkers {
		return "", fmt.Errorf("scale wants a number of workers, from 0 to %d", mostWorkers)
	}
	var up []*member
	for _, m := range k.members {
		if m.up() {
			up = append(up, m)
		}
	}
	for _, m := range up[min(n, len(up)):] {
		_ = m.cmd.Process.Signal(syscall.SIGTERM)
	}
	var names []string
	for i := 0; len(up)+len(names) < n; i++ {
		if m := k.find(workerName(i)); m == nil || !m.up() {
			names = append(names, workerName(i))
		}
	}
	if err := k.start(ctx, names...); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d started, %d asked to finish what they run and end\n", len(names), max(0, len(up)-n)), nil
}

// status tells what runs, and then what the database says of it.
func (k *keeper) status() (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "postgres  127.0.0.1:%d, pid %d\n", k.server.Port(), k.server.PID())
	for _, m := range k.members {
		state := fmt.Sprintf("pid %d", m.cmd.Process.Pid)
		switch {
		case !m.up() && m.killed:
			state = "killed"
		case !m.up():
			state = fmt.Sprintf("ended with %d", m.code)
		}
		fmt.Fprintf(&text, "%-8s  %s\n", m.name, state)
	}
	for _, what := range []string{"workers", "queues"} {
		out, err := k.oarlock(what)
		text.WriteString("\n" + out)
		if err != nil {
			return text.String(), fmt.Errorf("oarlock %s: %w", what, err)
		}
	}
	return text.String(), nil
}

// variable is a setting as an environment has it.
func variable(setting string) string {
	name, value, _ := strings.Cut(setting, "=")
	return "OARLOCK_" + strings.ToUpper(name) + "=" + value
}

// number is what a worker's name ends in.
func number(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "w"))
	return n
}
