package integration

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
)

const (
	cutTTL   = 3 * time.Second
	pollTime = time.Second
)

var cutSettings = []string{"lease_ttl=3s"}

// A worker keeps connections that lead nowhere: its own network loses its cable.
func TestNetwork_ALostWorkerIsDeadBeforeOthersGoOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	far := newNetwork(t)
	near := b.url
	b.url = far.forward(t, b.url)
	w1 := b.startIn(t, far, "w1")
	b.lostAndFollowed(t, w1, near, far.cut, far.mend)
}

// The same where the test may not make networks: the connections freeze.
func TestNetwork_AWorkerWithoutAnswersIsDeadBeforeOthersGoOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	near := b.url
	proxy, through := netfault.Through(t, b.url)
	b.url = through
	w1 := b.worker(t, "w1", cutSettings...)
	b.lostAndFollowed(t, w1, near, func(*testing.T) { proxy.Freeze() }, func(*testing.T) { proxy.Thaw() })
}

// lostAndFollowed makes w1 lose its network, and w2 go on with its runs. Then the network comes back.
func (b *testBundle) lostAndFollowed(t *testing.T, w1 *process, near string, cut, mend func(*testing.T)) {
	t.Helper()
	runs := b.beginTicking(t, 3)
	id, _ := b.driver(t, "w1")
	b.url = near
	b.worker(t, "w2", cutSettings...)
	b.driver(t, "w2")

	began := time.Now()
	cut(t)
	until(t, "its tasks are dead", func() bool { return len(carriers(id)) == 0 })
	dead := time.Since(began)
	for _, run := range runs {
		b.untilSeen(t, run, "start b#2")
	}
	followed := time.Since(began)
	figures(t, fmt.Sprintf("network lost until the tasks are dead, TTL %v", cutTTL), []time.Duration{dead})
	figures(t, fmt.Sprintf("until all %d runs go on elsewhere, promised within %v", len(runs), cutTTL+2*pollTime+time.Second/2), []time.Duration{followed})
	if dead > followed {
		t.Errorf("tasks died after %v, and others went on after %v", dead, followed)
	}
	if followed > 3*cutTTL {
		t.Errorf("others went on after %v", followed)
	}
	b.checkEpochs(t)
	mend(t)
	b.endTicking(t, runs)
	b.driver(t, "w1", id) // it is back, in another life
	b.checkEpochs(t)
	w1.leave(t)
}

// network is a network namespace with one cable to this one.
type network struct {
	name, cable string
	here, there string // addresses
}

var networks atomic.Int32 // made by this process

// newNetwork makes a network with a number that is unique on this machine.
func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a network")
	}
	n := (os.Getpid() + int(networks.Add(1))*4099) % 16000
	k := &network{
		name: fmt.Sprintf("oarlock%d", n), cable: fmt.Sprintf("oar%d", n),
		here: fmt.Sprintf("10.231.%d.%d", n/64%256, n%64*4+1), there: fmt.Sprintf("10.231.%d.%d", n/64%256, n%64*4+2),
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", k.cable).Run()
		_ = exec.Command("ip", "netns", "del", k.name).Run()
	})
	for _, words := range []string{
		"netns add " + k.name,
		"link add " + k.cable + " type veth peer name " + k.cable + "p",
		"link set " + k.cable + "p netns " + k.name,
		"addr add " + k.here + "/30 dev " + k.cable,
		"link set " + k.cable + " up",
		"-n " + k.name + " addr add " + k.there + "/30 dev " + k.cable + "p",
		"-n " + k.name + " link set " + k.cable + "p up",
		"-n " + k.name + " link set lo up",
	} {
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Skipf("no networks can be made here: ip %s: %v: %s", words, err, out)
		}
	}
	return k
}

func (k *network) set(t *testing.T, how string) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", k.cable, how).CombinedOutput(); err != nil {
		t.Fatalf("set the link %s: %v: %s", how, err, out)
	}
}

func (k *network) cut(t *testing.T) { t.Helper(); k.set(t, "down") }

func (k *network) mend(t *testing.T) { t.Helper(); k.set(t, "up") }

// startIn starts a worker in a network.
func (b *testBundle) startIn(t *testing.T, k *network, name string) *process {
	t.Helper()
	far := *b
	far.within = []string{"ip", "netns", "exec", k.name}
	return far.worker(t, name, cutSettings...)
}

// forward makes a server that listens on this side of the cable and leads to the database.
func (k *network) forward(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", k.here+":0")
	if err != nil {
		t.Fatal(err)
	}
	var pipes sync.WaitGroup
	t.Cleanup(func() { listener.Close(); pipes.Wait() })
	server := u.Host
	pipes.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			pipes.Go(func() { join(client, server) })
		}
	})
	u.Host = listener.Addr().String()
	return u.String()
}

// join passes on what either side sends, until one of them ends.
func join(client net.Conn, server string) {
	defer client.Close()
	other, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer other.Close()
	var there sync.WaitGroup
	there.Go(func() {
		_, _ = io.Copy(other, client)
		other.Close()
	})
	_, _ = io.Copy(client, other)
	client.Close()
	there.Wait()
}
