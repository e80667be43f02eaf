package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

func TestSecrets_AreFilesOfModestSize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, bytes int) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("s", bytes)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good", maxSecretBytes)
	write("long", maxSecretBytes+1)
	write("short", minSecretBytes-1)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "good"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"good": "", "link": "", "long": "more than 65536 bytes", "short": "fewer than 4", "pipe": "is no file", ".": "is no file", "missing": "has no file",
	} {
		got, err := reading(t, SecretPolicy{}, dagspec.Secret{Name: "s", From: "file", Key: filepath.Join(dir, name)})
		switch {
		case want == "" && (err != nil || len(got["s"]) != maxSecretBytes):
			t.Errorf("%s: %d bytes, %v", name, len(got["s"]), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sss")):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := reading(t, SecretPolicy{}, dagspec.Secret{Name: "s", From: "file", Key: "/dev/zero"}); err == nil {
		t.Error("a device was read")
	}
}

func reading(t *testing.T, p SecretPolicy, wanted ...dagspec.Secret) (map[string]string, error) {
	t.Helper()
	return newSecretReader(p).read(t.Context(), "w1", wanted)
}

// program writes an executable script and returns its path.
func program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "get-secret")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecrets_AreWhatACommandPrints(t *testing.T) {
	for _, name := range []string{"DATABASE_URL", "PGPASSWORD", "WAREHOUSE"} {
		t.Setenv(name, "postgres://u:hunter2@h/db")
	}
	t.Setenv("VAULT_ADDR", "http://vault")
	for _, tt := range []struct{ text, key, want, wrong string }{
		{`printf '%s,%s,%s,%s' "$#" "$1" "$2" "$3"`, "etl/db", "3,--of,vault,etl/db", ""},
		{`echo one; echo two; echo`, "k", "one\ntwo\n", ""},
		{`echo "$VAULT_ADDR|${DATABASE_URL-}|${PGPASSWORD-}|${WAREHOUSE-}|$OARLOCK_WORKER_ID"`, "k", "http://vault||||w1", ""},
		{`cat; echo empty stdin`, "k", "empty stdin", ""},
		{`echo hunter2; echo hunter2 >&2; exit 3`, "k", "", "secrets_command failed for the key k: exit status 3"},
		{`kill -KILL $$`, "k", "", "signal: killed"},
		{`head -c 70000 /dev/zero | tr '\0' x`, "k", "", "more than 65536 bytes"},
		{`printf 'hun\0ter2'`, "k", "", "NUL byte"},
		{`echo abc`, "k", "", "fewer than 4"},
		{`echo hunter2`, "--delete", "", "must not begin with a dash"},
		{`echo hunter2`, "a\nb", "", "control characters"},
	} {
		p := SecretPolicy{Command: []string{program(t, tt.text), "--of", "vault"}, NeverEnv: []string{"WAREHOUSE"}, WorkerVariable: "OARLOCK_WORKER_ID"}
		got, err := reading(t, p, dagspec.Secret{Name: "s", From: "command", Key: tt.key})
		switch {
		case tt.wrong == "" && (err != nil || got["s"] != tt.want):
			t.Errorf("%s: %q, %v", tt.text, got["s"], err)
		case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %q", tt.text, err, tt.wrong)
		}
	}
	if _, err := reading(t, SecretPolicy{}, dagspec.Secret{Name: "s", From: "command", Key: "k"}); err == nil {
		t.Error("a worker without a command gave a secret")
	}
}

// A command that hangs, and what it started, ends with the task that wants the secret.
func TestSecrets_AreNotWaitedForOnceTheTaskIsToEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		f, err := os.OpenFile(fifo, os.O_RDONLY, 0) // until the command is there
		if err == nil {
			f.Close()
		}
		cancel()
	}()
	p := SecretPolicy{Command: []string{program(t, `sleep 300 & echo here >`+fifo+`; wait`)}}
	_, err := newSecretReader(p).read(ctx, "", []dagspec.Secret{{Name: "s", From: "command", Key: "k"}})
	if !errors.Is(err, errSecretStopped) {
		t.Errorf("got %v", err)
	}
}
