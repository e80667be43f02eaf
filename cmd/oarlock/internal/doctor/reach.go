package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// Target describes the destination of a connection as user@host:port/database. It names every host, and a Unix socket by its path.
func Target(c *pgconn.Config) string {
	hosts := []string{address(c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if a := address(f.Host, f.Port); !slices.Contains(hosts, a) {
			hosts = append(hosts, a)
		}
	}
	return fmt.Sprintf("%s@%s/%s", c.User, strings.Join(hosts, ","), cmp.Or(c.Database, c.User))
}

func address(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return fmt.Sprintf("%s/.s.PGSQL.%d", host, port)
	}
	return net.JoinHostPort(host, fmt.Sprint(port))
}

// Explain returns the text of an error for users, without passwords. For a failed connection it names the server and each reason
// once, on one line, since the driver's own text has a line per attempt. For an error that the server reported it keeps only the
// server's message.
func Explain(err error) string {
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		text := err.Error()
		if server, said := errors.AsType[*pgconn.PgError](err); said {
			text = strings.ReplaceAll(text, server.Error(), server.Message)
		}
		return pglink.Redact(text)
	}
	all := reasons(connect.Unwrap())
	if mayGoUnencrypted(connect.Config) && len(all) > 1 { // refused TLS is then only the first half of an attempt, not the reason
		all = slices.DeleteFunc(all, func(text string) bool { return strings.HasSuffix(text, "server refused TLS connection") })
	}
	return fmt.Sprintf("cannot connect to %s: %s", Target(connect.Config), pglink.Redact(strings.Join(all, "; ")))
}

// mayGoUnencrypted reports whether an attempt after the first uses no TLS. With sslmode=prefer, the default, the driver tries every
// host with TLS and then without.
func mayGoUnencrypted(c *pgconn.Config) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
}

// reasons returns a text for each error that err joins, and each text once: with sslmode=prefer the driver tries every host twice.
func reasons(err error) []string {
	var all []string
	for _, leaf := range leaves(err) {
		if text := reason(leaf); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// leaves returns the errors that err joins. Of these it replaces an error that joins errors itself by its own leaves. If err joins
// no errors, it returns err alone.
func leaves(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if joined, ok := e.(interface{ Unwrap() []error }); ok {
			var all []error
			for _, part := range joined.Unwrap() {
				all = append(all, leaves(part)...)
			}
			return all
		}
	}
	return []error{err}
}

func reason(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("cannot find the address of host %q", e.Name)
	}
	if why := distrust(err); why != nil {
		return "the server's certificate is not trusted: " + why.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return "the server did not answer in time"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}

// distrust returns why the client refused the server's certificate; nil: the client did not refuse it.
func distrust(err error) error {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return e
	}
	return nil
}

// CertificateHint says what to do about a server's certificate that the client does not trust. It returns "" if err is
// about anything else.
func CertificateHint(err error) string {
	why := distrust(err)
	if why == nil {
		return ""
	}
	if _, ok := errors.AsType[x509.HostnameError](why); ok {
		return "write into the URL a name of the host that the certificate has, or make a new certificate with the host name of the URL"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](why); ok {
		return "add the certificate of the authority that signed the server's certificate to the URL: sslrootcert=/path/ca.pem"
	}
	return "make a new certificate for the server; sslrootcert=/path/ca.pem in the URL names the authority to trust"
}
