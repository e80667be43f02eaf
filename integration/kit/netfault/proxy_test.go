package netfault

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// echo is a server that answers every message after the first with type C and the same body.
func echo(t *testing.T, listener net.Listener) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
}

func answer(conn net.Conn) {
	defer conn.Close()
	in := reader{from: Client, source: bufio.NewReader(conn)}
	for {
		raw, err := in.next(conn)
		if err != nil {
			return
		}
		if m := in.message(raw); m.Type != 0 {
			if _, err := conn.Write(message('C', m.Body)); err != nil {
				return
			}
		}
	}
}

func message(kind byte, body []byte) []byte {
	raw := append([]byte{kind}, binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))...)
	return append(raw, body...)
}

type bundle struct {
	proxy *Proxy
	tb    *testing.T
}

func setup(t *testing.T) bundle {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echo(t, listener)
	return bundle{proxy: Start(t, listener.Addr().String()), tb: t}
}

// dial connects and sends the startup message.
func (b bundle) dial() *client {
	b.tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(b.tb.Context(), "tcp", b.proxy.Addr())
	if err != nil {
		b.tb.Fatal(err)
	}
	b.tb.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &client{Conn: conn, in: reader{from: Server, source: bufio.NewReader(conn), started: true}}
	c.write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 3<<16))
	return c
}

type client struct {
	net.Conn
	in reader
}

func (c *client) write(raw []byte) { _, _ = c.Write(raw) }

func (c *client) ask(tag string) { c.write(message('Q', append([]byte(tag), 0))) }

func (c *client) read() (string, error) {
	raw, err := c.in.next(c)
	if err != nil {
		return "", err
	}
	body := c.in.message(raw).Body
	return string(body[:len(body)-1]), nil
}

func (c *client) mustRead(t *testing.T, want string) {
	t.Helper()
	if got, err := c.read(); got != want || err != nil {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func TestProxy_PassesMessagesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.dial()
	for _, tag := range []string{"one", "", string(slices.Repeat([]byte("x"), 100_000))} {
		c.ask(tag)
		c.mustRead(t, tag)
	}
	if got, want := b.proxy.Counts(), (Counts{Accepted: 1, Open: 1, FromClient: 4, FromServer: 3}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

func TestProxy_ReachesAUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, listener)
	c := bundle{proxy: Start(t, path), tb: t}.dial()
	c.ask("a")
	c.mustRead(t, "a")
}

func TestProxy_RefusesEncryptionAndGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	for _, request := range []uint32{sslRequest, gssRequest} {
		raw := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), request)
		_, _ = conn.Write(raw)
		answer := make([]byte, 1)
		if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != 'N' {
			t.Fatalf("answer %q, %v; want N", answer, err)
		}
	}
}

func TestFault_CutDropsTheReplyOfAnExecutedStatement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.dial()
	cut := b.proxy.Inject(Fault{When: Completed("end"), Do: Cut})
	c.ask("begin")
	c.mustRead(t, "begin")
	c.ask("end")
	if got, err := c.read(); err == nil {
		t.Fatalf("read %q over a connection that is cut", got)
	}
	cut.MustFire(t)
	again := b.dial()
	again.ask("end")
	again.mustRead(t, "end")
}

func TestFault_FiresAtTheNthMatchOverAllConnections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.proxy.Inject(Fault{When: OfType(Client, 'Q'), Nth: 3, Do: Cut})
	first, second := b.dial(), b.dial()
	first.ask("1")
	first.mustRead(t, "1")
	second.ask("2")
	second.mustRead(t, "2")
	first.ask("3")
	if _, err := first.read(); err == nil {
		t.Error("the third message went through")
	}
	second.ask("4")
	second.mustRead(t, "4")
}

func TestFault_CutAfterAndCutHalf(t *testing.T) {
	t.Parallel()
	for do, wantWhole := range map[Action]bool{CutAfter: true, CutHalf: false} {
		b := setup(t)
		b.proxy.Inject(Fault{When: OfType(Server, 'C'), Do: do})
		c := b.dial()
		c.ask("reply")
		got, err := c.read()
		if whole := err == nil && got == "reply"; whole != wantWhole {
			t.Errorf("action %d: read %q, %v", do, got, err)
		}
		if _, err := c.read(); err == nil {
			t.Errorf("action %d: the connection lives on", do)
		}
	}
}

func TestFault_MuteEndsOneDirectionOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	muted := b.proxy.Inject(Fault{When: Completed("a"), Do: Mute})
	replied := b.proxy.Inject(Fault{When: OfType(Client, 'Q'), Nth: 2, Do: Cut})
	c := b.dial()
	c.ask("a")
	muted.MustFire(t)
	c.ask("b") // still reaches the proxy, which cuts the connection then
	replied.MustFire(t)
	if got, err := c.read(); err == nil {
		t.Errorf("read %q from a muted side", got)
	}
}

func TestFault_HalfSentLeavesTheConnectionOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	half := b.proxy.Inject(Fault{When: OfType(Client, 'Q'), Do: HalfSent})
	c := b.dial()
	c.ask("never complete")
	half.MustFire(t)
	c.ask("swallowed")
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := c.read(); !isTimeout(err) {
		t.Errorf("read ended with %v, want a timeout of an open connection", err)
	}
}

func TestFault_HoldKeepsTheMessageUntilRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := b.proxy.Inject(Fault{When: Completed("a"), Do: Hold})
	c := b.dial()
	c.ask("a")
	hold.MustFire(t)
	hold.Release()
	hold.Release()
	c.mustRead(t, "a")
}

func TestProxy_FreezeHoldsEverythingUntilThaw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.dial()
	c.ask("a")
	c.mustRead(t, "a")
	b.proxy.Freeze()
	b.proxy.Freeze()
	c.ask("b")
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := c.read(); !isTimeout(err) {
		t.Fatalf("read %q, %v through a frozen proxy", got, err)
	}
	b.proxy.Thaw()
	b.proxy.Thaw()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	c.mustRead(t, "b")
}

func TestProxy_DelaysEveryMessage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.dial()
	const delay = 20 * time.Millisecond
	b.proxy.SetDelay(delay)
	start := time.Now()
	c.ask("a")
	c.mustRead(t, "a")
	if took := time.Since(start); took < 2*delay {
		t.Errorf("there and back in %v, want at least %v", took, 2*delay)
	}
}

func TestProxy_RefuseEndsNewConnectionsAndKeepsOldOnes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.dial()
	old.ask("a")
	old.mustRead(t, "a")
	b.proxy.Refuse(true)
	if got, err := b.dial().read(); err == nil {
		t.Errorf("read %q over a refused connection", got)
	}
	old.ask("b")
	old.mustRead(t, "b")
	b.proxy.Refuse(false)
	again := b.dial()
	again.ask("c")
	again.mustRead(t, "c")
}

func TestProxy_CutAllEndsEveryConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	clients := []*client{b.dial(), b.dial()}
	for _, c := range clients {
		c.ask("a")
		c.mustRead(t, "a")
	}
	b.proxy.CutAll()
	for i, c := range clients {
		if _, err := c.read(); err == nil {
			t.Errorf("connection %d lives on", i)
		}
	}
}

func TestProxy_CutAllEndsConnectionsInTheMaking(t *testing.T) {
	t.Parallel()
	p := setup(t).proxy
	cuts, _ := p.take()
	p.CutAll()
	if p.add(&link{proxy: p}, cuts) {
		t.Error("a connection that was taken before the cut goes on after it")
	}
}

func TestProxy_ClientOfAServerThatIsAwayIsCut(t *testing.T) {
	t.Parallel()
	c := bundle{proxy: Start(t, filepath.Join(t.TempDir(), "nobody")), tb: t}.dial()
	if _, err := c.read(); err == nil {
		t.Error("a connection to nobody lives on")
	}
}

func TestProxy_CloseEndsHeldAndFrozenConnections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hold := b.proxy.Inject(Fault{When: Completed("a"), Do: Hold})
	held, frozen := b.dial(), b.dial()
	held.ask("a")
	hold.MustFire(t)
	b.proxy.Freeze()
	frozen.ask("b")
	b.proxy.Close()
	b.proxy.Close()
	for _, c := range []*client{held, frozen} {
		if _, err := c.read(); err == nil {
			t.Error("a connection outlived the proxy")
		}
	}
	if open := b.proxy.Counts().Open; open != 0 {
		t.Errorf("%d connections open after Close", open)
	}
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
