package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	secretTimeout     = 10 * time.Second // of a command that reads a secret
	secretPipes       = time.Second      // that what it left behind may keep its output open
	maxSecretCommands = 8                // at once
	maxSecretKey      = 1 << 10
)

// errSecretStopped is the cause of secrets that are not read, as their task is to end.
var errSecretStopped = errors.New("the task was stopped before its secrets were read")

// ask has the worker's command print a secret. Nothing but the value is taken of it: what it says to stderr may be secret.
func (r *secretReader) ask(ctx context.Context, worker, key string) (string, error) {
	switch {
	case len(r.Command) == 0:
		return "", errors.New("this worker has no secrets_command")
	case strings.HasPrefix(key, "-") || strings.ContainsFunc(key, isControl) || len(key) > maxSecretKey:
		return "", fmt.Errorf("its key must not begin with a dash, hold control characters, or be longer than %d bytes", maxSecretKey)
	}
	select {
	case r.running <- struct{}{}:
		defer func() { <-r.running }()
	case <-ctx.Done():
		return "", errSecretStopped
	}
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	out := &limited{left: maxSecretBytes + 1}
	c := exec.CommandContext(ctx, r.Command[0], append(slices.Clone(r.Command[1:]), key)...)
	c.Env, c.Stdout, c.WaitDelay = r.environ(worker), out, secretPipes
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	err := c.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("secrets_command took longer than %v for the key %s", secretTimeout, key)
	case ctx.Err() != nil:
		return "", errSecretStopped
	case out.left == 0:
		return "", fmt.Errorf("secrets_command printed more than %d bytes for the key %s: no secret is that long", maxSecretBytes, key)
	case bytes.IndexByte(out.taken, 0) >= 0:
		return "", fmt.Errorf("secrets_command printed a NUL byte for the key %s: no variable can hold one", key)
	case err != nil:
		return "", fmt.Errorf("secrets_command failed for the key %s: %w; run it by hand on the worker to see why", key, plainExit(err))
	}
	return strings.TrimSuffix(string(out.taken), "\n"), nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// plainExit says how a command ended, or why it did not start.
func plainExit(err error) error {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return errors.New(ended.ProcessState.String())
	}
	return err
}

// environ is what the command gets: all that this process has, but for its way to the database.
func (r *secretReader) environ(worker string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return r.isOwnVariable(name)
	})
	if r.WorkerVariable != "" {
		env = append(env, r.WorkerVariable+"="+worker)
	}
	return env
}

// limited takes so many bytes and forgets the rest.
type limited struct {
	taken []byte // no bytes.Buffer: its ReadFrom would get around Write
	left  int
}

// Write never fails: the command is not to end by a broken pipe, but to be refused.
func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.left)]
	l.left -= len(kept)
	l.taken = append(l.taken, kept...)
	return len(p), nil
}
