package pglocal

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSocketDir leaves room for "/.s.PGSQL.65535" in the 104 bytes of a socket path on macOS (Linux has 108).
const maxSocketDir = 104 - 1 - len("/.s.PGSQL.65535")

// superuser is not "oarlock", because search_path begins with "$user" and would put the schema of that name first.
const superuser = "postgres"

// state marks a folder as Oarlock's. It is written once.
type state struct {
	Format   int    `json:"format"`
	User     string `json:"user"`
	Password string `json:"password"`
	Port     int    `json:"port"` // preferred; the server takes another port if this one is in use
}

// folder is a state folder, with its lock held.
type folder struct {
	dir       string // absolute, without links
	throwaway bool
	owner     owner
	state     state
	lock      flock
}

// StateDir returns the default folder of the private server: oarlock/pg below $XDG_STATE_HOME, if that is an absolute path.
// Otherwise it is below ~/.local/state, and for root below /var/lib, because the server's user may not enter root's home. StateDir
// creates nothing.
func StateDir() (string, error) {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "oarlock", "pg"), nil
	}
	if os.Geteuid() == 0 {
		return "/var/lib/oarlock/pg", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a state folder (set XDG_STATE_HOME): %w", err)
	}
	return filepath.Join(home, ".local", "state", "oarlock", "pg"), nil
}

// TempDir returns a folder for throw-away servers: the system's own, or /tmp if the server's user may not enter the
// system's, or if its path is too long for sockets.
func TempDir() string {
	dir, err := filepath.EvalSymlinks(os.TempDir())
	o, ownerErr := serverOwner()
	if err != nil || ownerErr != nil || len(dir) > maxSocketDir-48 || !o.canEnter(dir) {
		return "/tmp"
	}
	return dir
}

// openFolder creates the folder of c or checks an existing one, takes its lock, and prepares its contents. It waits while another
// process holds the lock. The caller closes f.lock. openFolder returns errVanished if another process removed a throw-away folder
// meanwhile.
func openFolder(ctx context.Context, c Config) (*folder, error) {
	o, err := serverOwner()
	if err != nil {
		return nil, err
	}
	f := &folder{throwaway: c.Throwaway, owner: o}
	if f.dir, err = f.make(c.Dir); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	f.lock, err = lockFile(ctx, f.path("lock"))
	if f.throwaway && errors.Is(err, fs.ErrNotExist) {
		return nil, errVanished
	}
	if err != nil {
		return nil, explain("lock", f.dir, err)
	}
	if err := f.prepare(); err != nil {
		f.lock.close()
		return nil, err
	}
	return f, nil
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }
func (f *folder) data() string            { return f.path("data") }
func (f *folder) mark() string            { return f.path("run/leaving") }

// make creates the folder dir, if it does not exist, and returns its path without links, which can be compared with a process's
// working folder. dir "" is StateDir, or a new temp folder for a throw-away server.
func (f *folder) make(dir string) (string, error) {
	var err error
	switch {
	case dir == "" && f.throwaway:
		dir, err = os.MkdirTemp(TempDir(), "oarlock-pg-")
	case dir == "":
		dir, err = StateDir()
	default:
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", explain("make a folder for PostgreSQL", dir, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", explain("make", dir, err)
	}
	mode := fs.FileMode(0o700)
	if f.owner.drop && !f.throwaway {
		mode = 0o711 // the folder is root's, but the server's user must reach data and run
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", explain("make", dir, err)
	}
	dir, err = filepath.EvalSymlinks(dir)
	return dir, explain("resolve", dir, err)
}

// check refuses a folder that belongs to another user, and a folder that has contents but no state.json. If this process is root
// and another user owns the data already, check makes that user f.owner.
func (f *folder) check() error {
	refuse := func(why string) error {
		return &Error{ErrNotOurs, f.dir + " " + why, "name an empty or a new folder; nothing in this folder was changed", nil}
	}
	var st unix.Stat_t
	if err := unix.Stat(f.dir, &st); err != nil {
		return explain("look at", f.dir, err)
	}
	if uid := int(st.Uid); uid != os.Geteuid() && uid != f.owner.uid {
		return refuse("belongs to another user")
	}
	if err := unix.Stat(f.data(), &st); err == nil && f.owner.drop && st.Uid != 0 {
		f.owner.uid, f.owner.gid = int(st.Uid), int(st.Gid) // the user that owned the data before
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return explain("look into", f.dir, err)
	}
	if _, err := os.Stat(f.path("state.json")); err == nil {
		return nil
	}
	for _, e := range entries {
		if e.Name() != "lock" && !strings.HasPrefix(e.Name(), "state.json.") {
			return refuse("holds other things (" + e.Name() + ") and no state.json of Oarlock")
		}
	}
	return nil
}

// prepare loads f.state from state.json, and creates state.json and run if they do not exist. It hands a throw-away folder over to
// the server's user, and fails if the server's user may not enter the folder.
func (f *folder) prepare() error {
	if f.throwaway { // the supervisor removes the folder, and runs as the owner
		if err := f.owner.give(f.dir); err != nil {
			return explain("hand over", f.dir, err)
		}
	}
	if err := f.owner.mustEnter(f.dir); err != nil {
		return err
	}
	if err := f.load(); err != nil {
		return err
	}
	return f.makeOwned("run")
}

func (f *folder) load() error {
	b, err := os.ReadFile(f.path("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return f.create()
	}
	if err != nil {
		return explain("read state", f.dir, err)
	}
	if err := json.Unmarshal(b, &f.state); err != nil || f.state.Format != 1 || f.state.Password == "" {
		return &Error{
			ErrNotOurs, f.path("state.json") + " cannot be read, or is from another version of oarlock",
			"restore the file as it was; without this file the server's password is lost (the data is untouched)", err,
		}
	}
	return nil
}

func (f *folder) create() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	f.state = state{Format: 1, User: superuser, Password: cryptorand.Text(), Port: port}
	b, err := json.Marshal(f.state)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	return explain("write state", f.dir, writeAtomic(f.path("state.json"), b))
}

// makeOwned makes the folder name in f.dir, which only the server's user may enter. A folder that exists already only changes its
// owner.
func (f *folder) makeOwned(name string) error {
	if err := os.Mkdir(f.path(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return explain("make "+name, f.dir, err)
	}
	return explain("hand over "+name, f.dir, f.owner.give(f.path(name)))
}

// socketDir returns the folder for the server's socket: run/, or a new private folder below /tmp if the path of run/ is too long
// for a socket. temp is the new folder, which must be removed after use; "": there is none.
func (f *folder) socketDir() (dir, temp string, err error) {
	if dir := f.path("run"); len(dir) <= maxSocketDir {
		return dir, "", nil
	}
	dir, err = os.MkdirTemp("/tmp", "oarlock-")
	if err == nil {
		err = f.owner.give(dir)
	}
	return dir, dir, explain("make a socket folder", "/tmp", err)
}

// newLog creates an empty server.log, and renames an existing one to server.log.1. The caller closes the file.
func (f *folder) newLog() (*os.File, error) {
	log := f.path("server.log")
	if err := os.Rename(log, log+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(log, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
}

// writeAtomic writes a file, or replaces it. If the disk is full or the process dies, the old file stays, or none.
func writeAtomic(path string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// freePort returns a random port of 127.0.0.1 that is free now. It is below the range that systems use for outgoing connections, so
// that it is likely to be free again at the next start.
func freePort() (int, error) {
	for range 100 {
		if port := 15000 + rand.N(15000); portFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: 100 tries in 15000-29999 found none")
}

// portFree reports whether this process can listen on a port of 127.0.0.1 now.
func portFree(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
