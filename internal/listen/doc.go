// Package listen keeps one connection on which Postgres sends notifications, and passes them to the subscribers of their
// channel.
//
//	l := listen.New(listen.Options{Config: config})
//	defer l.Close()
//	s := l.Subscribe("channel")
//	defer s.Close()
//	for {
//		signal, err := s.Wait(ctx)
//		… signal.Missed: look at everything; else at what signal.Payloads name …
//	}
//
// Notifications are hints. They get lost while the connection is lost, any user of the database may send them, and a server
// that cannot be reached sends none. So a subscriber gets Missed once the server listens for it, when the connection is lost,
// and when it is back. A subscriber treats payloads as text from an unknown sender, and polls from time to time.
//
// A slow subscriber finds everything since its last Wait in one Signal: each payload once, and past a limit only Missed. The
// connection never waits for a subscriber, and memory is limited whatever is sent.
//
// Through a pooler in transaction mode no notification arrives: a Listener detects such a pooler and stops connecting.
//
// New connects at once. The connection lives until Close, and is made again whenever it breaks. The Listener notices a dead
// peer by a query that gets no answer. One goroutine owns all of this, and Close waits for it.
//
// All methods are safe for concurrent use; one goroutine at a time may Wait on a Subscription. The package does not know
// the meaning of messages.
package listen
