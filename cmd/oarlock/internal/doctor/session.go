package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	listenSQL = sql.Named("doctor/listen")
	notifySQL = sql.Named("doctor/notify")
	clockSQL  = sql.Named("doctor/clock")
)

// listen sends a notification from the examination's connection to another one, and waits for it until ctx ends. It warns if the
// notification does not arrive. The check is skipped on a standby and behind a pooler that shares its connections.
func (x *examination) listen(ctx context.Context) Check {
	switch {
	case x.facts.Standby:
		return skip("a standby sends no notifications")
	case x.sharesBackends:
		return skip("LISTEN does not work through a pooler that shares its connections")
	}
	listener, err := pglink.Dial(ctx, x.link, nil)
	if err != nil {
		return broken("open a second connection for LISTEN", err)
	}
	defer end(ctx, listener)
	if _, err := listener.Exec(ctx, listenSQL); err != nil {
		return broken("listen", err)
	}
	took, err := x.notified(ctx, listener)
	if err != nil {
		return warn("the notification that the check sent did not arrive: %s", Explain(err)).withHint("without notifications workers find new runs by polling, up to a second later; look for a pooler or proxy between this machine and the server")
	}
	return ok("a notification arrived after %s", round(took))
}

func (x *examination) notified(ctx context.Context, listener *pgx.Conn) (time.Duration, error) {
	payload := rand.Text()
	start := time.Now()
	if _, err := x.conn.Exec(ctx, notifySQL, payload); err != nil {
		return 0, err
	}
	for {
		n, err := listener.WaitForNotification(ctx)
		if err != nil {
			return 0, err
		}
		if n.Payload == payload { // another doctor may run at the same time
			return time.Since(start), nil
		}
	}
}

// clockSamples is how often the check reads the server's clock. The quickest answer has the smallest error.
const clockSamples = 5

// clockTolerance is how far the clocks may differ before times confuse people. Oarlock decides nothing by the difference.
const clockTolerance = 2 * time.Second

func (x *examination) clock(ctx context.Context) Check {
	var best reading
	for i := range clockSamples {
		r, err := x.readClock(ctx)
		if err != nil {
			return broken("read the server's clock", err)
		}
		if i == 0 || r.bound < best.bound {
			best = r
		}
	}
	return best.judge()
}

// reading says how far the server's clock is ahead of this machine's: ahead, plus or minus bound.
type reading struct{ ahead, bound time.Duration }

func (x *examination) readClock(ctx context.Context) (reading, error) {
	var theirs time.Time
	start := time.Now()
	if err := x.conn.QueryRow(ctx, clockSQL).Scan(&theirs); err != nil {
		return reading{}, err
	}
	trip := time.Since(start)
	return reading{ahead: theirs.Sub(start.Add(trip / 2)), bound: trip / 2}, nil
}

func (r reading) judge() Check {
	seen := fmt.Sprintf("the server's clock is %s %s, plus or minus %s", round(r.ahead.Abs()), direction(r.ahead), round(r.bound))
	if r.ahead.Abs()-r.bound > clockTolerance {
		return warn("%s", seen).withHint("set the clocks of this machine and of the server by NTP: leases do not depend on clocks, but wrong clocks show wrong times in logs and lists")
	}
	return ok("%s", seen)
}

func direction(ahead time.Duration) string {
	if ahead < 0 {
		return "behind"
	}
	return "ahead"
}
