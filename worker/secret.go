package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// SecretPolicy says what the secrets of a DAG may name on this worker. The zero value allows all but the worker's own way
// to its database, which is never handed out.
type SecretPolicy struct {
	Env   []string // globs of variables; nil: all; empty: none
	Files []string // globs of absolute paths, as a DAG writes them; nil: all; empty: none

	NeverEnv   []string // variables, besides ownVariables
	NeverFiles []string // files, by whatever path they are named

	// Command prints the secret whose key it gets as its last argument; none: no secret comes from a command. It runs with
	// this process's environment, without ownVariables and NeverEnv.
	Command        []string
	WorkerVariable string // holds the id of the worker in the command's environment; "": none does
}

// ownVariables hold the worker's way to its database.
var ownVariables = []string{"OARLOCK_DATABASE_URL", "DATABASE_URL", "PGPASSWORD", "OARLOCK_DIRECT_URL", "OARLOCK_CONNECTIONS"}

// kernelFiles show the environment and the files of processes, the worker's among them.
const kernelFiles = "/proc/"

const (
	minSecretBytes = 4        // a shorter secret would be masked out of ordinary words
	maxSecretBytes = 64 << 10 // of a file: each secret is a variable of the environment, and masked in every line of a log
)

// secretReader reads secrets where the worker has them. No value is in an error.
type secretReader struct {
	SecretPolicy
	running chan struct{} // a place for each command under way
}

func newSecretReader(p SecretPolicy) *secretReader {
	return &secretReader{SecretPolicy: p, running: make(chan struct{}, maxSecretCommands)}
}

// read gives the values of secrets, by name. Some may take a while.
func (r *secretReader) read(ctx context.Context, worker string, wanted []dagspec.Secret) (map[string]string, error) {
	secrets := make(map[string]string, len(wanted))
	for _, s := range wanted {
		value, err := r.one(ctx, worker, s)
		if err == nil && len(value) < minSecretBytes {
			err = fmt.Errorf("it has fewer than %d bytes, too few to be masked in logs", minSecretBytes)
		}
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", s.Name, err)
		}
		secrets[s.Name] = value
	}
	return secrets, nil
}

func (r *secretReader) one(ctx context.Context, worker string, s dagspec.Secret) (string, error) {
	switch s.From {
	case "env":
		return r.variable(s.Key)
	case "command":
		return r.ask(ctx, worker, s.Key)
	}
	return r.file(filepath.Clean(s.Key))
}

// atHand are the values of all secrets that a look at this host gives: they are masked in logs of tasks that do not get
// them, too.
func (r *secretReader) atHand(declared []dagspec.Secret) (values []string) {
	for _, s := range declared {
		if s.From == "command" {
			continue
		}
		if value, err := r.one(context.Background(), "", s); err == nil && len(value) >= minSecretBytes {
			values = append(values, value)
		}
	}
	return values
}

func (p *SecretPolicy) isOwnVariable(name string) bool {
	return slices.Contains(ownVariables, name) || slices.Contains(p.NeverEnv, name)
}

func (p *SecretPolicy) variable(name string) (string, error) {
	switch {
	case p.isOwnVariable(name):
		return "", fmt.Errorf("variable %s is the worker's own: no secrets_env hands it out", name)
	case !allows(p.Env, name):
		return "", fmt.Errorf("variable %s is not among secrets_env of this worker", name)
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("the worker has no environment variable %s", name)
	}
	return value, nil
}

// file reads what it has looked at, whatever becomes of the path meanwhile.
func (p *SecretPolicy) file(name string) (string, error) {
	if !allows(p.Files, name) {
		return "", fmt.Errorf("file %s is not among secrets_files of this worker", name)
	}
	if p.isOwn(name) {
		return "", fmt.Errorf("file %s is the worker's own: no secrets_files hands it out", name)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // no waiting for a pipe
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("the worker has no file %s", name)
	case Lacks(err):
		return "", fmt.Errorf("open a file: %w", err)
	case err != nil:
		return "", fmt.Errorf("the worker may not read file %s", name)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file: a folder, a pipe and a device hold no secret", name)
	}
	if p.isNever(f) {
		return "", fmt.Errorf("file %s is the worker's own: no secrets_files hands it out", name)
	}
	value, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("the worker cannot read file %s", name)
	case len(value) > maxSecretBytes:
		return "", fmt.Errorf("file %s has more than %d bytes: no secret is that long", name, maxSecretBytes)
	}
	return strings.TrimSuffix(string(value), "\n"), nil // editors and echo end a file with one
}

// isOwn tells of what the kernel shows of processes, behind links as well.
func (p *SecretPolicy) isOwn(name string) bool {
	target, err := filepath.EvalSymlinks(name)
	return strings.HasPrefix(name, kernelFiles) || err == nil && strings.HasPrefix(target, kernelFiles)
}

// isNever compares files, not their names: there are links.
func (p *SecretPolicy) isNever(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && slices.ContainsFunc(p.NeverFiles, func(name string) bool {
		never, err := os.Stat(name)
		return err == nil && os.SameFile(info, never)
	})
}

// allows says whether one of the globs matches; nil is no list at all.
func allows(globs []string, name string) bool {
	return globs == nil || slices.ContainsFunc(globs, func(glob string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	})
}
