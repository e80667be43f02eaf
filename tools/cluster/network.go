package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"sync"
)

// network is a bridge with a cable to a namespace for each worker. Postgres is behind a port of the bridge's address.
type network struct {
	id, bridge string
	subnet     string // 10.231.5
	url        string // of Postgres, as workers see it
	listener   net.Listener
	conns      map[net.Conn]bool // open ones; nil: no more
	mu         sync.Mutex
	pipes      sync.WaitGroup
}

// newNetwork takes its names and addresses from the folder, so that those a killed keeper left can be found.
func newNetwork(p place, databaseURL string) (*network, error) {
	h := fnv.New32a()
	_, _ = io.WriteString(h, p.dir)
	sum := h.Sum32()
	n := &network{
		id: fmt.Sprintf("%06x", sum&0xffffff), subnet: fmt.Sprintf("10.%d.%d", 200+sum>>8%50, sum%250),
		conns: map[net.Conn]bool{},
	}
	n.bridge = "oarb" + n.id
	_ = n.clear()
	for _, words := range []string{
		"link add " + n.bridge + " type bridge",
		"addr add " + n.subnet + ".1/24 dev " + n.bridge,
		"link set " + n.bridge + " up",
	} {
		if err := ip(words); err != nil {
			return nil, errors.Join(err, n.clear())
		}
	}
	return n, n.forward(databaseURL)
}

// clear removes the namespaces, with the cables that lead to them, and the bridge.
func (n *network) clear() error {
	out, err := exec.Command("ip", "netns", "list").Output()
	for line := range strings.Lines(string(out)) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, n.space("")) {
			err = errors.Join(err, ip("netns del "+name))
		}
	}
	return errors.Join(err, ip("link del "+n.bridge))
}

func ip(words string) error {
	out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", words, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (n *network) space(name string) string { return "oarlock-" + n.id + "-" + name }

func (n *network) cable(name string) string { return fmt.Sprintf("oa%s%d", n.id, number(name)) }

// join makes the namespace of a worker, unless it is there, and returns what starts a program in it.
func (n *network) join(name string) ([]string, error) {
	prefix := []string{"ip", "netns", "exec", n.space(name)}
	if exec.Command(prefix[0], append(prefix[1:], "true")...).Run() == nil {
		return prefix, n.set(name, "up")
	}
	space, cable := n.space(name), n.cable(name)
	for _, words := range []string{
		"netns add " + space,
		"link add " + cable + " type veth peer name " + cable + "p",
		"link set " + cable + "p netns " + space,
		"link set " + cable + " master " + n.bridge,
		"link set " + cable + " up",
		fmt.Sprintf("-n %s addr add %s.%d/24 dev %sp", space, n.subnet, 1+number(name), cable),
		"-n " + space + " link set " + cable + "p up",
		"-n " + space + " link set lo up",
	} {
		if err := ip(words); err != nil {
			return nil, err
		}
	}
	return prefix, nil
}

// set pulls a cable or plugs it in.
func (n *network) set(name, how string) error { return ip("link set " + n.cable(name) + " " + how) }

// forward makes a port on the bridge that leads to Postgres, which listens on the loopback only.
func (n *network) forward(databaseURL string) error {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	if n.listener, err = net.Listen("tcp", n.subnet+".1:0"); err != nil {
		return fmt.Errorf("listen on the bridge: %w", err)
	}
	server := u.Host
	u.Host = n.listener.Addr().String()
	n.url = u.String()
	n.pipes.Go(func() {
		for {
			client, err := n.listener.Accept()
			if err != nil {
				return
			}
			n.pipes.Go(func() { n.pass(client, server) })
		}
	})
	return nil
}

// pass hands on what either side sends, until one is gone.
func (n *network) pass(client net.Conn, server string) {
	dialer := net.Dialer{Timeout: readTime}
	other, err := dialer.Dial("tcp", server)
	if err != nil {
		client.Close()
		return
	}
	defer n.close(client, other)
	if !n.opened(client, other) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, other)
		n.close(client, other)
	})
	_, _ = io.Copy(other, client)
	n.close(client, other)
	back.Wait()
}

func (n *network) opened(conns ...net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range conns {
		if n.conns != nil {
			n.conns[c] = true
		}
	}
	return n.conns != nil
}

func (n *network) close(conns ...net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(n.conns, c)
	}
}

// remove takes everything away again. Workers are gone by now.
func (n *network) remove() error {
	if n.listener != nil {
		n.listener.Close()
	}
	n.mu.Lock()
	for c := range n.conns {
		c.Close()
	}
	n.conns = nil
	n.mu.Unlock()
	n.pipes.Wait()
	return n.clear()
}
