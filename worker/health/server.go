package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
)

// DefaultAddr is the address of a server if Config names none.
const DefaultAddr = "127.0.0.1:9465"

// Limits of a connection. They are generous to a scraper, and cut off a client that only keeps a connection open.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// Config is the configuration of a Server. Status is required.
type Config struct {
	Addr    string               // host:port; "": DefaultAddr; without a host: the loopback interface; 0.0.0.0: all interfaces
	Status  func() worker.Status // returns the status of the worker
	Metrics http.Handler         // nil: no /metrics
}

// Server serves the endpoints on its own address.
type Server struct {
	server   *http.Server
	listener net.Listener
	ended    chan struct{}
	err      error // why it ended, valid once ended is closed; nil: it was closed
}

// New listens on the address, and serves in a goroutine until Close. The caller must close the server. An error means that Config
// is wrong, or that the address cannot be had.
func New(c Config) (*Server, error) {
	if c.Status == nil {
		return nil, errors.New("health: Config.Status is missing")
	}
	addr, err := address(c.Addr)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for health checks: %w: name a free address", err)
	}
	s := &Server{listener: listener, ended: make(chan struct{}), server: &http.Server{
		Handler: Handler(c.Status, c.Metrics), MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
	}}
	go s.serve()
	return s, nil
}

// address returns the address to listen on. given is the address in Config: "" stands for DefaultAddr, and without a host the
// address is on the loopback interface. It returns an error if CheckAddr refuses given.
func address(given string) (string, error) {
	if given == "" {
		return DefaultAddr, nil
	}
	if err := CheckAddr(given); err != nil {
		return "", fmt.Errorf("address for health checks: %q %w", given, err)
	}
	host, port, _ := net.SplitHostPort(given)
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// CheckAddr returns an error if an address is not HOST:PORT, where HOST may be empty and PORT may be a word such as http. It does
// not check whether the address is free. The caller must put the address before the message, which begins with "must be".
func CheckAddr(given string) error {
	_, port, err := net.SplitHostPort(given)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // a number, or a word of /etc/services
	}
	if err != nil {
		return fmt.Errorf("must be HOST:PORT, such as %s", DefaultAddr)
	}
	return nil
}

func (s *Server) serve() {
	defer close(s.ended)
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.err = fmt.Errorf("serve health checks: %w", err)
	}
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server. It waits for requests in progress until ctx ends, and then cuts them off, which is no error. If the server
// had ended by itself before, Close returns the reason.
func (s *Server) Close(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	<-s.ended
	return errors.Join(s.err, err)
}
