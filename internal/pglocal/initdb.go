package pglocal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ensureData creates the data folder if there is none, and returns binaries of its major version. For a new data folder it may
// download PostgreSQL. It refuses a data folder without PG_VERSION.
func (f *folder) ensureData(ctx context.Context, c Config) (Binaries, error) {
	b, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if err == nil {
		return f.matching(ctx, strings.TrimSpace(string(b)))
	}
	if _, err := os.Lstat(f.data()); err == nil {
		return Binaries{}, &Error{
			ErrNotOurs, f.data() + " is no data folder of PostgreSQL (PG_VERSION is missing)",
			"move this folder away to begin with an empty database; nothing in this folder was changed", nil,
		}
	}
	bin, err := findOrFetch(ctx, c)
	if err != nil {
		return Binaries{}, err
	}
	c.say(fmt.Sprintf("creating a private PostgreSQL %d in %s", bin.Version, f.dir))
	return bin, f.initdb(ctx, c, bin)
}

// matching returns binaries for the existing data folder. version is the text of its PG_VERSION. It returns an ErrOtherVersion if
// it finds none of that major version, because PostgreSQL never opens a data folder of another one. OARLOCK_PG_BIN hides all other
// binaries. If it points to none, matching returns an ErrBinaries.
func (f *folder) matching(ctx context.Context, version string) (Binaries, error) {
	major, err := strconv.Atoi(version)
	if err != nil {
		return Binaries{}, &Error{ErrOtherVersion, fmt.Sprintf("%s was made by PostgreSQL %s", f.data(), version), advice[ErrOtherVersion], err}
	}
	bin, err := findMajor(ctx, major)
	if errors.Is(err, ErrBinaries) || err == nil && bin.Version == major {
		return bin, err
	}
	msg := fmt.Sprintf("%s was made by PostgreSQL %d, which is not installed", f.data(), major)
	if other, err := Find(ctx); err == nil {
		msg += fmt.Sprintf(" (found %d in %s)", other.Version, other.Dir)
	}
	return Binaries{}, &Error{
		ErrOtherVersion, msg,
		fmt.Sprintf("install PostgreSQL %d, or set %s to its folder; to begin with an empty database instead: mv %s %s.%d",
			major, binEnv, f.data(), f.data(), major), nil,
	}
}

// initdb creates the data folder by the program initdb, with the locale C.UTF-8, or C if that is missing. It fills a new folder and
// then renames it, so that data/ is complete or absent whenever a process dies.
func (f *folder) initdb(ctx context.Context, c Config, bin Binaries) error {
	fresh := f.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil { // the rest of an initdb that was killed: it never held data
		return explain("remove", fresh, err)
	}
	err := f.runInitdb(ctx, c, bin, fresh, "C.UTF-8")
	if errors.Is(err, ErrLocale) {
		err = f.runInitdb(ctx, c, bin, fresh, "C") // "C" exists on every system; the encoding stays UTF8
	}
	if err != nil {
		_ = os.RemoveAll(fresh) // the next start tries again
		return err
	}
	return explain("name the data folder", f.dir, os.Rename(fresh, f.data()))
}

// runInitdb runs the program initdb for the folder dir, a path in f.dir, and waits for its end. initdb runs under the supervisor,
// like the server, so that it ends with its users: this process and the process c.KeepFor. If initdb fails, the error is from
// diagnose.
func (f *folder) runInitdb(ctx context.Context, c Config, bin Binaries, dir, locale string) error {
	if err := f.makeOwned(filepath.Base(dir)); err != nil {
		return err
	}
	pwfile := f.path("pwfile") // in a file, because other users can read arguments
	if err := cmp.Or(writeAtomic(pwfile, []byte(f.state.Password+"\n")), f.owner.give(pwfile)); err != nil {
		return explain("write", pwfile, err)
	}
	defer os.Remove(pwfile)
	command := []string{
		filepath.Join(bin.Dir, "initdb"), "--pgdata=" + dir, "--username=" + f.state.User,
		"--pwfile=" + pwfile, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=" + locale,
	}
	if f.throwaway {
		command = append(command, "--no-sync")
	}
	l, err := f.supervise(c.KeepFor, "", command)
	if err != nil {
		return err
	}
	defer l.close()
	if err := poll(ctx, func() (bool, error) { return !l.hello(), nil }); err != nil {
		return fmt.Errorf("create the data folder in %s: %w", f.dir, err)
	}
	out, err := os.ReadFile(f.path("server.log"))
	if err != nil || !bytes.Contains(out, []byte("\nSuccess.")) { // the supervisor's exit status is not available
		return diagnose("create the data folder in "+f.dir, string(out), "", err)
	}
	return nil
}
