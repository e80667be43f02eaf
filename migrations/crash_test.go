package migrations_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/migrations"
)

// steps is the number of transactions of Up: one for each migration, and for River's one for each of its versions.
const steps = riverDone + int(migrations.MaxVersion) - 2

const riverDone = 1 + 8

func TestUp_GoesOnWhereAKilledOneEnded(t *testing.T) {
	t.Parallel()
	const patience = time.Minute
	for name, at := range map[string]netfault.Fault{
		"first migration committed":      {When: netfault.Completed("COMMIT"), Nth: 1},
		"between versions of River":      {When: netfault.Completed("COMMIT"), Nth: 4},
		"inside a version of River":      {When: netfault.Completed("CREATE INDEX"), Nth: 3},
		"River complete, not recorded":   {When: netfault.Completed("COMMIT"), Nth: riverDone},
		"River recorded":                 {When: netfault.Completed("INSERT 0 1"), Nth: riverDone + 1},
		"everything recorded, lock held": {When: netfault.Completed("COMMIT"), Nth: steps},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			proxy, through := netfault.Through(t, b.url)
			at.Do = netfault.Hold
			middle := proxy.Inject(at)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			child := exec.CommandContext(t.Context(), self)
			child.Env = append(os.Environ(), childURL+"="+through)
			child.Stderr = os.Stderr
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = child.Wait() })
			middle.MustFire(t)
			_ = child.Process.Kill()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := migrations.Up(ctx, b.url); err != nil {
				t.Fatal(err)
			}
			b.mustBeComplete(t)
		})
	}
}

func TestUp_CarriesOnWhenTheReplyToACommitIsLost(t *testing.T) {
	t.Parallel()
	loseReplies(t, setup, func(ctx context.Context, url string) error {
		_, err := migrations.Up(ctx, url)
		return err
	}, bundle.mustBeComplete)
}

func TestDown_CarriesOnWhenTheReplyToACommitIsLost(t *testing.T) {
	t.Parallel()
	loseReplies(t, migrated, func(ctx context.Context, url string) error {
		_, err := migrations.Down(ctx, url, 0)
		return err
	}, bundle.mustBeClean)
}

// cutEvery is the distance between commits that lose their reply in one call. The steps between two cuts run as after a single cut.
const cutEvery = 5

// loseReplies cuts the connection after each COMMIT, each in one of several calls.
func loseReplies(t *testing.T, setup func(*testing.T) bundle, do func(ctx context.Context, url string) error, check func(bundle, *testing.T)) {
	for first := 1; first <= cutEvery; first++ {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			proxy, through := netfault.Through(t, b.url)
			var cuts []*netfault.Injected
			for n := first + (steps-first)/cutEvery*cutEvery; n > 0; n -= cutEvery { // the last first: a fault that fires hides its message from faults injected after it
				cuts = append(cuts, proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Nth: n, Do: netfault.Cut}))
			}
			if err := do(t.Context(), through); err != nil {
				t.Fatal(err)
			}
			for _, cut := range cuts {
				cut.MustFire(t)
			}
			check(b, t)
		})
	}
}
