package http

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// denied are addresses that a step may reach only if the worker's configuration allows it: metadata services, and addresses that
// belong to no single host.
var denied = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), // link-local: the metadata services of most clouds
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("::/128"),
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("ff00::/8"),
}

// Policy decides which addresses may be dialled. The zero value denies only the addresses in denied.
type Policy struct {
	Allow []netip.Prefix // allowed even if denied or Deny has them
	Deny  []netip.Prefix // denied besides those that are always denied
}

// check returns an error if an address, or an IPv4 address that it carries, must not be dialled. Allow wins over Deny and over the
// addresses that are always denied.
func (p Policy) check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	for _, address := range append(carried(address), address) {
		in := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
		if !slices.ContainsFunc(p.Allow, in) && (slices.ContainsFunc(denied, in) || slices.ContainsFunc(p.Deny, in)) {
			return &deniedError{address}
		}
	}
	return nil
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
)

// carried returns the IPv4 addresses that are part of an IPv6 address, because a translator on the way sends packets to them; nil
// if it has none. It knows NAT64, 6to4 and Teredo.
func carried(address netip.Addr) []netip.Addr {
	b := address.As16()
	v4 := func(at int, flip byte) netip.Addr {
		return netip.AddrFrom4([4]byte{b[at] ^ flip, b[at+1] ^ flip, b[at+2] ^ flip, b[at+3] ^ flip})
	}
	switch {
	case nat64.Contains(address), localNAT64.Contains(address):
		return []netip.Addr{v4(12, 0)}
	case sixToFour.Contains(address):
		return []netip.Addr{v4(2, 0)}
	case teredo.Contains(address):
		return []netip.Addr{v4(4, 0), v4(12, 0xff)} // the Teredo server and the client
	}
	return nil
}

type deniedError struct{ address netip.Addr }

func (e *deniedError) Error() string {
	return fmt.Sprintf("address %s is denied: add this address to http_allow of the worker if the step should reach it", e.address)
}

// dialer returns a dialer that checks each address before it connects: after DNS, and again after each redirect. timeout bounds one
// dial, DNS included.
func (p Policy) dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: timeout,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("address %q: %w", address, err)
			}
			return p.check(at.Addr())
		},
	}
}
