package netfault

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// link is a client's connection with its connection to the server.
type link struct {
	proxy          *Proxy
	client, server net.Conn
}

// run passes messages on in both directions until one side ends. Then it ends the other side in the same way.
func (l *link) run() {
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(Client, l.client, l.server) })
	pumps.Go(func() { l.pump(Server, l.server, l.client) })
	pumps.Wait()
	l.close()
}

// close ends both connections, and lets data that was sent arrive.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) reset() {
	reset(l.client)
	reset(l.server)
}

// reset ends a connection at once, without an orderly close.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// pump passes on the messages of one side.
func (l *link) pump(from Side, source, target net.Conn) {
	messages := reader{from: from, source: bufio.NewReader(source), started: from == Server}
	for {
		raw, err := messages.next(source)
		if err != nil {
			l.close() // a side that left ends the other side
			return
		}
		if raw == nil {
			continue
		}
		if !l.pass(messages.message(raw), raw, target) {
			_, _ = io.Copy(io.Discard, messages.source) // muted: keep reading, so that the sender does not block
			return
		}
	}
}

// pass sends one message on, or does the fault that it triggers. It returns false when this direction is over.
func (l *link) pass(m Message, raw []byte, target net.Conn) bool {
	if !l.wait(l.proxy.pause()) {
		return false
	}
	fault := l.proxy.next(m)
	if fault == nil {
		return send(target, raw)
	}
	switch fault.fault.Do {
	case Hold:
		return l.held(fault) && send(target, raw)
	case Cut:
		l.reset()
	case CutHalf:
		send(target, raw[:len(raw)/2])
		l.close()
	case CutAfter:
		send(target, raw)
		l.close()
	case HalfSent:
		send(target, raw[:len(raw)/2])
	case Mute:
	}
	return false
}

func send(target net.Conn, raw []byte) bool {
	_, err := target.Write(raw)
	return err == nil
}

func (l *link) held(fault *Injected) bool {
	select {
	case <-fault.released:
		return true
	case <-l.proxy.done:
		return false
	}
}

// wait holds a message for a delay, then while the proxy is frozen. It returns false when the proxy closes.
func (l *link) wait(delay time.Duration, thawed <-chan struct{}) bool {
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.proxy.done:
			return false
		}
	}
	select {
	case <-thawed:
		return true
	case <-l.proxy.done:
		return false
	}
}

func (p *Proxy) pause() (time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay, p.thawed
}

// reader cuts a byte stream into messages. A client's first messages have no type.
type reader struct {
	from    Side
	source  *bufio.Reader
	started bool
}

// Requests that a client may send before its startup message.
const (
	sslRequest = 80877103
	gssRequest = 80877104
)

const maxMessageBytes = 1 << 30

// next reads one message, with its type and length. It refuses a request for encryption itself, and then returns nil.
func (r *reader) next(source net.Conn) ([]byte, error) {
	head := 5
	if !r.started {
		head = 4
	}
	raw := make([]byte, head, 512)
	if _, err := io.ReadFull(r.source, raw); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(raw[head-4:])
	if length < 4 || length > maxMessageBytes {
		return nil, io.ErrUnexpectedEOF
	}
	raw = append(raw, make([]byte, length-4)...)
	if _, err := io.ReadFull(r.source, raw[head:]); err != nil {
		return nil, err
	}
	if !r.started && len(raw) == 8 && wantsEncryption(raw[4:]) {
		_, err := source.Write([]byte{'N'})
		return nil, err
	}
	return raw, nil
}

func wantsEncryption(code []byte) bool {
	request := binary.BigEndian.Uint32(code)
	return request == sslRequest || request == gssRequest
}

// message describes what next has read.
func (r *reader) message(raw []byte) Message {
	if !r.started {
		r.started = true
		return Message{From: r.from, Body: raw[4:]}
	}
	return Message{From: r.from, Type: raw[0], Body: raw[5:]}
}
