package exec

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The user of this test runs nothing else, so the number of processes that it may still start is known.
const loner = 64123

func TestShortages_OfProcessesBoundTheSlots(t *testing.T) {
	if !alone(t, loner) {
		return
	}
	if os.Getuid() != loner {
		t.Skip("a user of its own takes root")
	}
	manyThreads() // makes the runtime start all threads that it needs, so that their number stays the same
	for _, room := range []struct {
		left, slots int
		fatal       bool
	}{{9, 0, true}, {17, 0, true}, {18, 1, false}, {24, 4, false}, {31, 7, false}} {
		lift := bound(t, unix.RLIMIT_NPROC, uint64(tasksOfUser(loner)+room.left))
		of := slices.DeleteFunc(Shortages(8, 0), func(s Shortage) bool { return !strings.HasPrefix(s.What, "processes that this user") })
		lift()
		if len(of) != 1 || of[0].Fatal() != room.fatal || of[0].Slots != room.slots || of[0].Needs != 32 {
			t.Errorf("with %d left: %+v, want %d slots, fatal %v", room.left, of, room.slots, room.fatal)
		}
	}
}
