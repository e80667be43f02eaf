package worker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/idna"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/offspring"
)

// SecretPolicy limits which variables, files and commands the secrets of a DAG may come from on this worker. The zero value allows all
// variables and files. The variables of the worker's own access to its database are never handed out.
type SecretPolicy struct {
	Env   []string // globs of variables; nil: all; empty: none
	Files []string // globs of absolute paths, as a DAG writes them; nil: all; empty: none

	NeverEnv   []string // further variables that are never handed out, besides ownVariables
	NeverFiles []string // files that are never handed out, under any path

	// Command prints the secret for the key that it gets as its last argument; empty: no secret comes from a command. It runs with
	// this process's environment, without ownVariables and NeverEnv.
	Command        []string
	WorkerVariable string // name of the variable with the worker's id in the command's environment; "": none
}

// ownVariables lists the variables that hold the worker's access to its database.
var ownVariables = []string{"OARLOCK_DATABASE_URL", "DATABASE_URL", "PGPASSWORD", "OARLOCK_DIRECT_URL", "OARLOCK_CONNECTIONS"}

// kernelFiles is where the kernel shows the environments and files of processes, including the worker's.
const kernelFiles = "/proc/"

const (
	minSecretBytes = 4        // a shorter secret would be masked out of ordinary words
	maxSecretBytes = 64 << 10 // of a file or command: a secret becomes an environment variable and is masked in every log line
)

// secretReader reads secrets from variables, files and the command. Its errors hold no values of secrets.
type secretReader struct {
	SecretPolicy
	running chan struct{} // holds one token per command under way
}

func newSecretReader(p SecretPolicy) *secretReader {
	return &secretReader{SecretPolicy: p, running: make(chan struct{}, maxSecretCommands)}
}

// read returns the values of the wanted secrets by name, or an error if one of them cannot be read or has fewer than
// minSecretBytes. It may wait for a command for each; worker is the id that the command gets. It returns errSecretStopped, wrapped,
// if ctx ends during that wait.
func (r *secretReader) read(ctx context.Context, worker string, wanted []dagspec.Secret) (map[string]string, error) {
	secrets := make(map[string]string, len(wanted))
	for _, s := range wanted {
		value, err := r.one(ctx, worker, s)
		if err == nil && len(value) < minSecretBytes {
			err = fmt.Errorf("the secret has fewer than %d bytes, too few to be masked in logs", minSecretBytes)
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

// atHand returns the values of the declared secrets that come from variables and files. It skips secrets that need a command,
// cannot be read, or are too short to be masked. The values are masked in the logs of all tasks of the DAG, also of tasks that do
// not get them.
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
		return "", fmt.Errorf("variable %s belongs to the worker: no secrets_env gives this variable to tasks", name)
	case !allows(p.Env, name):
		return "", fmt.Errorf("variable %s is not among secrets_env of this worker", name)
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("the worker has no environment variable %s", name)
	}
	return value, nil
}

// file reads a secret from a file, without a newline at its end. It refuses files that the policy does not allow, kernelFiles,
// everything that is no regular file, and more than maxSecretBytes. It checks and reads the same open file, so replacing the file
// at the path meanwhile changes nothing.
func (p *SecretPolicy) file(name string) (string, error) {
	if !allows(p.Files, name) {
		return "", fmt.Errorf("file %s is not among secrets_files of this worker", name)
	}
	if p.isOwn(name) {
		return "", fmt.Errorf("file %s belongs to the worker: no secrets_files gives this file to tasks", name)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for the writer of a pipe
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("the worker has no file %s", name)
	case Lacks(err):
		return "", fmt.Errorf("open a file: %w", err)
	case err != nil:
		return "", fmt.Errorf("the worker has no right to read file %s", name)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file: a folder, a pipe and a device hold no secret", name)
	}
	if p.isNever(f) {
		return "", fmt.Errorf("file %s belongs to the worker: no secrets_files gives this file to tasks", name)
	}
	value, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("the worker cannot read file %s", name)
	case len(value) > maxSecretBytes:
		return "", fmt.Errorf("file %s has more than %d bytes: no secret is that long", name, maxSecretBytes)
	}
	return strings.TrimSuffix(string(value), "\n"), nil // editors and echo end a file with a newline
}

// isOwn reports whether a path lies in kernelFiles, or is a link into them.
func (p *SecretPolicy) isOwn(name string) bool {
	target, err := filepath.EvalSymlinks(name)
	return strings.HasPrefix(name, kernelFiles) || err == nil && strings.HasPrefix(target, kernelFiles)
}

// isNever reports whether f is one of NeverFiles. It compares files and not names, because of links.
func (p *SecretPolicy) isNever(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && slices.ContainsFunc(p.NeverFiles, func(name string) bool {
		never, err := os.Stat(name)
		return err == nil && os.SameFile(info, never)
	})
}

// allows reports whether one of the globs matches. If globs is nil, it always does.
func allows(globs []string, name string) bool {
	return globs == nil || slices.ContainsFunc(globs, func(glob string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	})
}

const (
	secretTimeout     = 10 * time.Second // for a command that prints a secret
	secretPipes       = time.Second      // how long processes that a command left behind may keep its output open
	maxSecretCommands = 8                // under way at once
	maxSecretKey      = 1 << 10          // bytes
)

// errSecretStopped means that a secret was not read because its task is to end.
var errSecretStopped = errors.New("the task was stopped before its secrets were read")

