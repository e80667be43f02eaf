package pglink_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestConnect_SetsKernelTimeouts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	raw, err := socket(t, b.connect(t, b.through)).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ level, option, want int }{
		"TCP_USER_TIMEOUT": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 10_000},
		"SO_KEEPALIVE":     {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"TCP_KEEPIDLE":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 5},
		"TCP_KEEPINTVL":    {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 2},
		"TCP_KEEPCNT":      {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
	} {
		err := raw.Control(func(fd uintptr) {
			if got, err := unix.GetsockoptInt(int(fd), c.level, c.option); got != c.want || err != nil {
				t.Errorf("%s is %d, %v; want %d", name, got, err, c.want)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
