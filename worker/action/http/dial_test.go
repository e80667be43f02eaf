package http

import (
	"net/netip"
	"testing"
)

func TestPolicy_SeesThroughTranslatedAddresses(t *testing.T) {
	t.Parallel()
	ten := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct {
		address string
		policy  Policy
		denied  bool
	}{
		{"169.254.169.254", Policy{}, true},
		{"::ffff:169.254.169.254", Policy{}, true},
		{"64:ff9b::169.254.169.254", Policy{}, true},
		{"64:ff9b:1::169.254.169.254", Policy{}, true},
		{"64:ff9b::8.8.8.8", Policy{}, false},
		{"2002:a9fe:a9fe::1", Policy{}, true},
		{"2002:808:808::1", Policy{}, false},
		{"2001:0:808:808::5601:5601", Policy{}, true}, // 169.254.169.254, inverted
		{"2001:0:a9fe:a9fe::f7f7:f7f7", Policy{}, true},
		{"2001:0:808:808::f7f7:f7f7", Policy{}, false},
		{"2001:db8::a9fe:a9fe", Policy{}, false},
		{"64:ff9b::10.1.2.3", Policy{Deny: ten}, true},
		{"64:ff9b::10.1.2.3", Policy{Deny: ten, Allow: ten}, false},
		{"fd00:ec2::254", Policy{}, true},
		{"fd20:ce::254", Policy{}, true},
		{"fd20:ce::253", Policy{}, false},
		{"192.0.0.192", Policy{}, true},
		{"192.0.0.193", Policy{}, false},
		{"fe80::1%eth0", Policy{}, true},
		{"127.0.0.1", Policy{}, false},
		{"::1", Policy{}, false},
	} {
		if err := tt.policy.check(netip.MustParseAddr(tt.address)); (err != nil) != tt.denied {
			t.Errorf("%s with %+v: %v", tt.address, tt.policy, err)
		}
	}
}
