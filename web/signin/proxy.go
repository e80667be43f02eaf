package signin

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Reasons for which a proxy's request identifies no user.
var (
	// ErrStranger means that the request does not come from a trusted proxy.
	ErrStranger = errors.New("the request does not come from a trusted proxy")
	// ErrNobody means that the proxy named no user, or that one of its headers occurs more than once.
	ErrNobody = errors.New("the proxy names no user")
)

// Proxy identifies users by the headers of trusted proxies.
type Proxy struct {
	Trusted      []netip.Prefix // addresses of the proxies
	UserHeader   string
	GroupsHeader string // holds groups separated by commas; "": no groups are read
}

// Person returns the person that the proxy's headers name. It returns ErrStranger for a request from an address that is not
// trusted. It returns ErrNobody if the header of the user is missing, empty or repeated, or that of the groups is repeated.
func (p *Proxy) Person(r *http.Request) (Person, error) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(p.Trusted, func(t netip.Prefix) bool { return t.Contains(peer.Addr().Unmap()) }) {
		return Person{}, ErrStranger
	}
	names, groups := r.Header.Values(p.UserHeader), r.Header.Values(p.GroupsHeader)
	if len(names) != 1 || strings.TrimSpace(names[0]) == "" || len(groups) > 1 {
		return Person{}, ErrNobody // a second value would mean that the proxy passes on headers of its client
	}
	person := Person{Name: strings.TrimSpace(names[0])}
	for group := range strings.SplitSeq(strings.Join(groups, ""), ",") {
		if group = strings.TrimSpace(group); group != "" {
			person.Groups = append(person.Groups, group)
		}
	}
	return person, nil
}
