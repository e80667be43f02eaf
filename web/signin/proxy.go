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
	// ErrNobody: the proxy named no user, or sent a header of its own more than once.
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
	names, groups := r.Header.Values(p.UserHeader), r.Header.Values(p.GroupsHeader)
	if len(names) != 1 || strings.TrimSpace(names[0]) == "" || len(groups) > 1 {
		return Person{}, ErrNobody // two would mean that the proxy passes on what its client sent
	}
	person := Person{Name: strings.TrimSpace(names[0])}
	for group := range strings.SplitSeq(strings.Join(groups, ""), ",") {
		if group = strings.TrimSpace(group); group != "" {
			person.Groups = append(person.Groups, group)
		}
	}
	return person, nil
}
