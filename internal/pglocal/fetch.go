package pglocal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const downloadVersion = embeddedpostgres.V17

// fetcher puts PostgreSQL's binaries into dir/bin, dir/lib and dir/share.
type fetcher func(dir string) error

func downloadDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder: %w", err)
	}
	return filepath.Join(base, "oarlock", "postgres-"+string(downloadVersion)), nil
}

// findOrFetch returns an installed PostgreSQL, as Find does. If there is none, it downloads one, except as root.
func findOrFetch(ctx context.Context, c Config) (Binaries, error) {
	bin, err := Find(ctx)
	if missing, ok := errors.AsType[*MissingError](err); ok {
		return c.download(ctx, missing)
	}
	return bin, err
}

// download tells the user that it downloads PostgreSQL, and does so. It returns missing for root, for which it never downloads. If
// the download fails, it returns a *MissingError with the reason.
func (c Config) download(ctx context.Context, missing *MissingError) (Binaries, error) {
	if os.Geteuid() == 0 {
		return Binaries{}, missing
	}
	dir, err := downloadDir()
	if err != nil { // a user without a home folder
		return Binaries{}, &MissingError{Command: missing.Command, Why: err.Error()}
	}
	fetch := c.fetch
	if fetch == nil {
		fetch = embedded("")
	}
	c.say(fmt.Sprintf("no PostgreSQL installed: downloading %s to %s (about 30 MB, once)", downloadVersion, dir))
	if err := fetchInto(ctx, dir, fetch); err != nil {
		return Binaries{}, &MissingError{Command: missing.Command, Why: "the download failed: " + err.Error()}
	}
	return inspect(ctx, filepath.Join(dir, "bin"))
}

// fetchInto calls fetch and puts the result at dir, which must not exist yet. It fails if the programs do not run. dir is complete
// afterwards, or does not exist. After the end of ctx fetchInto returns at once, although fetch may go on in the background.
func fetchInto(ctx context.Context, dir string, fetch fetcher) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return explain("make a cache folder", dir, err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "download-")
	if err != nil {
		return explain("make a cache folder", dir, err)
	}
	done := make(chan error)
	go func() { // the library takes no context: after Ctrl-C the goroutine ends with the process
		err := fetch(tmp)
		if err == nil {
			_, err = inspect(context.WithoutCancel(ctx), filepath.Join(tmp, "bin"))
		}
		select {
		case done <- err:
		case <-ctx.Done():
			_ = os.RemoveAll(tmp) // the caller removed what was there when ctx ended
		}
	}()
	select {
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), os.RemoveAll(tmp))
	case err := <-done:
		if err == nil {
			err = os.Rename(tmp, dir)
		}
		return errors.Join(err, os.RemoveAll(tmp))
	}
}

// embedded returns a fetcher that uses the embedded-postgres library. It downloads from the URL repository; "" means the library's
// default. The library can only start a whole server, which would outlive this process if it were killed. So the library gets a
// data folder that looks initialized and is empty: it downloads, unpacks, and then fails to start.
func embedded(repository string) fetcher {
	return func(dir string) error {
		scratch, err := os.MkdirTemp("", "oarlock-download-")
		if err != nil {
			return fmt.Errorf("make a temp folder: %w", err)
		}
		defer os.RemoveAll(scratch)
		port, err := freePort()
		if err != nil {
			return err
		}
		decoy := filepath.Join(scratch, "data")
		major, _, _ := strings.Cut(string(downloadVersion), ".")
		if err := errors.Join(os.Mkdir(decoy, 0o700), os.WriteFile(filepath.Join(decoy, "PG_VERSION"), []byte(major+"\n"), 0o600)); err != nil {
			return fmt.Errorf("make a temp folder: %w", err)
		}
		config := embeddedpostgres.DefaultConfig().Version(downloadVersion).Port(uint32(port)).Password(rand.Text()).
			CachePath(filepath.Join(scratch, "cache")).RuntimePath(filepath.Join(scratch, "run")).
			DataPath(decoy).BinariesPath(dir).Logger(io.Discard)
		if repository != "" {
			config = config.BinaryRepositoryURL(repository)
		}
		server := embeddedpostgres.NewDatabase(config)
		before := downloadLogs()
		err = server.Start()
		for log := range downloadLogs() {
			if !before[log] {
				_ = os.Remove(log) // the file may belong to another user, or be gone
			}
		}
		if err == nil {
			return errors.Join(errors.New("an empty data folder started"), server.Stop())
		}
		if _, statErr := os.Stat(filepath.Join(dir, "bin", "initdb")); statErr != nil {
			return err
		}
		return nil
	}
}

// downloadLogs returns the paths of the log files that the library has left in the temp folder. The library makes one at each start
// and removes none, so the caller removes the new ones. These may include a file of another process, but its download does not need
// it.
func downloadLogs() map[string]bool {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), "embedded_postgres_log*"))
	logs := map[string]bool{}
	for _, log := range found {
		logs[log] = true
	}
	return logs
}
