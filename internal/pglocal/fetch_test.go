package pglocal

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
)

// repository serves an archive of scripts, packed like the real one.
func repository(t *testing.T) string {
	t.Helper()
	packed, err := os.ReadFile("testdata/postgres-fake.txz")
	must(t, err)
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.Create("postgres-linux.txz")
	must(t, err)
	_, err = w.Write(packed)
	must(t, err)
	must(t, z.Close())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".jar") {
			_, _ = w.Write(jar.Bytes())
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestEmbedded_FetchesBinariesAndStartsNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "postgres")
	must(t, fetchInto(t.Context(), dir, embedded(repository(t))))
	b, err := inspect(t.Context(), filepath.Join(dir, "bin"))
	if err != nil || b.Version != 17 {
		t.Errorf("got %v, %v", b, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "download-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEmbedded_OfflineIsAnErrorAndLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	dir := filepath.Join(t.TempDir(), "cache", "postgres")
	err := fetchInto(t.Context(), dir, embedded("http://127.0.0.1:1"))
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
	for _, folder := range []string{filepath.Dir(dir), temp} {
		if entries, _ := os.ReadDir(folder); len(entries) > 0 {
			t.Errorf("left behind in %s: %v", folder, entries)
		}
	}
}

func TestFetchInto_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	err := fetchInto(ctx, filepath.Join(newDir(t), "postgres"), func(string) error {
		cancel()
		<-release
		return errors.New("too late")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A download that goes on after the end of the context is thrown away, complete or not.
func TestFetchInto_AfterItsContextMakesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release, unpacked := make(chan struct{}), make(chan error, 1)
	source, folder := embedded(repository(t)), newDir(t)
	err := fetchInto(ctx, filepath.Join(folder, "postgres"), func(dir string) error {
		cancel()
		<-release
		err := source(dir)
		unpacked <- err
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := <-unpacked; err != nil {
		t.Fatalf("the download failed: %v", err)
	}
	await.True(t, "the download is gone", func() bool {
		left, _ := filepath.Glob(filepath.Join(folder, "download-*"))
		return len(left) == 0
	})
	if _, err := os.Stat(filepath.Join(folder, "postgres")); err == nil {
		t.Error("the folder was made after fetchInto had returned")
	}
}

func TestDownload_WithoutAHomeStillNamesTheInstallCommand(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	_, err := Config{}.download(t.Context(), &MissingError{Command: "apt-get install -y postgresql"})
	if missing, ok := errors.AsType[*MissingError](err); !ok || missing.Command != "apt-get install -y postgresql" {
		t.Errorf("got %v", err)
	}
}

func TestDownload_SaysSo_AndNeverRunsAsRoot(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	fetched, said := false, ""
	c := Config{
		Say:   func(s string) { said += s },
		fetch: func(string) error { fetched = true; return errors.New("no network") },
	}
	_, err := c.download(t.Context(), &MissingError{Command: "apt-get install -y postgresql"})
	var missing *MissingError
	if !errors.As(err, &missing) || missing.Command != "apt-get install -y postgresql" {
		t.Fatalf("got %v", err)
	}
	if os.Geteuid() == 0 {
		if fetched || said != "" {
			t.Errorf("fetched as root: %v, said %q", fetched, said)
		}
		return
	}
	if !fetched || !strings.Contains(said, "downloading") || !strings.Contains(err.Error(), "no network") {
		t.Errorf("fetched: %v, said %q, error %v", fetched, said, err)
	}
}
