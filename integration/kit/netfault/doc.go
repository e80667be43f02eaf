// Package netfault is a TCP proxy for tests that stands between a client and Postgres and breaks their connection at
// an exact point: after the server has executed a statement and before the client hears of it, in the middle of a
// message, in one direction only.
//
//	proxy := netfault.Start(t, "127.0.0.1:5432")
//	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Cut})
//	… connect to proxy.Addr(), commit: the row is there, the client gets an error …
//	cut.MustFire(t)
//
// The proxy understands just enough of the protocol to see messages: their side, type and body. It refuses encryption,
// like a server without TLS, so that it can read the messages. Give clients sslmode=disable or prefer.
//
// A Proxy is safe for concurrent use. It has one goroutine per direction of each connection, and Close waits for all
// of them. It knows nothing about SQL.
package netfault
