package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// member is a worker: its guard.
type member struct {
	name   string
	cmd    *exec.Cmd
	killed bool // it had no chance to clear away what it started
	ended  chan struct{}
	code   int // once ended
}

func workerName(i int) string { return fmt.Sprintf("w%d", i+1) }

func (m *member) up() bool {
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

func (k *keeper) find(name string) *member {
	if i := slices.IndexFunc(k.members, func(m *member) bool { return m.name == name }); i >= 0 {
		return k.members[i]
	}
	return nil
}

// start starts workers and waits until the database knows them as live.
func (k *keeper) start(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := k.startOne(name); err != nil {
			return err
		}
	}
	return k.awaitLive(ctx, names)
}

// startOne starts a worker, in the place of one of its name that has ended.
func (k *keeper) startOne(name string, more ...string) error {
	if old := k.find(name); old != nil && old.up() {
		return fmt.Errorf("%s is up", name)
	}
	log, err := os.OpenFile(k.path("logs/"+name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	defer log.Close()
	words, url := []string{k.program(), "worker"}, k.workerURL
	if k.net != nil {
		prefix, err := k.net.join(name)
		if err != nil {
			return err
		}
		words, url = append(prefix, words...), k.net.url
	}
	m := &member{name: name, cmd: exec.Command(words[0], words[1:]...), ended: make(chan struct{})}
	m.cmd.Env = k.environment("OARLOCK_NAME="+name, "OARLOCK_DATABASE_URL="+url, "OARLOCK_STATE_DIR="+k.path("state"))
	for _, s := range slices.Concat(k.settings, more) {
		m.cmd.Env = append(m.cmd.Env, variable(s))
	}
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr, m.cmd.SysProcAttr = k.dir, log, log, attributes()
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(m.ended)
		_ = m.cmd.Wait()
		m.code = m.cmd.ProcessState.ExitCode()
	}()
	k.members = slices.DeleteFunc(k.members, func(old *member) bool { return old.name == name })
	k.members = append(k.members, m)
	slices.SortFunc(k.members, func(x, y *member) int { return number(x.name) - number(y.name) })
	return nil
}

// liveWorkers asks the database for the driver process of each live worker.
func (k *keeper) liveWorkers() (map[string]int, error) {
	out, err := k.oarlock("workers", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("list workers: %w\n%s", err, out)
	}
	var all []struct {
		Name  string `json:"name"`
		State string `json:"state"`
		PID   int    `json:"pid"`
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	live := map[string]int{}
	for _, w := range all {
		if w.State == "live" {
			live[w.Name] = w.PID
		}
	}
	return live, nil
}

// awaitLive waits for all of these, which must not end meanwhile.
func (k *keeper) awaitLive(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, upPatience)
	defer cancel()
	for {
		live, err := k.liveWorkers()
		if err != nil {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return k.find(name).alive(live[name]) })
		if len(missing) == 0 {
			return nil
		}
		if m := k.find(missing[0]); !m.up() {
			said, _ := os.ReadFile(k.path("logs/" + m.name + ".log"))
			return fmt.Errorf("%s ended with %d:\n%s", m.name, m.code, said)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v are not live: %w", missing, context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}

// alive says whether a driver process that the database knows is this worker's, and not one of before.
func (m *member) alive(driver int) bool {
	return driver != 0 && m.up() && slices.Contains(children(m.cmd.Process.Pid), driver)
}

// kill kills guard and driver process at once, so that neither sees the other die.
func (k *keeper) kill(m *member) {
	guard := m.cmd.Process.Pid
	_ = syscall.Kill(guard, syscall.SIGSTOP) // it starts no successor meanwhile
	pids := append(children(guard), guard)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig)
		}
	}
	<-m.ended
	m.killed = true
}

// endWorkers ends all, and clears away what those that were killed have left.
func (k *keeper) endWorkers() error {
	err := k.sweep()
	for range 3 { // the second signal does not wait for tasks, the third for nothing
		for _, m := range k.members {
			if m.up() {
				_ = m.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		if k.allEnd(endPatience / 3) {
			return err
		}
	}
	for _, m := range k.members {
		if m.up() {
			k.kill(m)
			err = errors.Join(err, fmt.Errorf("%s did not end and was killed", m.name))
		}
	}
	return err
}

// sweep has each worker that was killed start again: that ends the processes and removes the folders it left. It serves a
// queue that has no runs.
func (k *keeper) sweep() error {
	var names []string
	for _, m := range slices.Clone(k.members) {
		if !m.killed || m.up() {
			continue
		}
		if err := k.startOne(m.name, "queues=nobody.s"); err != nil {
			return err
		}
		names = append(names, m.name)
	}
	if len(names) == 0 {
		return nil
	}
	return k.awaitLive(context.Background(), names)
}

// allEnd waits until no worker is up.
func (k *keeper) allEnd(patience time.Duration) bool {
	deadline := time.After(patience)
	for _, m := range k.members {
		select {
		case <-m.ended:
		case <-deadline:
			return false
		}
	}
	return true
}
