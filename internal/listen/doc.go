// Package listen keeps one connection on which Postgres sends notifications, and hands them to whoever subscribed to
// their channel.
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
// Notifications are hints. They get lost while the connection is, anybody may send them, and a server that cannot be
// reached sends none: so a subscriber gets Missed once the server listens for it, when the connection is lost, and when
// it is back; it takes payloads for what they are, somebody's text; and it looks by itself now and then.
//
// A subscriber that is slow finds everything since its last Wait in one Signal: each payload once, and past a bound only
// Missed. Nothing waits for it and memory is bounded, whatever is sent.
//
// Through a pooler that lends by the transaction nothing is heard: a Listener finds that out and connects no more.
//
// The connection is made at once, lives until Close, and is made again whenever it breaks. A peer that died without a word
// is noticed, by a question that it does not answer. One goroutine owns all of this, and Close waits for it.
//
// All methods are safe for concurrent use; one goroutine at a time may Wait on a Subscription. The package does not know
// what messages mean.
package listen
