package pglocal

import (
	"net"
	"net/url"
	"path/filepath"
	"strconv"
)

// PublicURL is URL for showing: the password is in a file that it names, which libpq and pgx read, and nobody but this user
// can.
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
