package signin

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Why nobody is known by a request.
var (
	// ErrStranger: the request does not come from a proxy that is trusted.
	ErrStranger = errors.New("the request does not come from a trusted proxy")
	// ErrNobody: the proxy named no user, or more than one.
	ErrNobody = errors.New("the proxy names no user")
)

// Proxy takes the word of proxies that sign people in.
type Proxy struct {
	Trusted      []netip.Prefix // addresses of the proxies
	UserHeader   string
	GroupsHeader string // groups are separated by commas; "": none are read
}

// Person returns whom a proxy names. The headers of anybody else are never read.
func (p *Proxy) Person(r *http.Request) (Person, error) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(p.Trusted, func(t netip.Prefix) bool { return t.Contains(peer.Addr().Unmap()) }) {
		return Person{}, ErrStranger
	}
	names := r.Header.Values(p.UserHeader)
	if len(names) != 1 || strings.TrimSpace(names[0]) == "" {
		return Person{}, ErrNobody // two would mean that the proxy passes on what its client sent
	}
	person := Person{Name: strings.TrimSpace(names[0])}
	if p.GroupsHeader == "" {
		return person, nil
	}
	for _, line := range r.Header.Values(p.GroupsHeader) {
		for group := range strings.SplitSeq(line, ",") {
			if group = strings.TrimSpace(group); group != "" {
				person.Groups = append(person.Groups, group)
			}
		}
	}
	return person, nil
}