// ask runs the worker's command for a key and returns the secret that it prints. It waits while maxSecretCommands run already,
// kills the command after secretTimeout, and returns errSecretStopped if ctx ends. It drops the command's stderr, which may hold
// secrets.
func (r *secretReader) ask(ctx context.Context, worker, key string) (string, error) {
	switch {
	case len(r.Command) == 0:
		return "", errors.New("this worker has no secrets_command")
	case strings.HasPrefix(key, "-") || strings.ContainsFunc(key, isControl) || len(key) > maxSecretKey:
		return "", fmt.Errorf("the secret's key must not begin with a dash, hold control characters, or be longer than %d bytes", maxSecretKey)
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
	pid, err := offspring.Start(func() (int, error) {
		if err := c.Start(); err != nil {
			return 0, err
		}
		return c.Process.Pid, nil
	})
	if err == nil {
		err = c.Wait()
		offspring.Reaped(pid)
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("secrets_command took longer than %v for the key %s", secretTimeout, key)
	case ctx.Err() != nil:
		return "", errSecretStopped
	case out.left == 0:
		return "", fmt.Errorf("secrets_command printed more than %d bytes for the key %s: no secret is that long", maxSecretBytes, key)
	case bytes.IndexByte(out.taken, 0) >= 0:
		return "", fmt.Errorf("secrets_command printed a NUL byte for the key %s: no variable can hold a NUL byte", key)
	case err != nil:
		return "", fmt.Errorf("secrets_command failed for the key %s: %w; run secrets_command by hand on the worker to see the reason", key, plainExit(err))
	}
	return strings.TrimSuffix(string(out.taken), "\n"), nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// plainExit returns an error that says how a command ended, without its stderr. An error of starting the command stays as it is.
func plainExit(err error) error {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return errors.New(ended.ProcessState.String())
	}
	return err
}

// environ returns the environment for the command: the environment of this process without the variables of the worker's own, and
// with WorkerVariable set to worker, the worker's id.
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

// limited is a writer that keeps the first left bytes and drops the rest.
type limited struct {
	taken []byte // not a bytes.Buffer, since its ReadFrom would bypass Write
	left  int
}

// Write never fails. A command that prints too much is refused at its end, and must not end by a broken pipe before.
func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.left)]
	l.left -= len(kept)
	l.taken = append(l.taken, kept...)
	return len(p), nil
}

const (
	minURLPart   = 16 // bytes of a path, a segment of a path or a query: a shorter part may be an ordinary word
	minHostBytes = 10 // of a host without its port: a shorter host, such as 127.0.0.1, occurs in many texts
)

// urlParts returns texts that may show a secret of a request's URL in answers and errors: a server repeats a path that it does not
// know, and an error names the host. address is the URL of the request, secrets are the values in it. The texts are the secrets
// themselves and their hosts, long paths, queries and passwords, each also in its JSON, HTML and URL forms.
func urlParts(address string, secrets []string) []string {
	var parts []string
	final, err := url.Parse(address)
	if err != nil {
		final = &url.URL{}
	}
	if final.User != nil {
		password, _ := final.User.Password()
		parts = append(parts, base64.StdEncoding.EncodeToString([]byte(final.User.Username()+":"+password)))
	}
	for _, secret := range secrets {
		parts = append(parts, secret)
		if final.Host != "" && strings.Contains(strings.ToLower(secret), strings.ToLower(final.Hostname())) {
			parts = append(parts, hostParts(final)...)
		}
		if u, err := url.Parse(secret); err == nil && u.Host != "" {
			password, _ := u.User.Password()
			parts = append(parts, u.String(), u.RawQuery, password)
			parts = append(parts, hostParts(u)...)
			for _, path := range []string{u.RequestURI(), u.EscapedPath(), u.Path, strings.TrimRight(u.Path, "/")} {
				if len(path) >= minURLPart {
					parts = append(parts, path)
				}
			}
		}
		for _, segment := range strings.FieldsFunc(secret, func(r rune) bool { return strings.ContainsRune("/?&=#:@", r) }) {
			if len(segment) >= minURLPart {
				parts = append(parts, segment)
			}
		}
	}
	var shapes []string
	for _, part := range parts {
		shapes = append(shapes, part, strings.ReplaceAll(part, "/", `\/`), html.EscapeString(part))
		if decoded, err := url.PathUnescape(part); err == nil {
			shapes = append(shapes, decoded, (&url.URL{Path: decoded}).EscapedPath())
		}
		if quoted, err := json.Marshal(part); err == nil {
			shapes = append(shapes, string(quoted[1:len(quoted)-1]))
		}
	}
	return shapes
}

// hostParts returns the host of a URL with and without its port, in letters and in punycode. Without the port it leaves out a name
// without a dot, such as localhost, because masking would remove this word from all outputs.
func hostParts(u *url.URL) (parts []string) {
	plain := u.Hostname()
	if plain == "" {
		return nil
	}
	ascii, _ := idna.Lookup.ToASCII(plain) // on an error no request can use this host, and its other forms need no mask
	letters, _ := idna.Lookup.ToUnicode(plain)
	for _, name := range []string{plain, ascii, letters} {
		if u.Port() != "" {
			parts = append(parts, strings.Replace(u.Host, plain, name, 1))
		}
		if len(name) >= minHostBytes && strings.ContainsAny(name, ".:") {
			parts = append(parts, name)
		}
	}
	return parts
}
