package worker

import (
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
		got, err := new(SecretPolicy).resolve([]dagspec.Secret{{Name: "s", From: "file", Key: filepath.Join(dir, name)}})
		switch {
		case want == "" && (err != nil || len(got["s"]) != maxSecretBytes):
			t.Errorf("%s: %d bytes, %v", name, len(got["s"]), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sss")):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := new(SecretPolicy).resolve([]dagspec.Secret{{Name: "s", From: "file", Key: "/dev/zero"}}); err == nil {
		t.Error("a device was read")
	}
}
