package pglocal

import (
	"net"
	"net/url"
	"path/filepath"
	"strconv"
)

// PublicURL returns a URL of a database that may be shown. It writes the password to the file pgpass in the state folder, which
// only this user can read, and names that file in the URL instead of the password. libpq and pgx read the file.
func (s *Server) PublicURL(database string) (string, error) {
	path := filepath.Join(s.folder.dir, "pgpass")
	line := "*:*:*:" + s.folder.state.User + ":" + s.folder.state.Password + "\n"
	if err := writeAtomic(path, []byte(line)); err != nil {
		return "", explain("write", path, err)
	}
	u := s.url(database, url.Values{"sslmode": {"disable"}, "passfile": {path}})
	u.User = url.User(s.folder.state.User)
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.pm.port))
	return u.String(), nil
}
