package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// privateCA listens as a Postgres with a certificate from an authority that the client does not know.
func privateCA(t *testing.T) (address string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-done })
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serveTLS(conn, config)
		}
	}()
	return listener.Addr().String()
}

// serveTLS agrees to TLS as Postgres does. The client then hangs up.
func serveTLS(conn net.Conn, config *tls.Config) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
		return
	}
	if _, err := conn.Write([]byte("S")); err == nil {
		_ = tls.Server(conn, config).Handshake()
	}
}

func TestCertificates_OfAPrivateAuthorityNameSslrootcert(t *testing.T) {
	t.Parallel()
	address := privateCA(t)
	e := testEnv()
	for _, command := range []string{"list", "doctor"} {
		got := invoke(t, e, "--database-url", "postgres://ana:hunter2@"+address+"/app?sslmode=verify-full", command)
		if got.exit != exitUnreachable || strings.Contains(got.stderr, "startup message") ||
			!strings.Contains(got.stderr, "the server's certificate is not trusted: ") ||
			!strings.Contains(got.stderr, "hint: ") || !strings.Contains(got.stderr, "sslrootcert=") {
			t.Errorf("%s: exit %d\n%s", command, got.exit, got.stderr)
		}
	}
}
