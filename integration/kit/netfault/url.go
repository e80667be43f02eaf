package netfault

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
	"testing"
)

// Through starts a proxy to the server of a postgres:// URL, and returns a URL that leads through the proxy.
func Through(tb testing.TB, databaseURL string) (*Proxy, string) {
	tb.Helper()
	server, err := serverOf(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	p := Start(tb, server)
	through, err := p.URL(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	return p, through
}

// URL returns databaseURL with the proxy as its host, and without encryption.
func (p *Proxy) URL(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", fmt.Errorf("lead a URL through the proxy: %w", err)
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = p.Addr(), query.Encode()
	return u.String(), nil
}

// serverOf returns the only host that a URL names, before the path or as ?host=, as an address or as the folder of its
// socket.
func serverOf(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", fmt.Errorf("find the server of a URL: %w", err)
	}
	host, port := u.Hostname(), u.Port()
	if h := u.Query().Get("host"); h != "" {
		host = h
	}
	if p := u.Query().Get("port"); p != "" {
		port = p
	}
	if host == "" {
		return "", fmt.Errorf("find the server of a URL: it names no host")
	}
	if port == "" {
		port = "5432"
	}
	if strings.HasPrefix(host, "/") {
		return path.Join(host, ".s.PGSQL."+port), nil
	}
	return net.JoinHostPort(host, port), nil
}
