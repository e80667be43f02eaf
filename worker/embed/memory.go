package embed

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"
)

// maxMemories is how many installations a host remembers, the most recently served ones.
const maxMemories = 100

// memory keeps one file for each installation that this host served, with the addresses of its database. It is only a help.
// Without it, a user must confirm the new server after a failover during which no worker was running.
type memory struct {
	dir string
	log *slog.Logger
}

// remembered is the content of a file.
type remembered struct {
	Addresses []string `json:"addresses"` // host:port/database
}

// Recall returns the addresses by which an installation was last served on this host. It returns nil if there were none, or if the
// file cannot be read, which it logs.
func (m *memory) Recall(installation string) []string {
	var r remembered
	path, err := m.path(installation)
	if err == nil {
		var text []byte
		if text, err = os.ReadFile(path); err == nil {
			err = json.Unmarshal(text, &r)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.log.Warn("the file that says where an installation was served cannot be read", "installation", installation, "err", err)
	}
	return r.Addresses
}

// Remember stores the addresses of an installation for workers that start later. It logs an error, and the worker goes on without
// the file.
func (m *memory) Remember(installation string, addresses []string) {
	if err := m.write(installation, addresses); err != nil {
		m.log.Warn("this host cannot note which installation it serves: after a failover that no worker lives through, `oarlock migrate adopt --moved` is needed",
			"installation", installation, "err", err)
	}
}

func (m *memory) path(installation string) (string, error) {
	id, err := uuid.Parse(installation) // the text comes from a row, and must not lead to another file
	return filepath.Join(m.dir, id.String()+".json"), err
}

// write makes the file of an installation, or replaces it as a whole, because other workers of this host read and write it too. It
// may remove the oldest files to make room.
func (m *memory) write(installation string, addresses []string) error {
	path, err := m.path(installation)
	if err != nil {
		return err
	}
	if err := OwnFolder(m.dir); err != nil {
		return err
	}
	text, err := json.Marshal(remembered{addresses})
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(m.dir, ".draft-*") // accessible to this user only
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.Write(append(text, '\n'))
	if err = errors.Join(err, draft.Close()); err != nil {
		return err
	}
	m.forget()
	return os.Rename(draft.Name(), path)
}

// forget removes the files that were written longest ago, until one more can be added to at most maxMemories.
func (m *memory) forget() {
	type file struct {
		path string
		at   int64
	}
	var files []file
	paths, _ := filepath.Glob(filepath.Join(m.dir, "*.json"))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			files = append(files, file{path, info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.at, b.at) })
	for ; len(files) >= maxMemories; files = files[1:] {
		_ = os.Remove(files[0].path)
	}
}
