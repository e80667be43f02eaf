package worker_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
)

func TestOutage_IsSaidOnceThenNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, nil))
		var o worker.Outage
		o.Over(log, "again")
		for range 61 {
			o.Failed(log, "no answer", errors.New("dial:\n\ta\n\tb"))
			time.Sleep(time.Second) // of the bubble's clock
		}
		o.Over(log, "again")
		o.Over(log, "again")
		text := said.String()
		if warned, over := strings.Count(text, "level=WARN"), strings.Count(text, "level=INFO"); warned != 3 || over != 1 {
			t.Errorf("%d warnings and %d ends, want 3 and 1:\n%s", warned, over, text)
		}
		if !strings.Contains(text, `err="dial: a b"`) || !strings.Contains(text, "after=1m1s") {
			t.Error(text)
		}
	})
}

// Calls that fail and succeed by turns are one outage, and do not fill the log. An outage that lasts is logged soon, whatever was
// logged before.
func TestOutage_IsSaidNowAndThenWhereItComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, nil))
		var o worker.Outage
		fail := func(seconds int) {
			for range seconds {
				o.Failed(log, "no answer", errors.New("refused"))
				time.Sleep(time.Second) // of the bubble's clock
			}
		}
		for range 15 {
			fail(2)
			o.Over(log, "again")
			time.Sleep(2 * time.Second)
			o.Over(log, "again")
		}
		text := said.String()
		if warned, over := strings.Count(text, "level=WARN"), strings.Count(text, "level=INFO"); warned != 2 || over != 2 {
			t.Errorf("%d warnings and %d ends in a minute, want 2 and 2:\n%s", warned, over, text)
		}
		said.Reset()
		fail(8)
		o.Over(log, "again")
		text = said.String()
		if warned, over := strings.Count(text, "level=WARN"), strings.Count(text, "level=INFO"); warned != 1 || over != 1 {
			t.Errorf("of one that lasts %d warnings and %d ends, want one each:\n%s", warned, over, text)
		}
	})
}
