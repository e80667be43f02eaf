package cli

import (
	"strconv"
	"time"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func roundMs(d time.Duration) string { return d.Round(time.Millisecond).String() }

// localTime is how people get to see a time; "–" when there is none.
func localTime(t *time.Time) string {
	if t == nil {
		return "–"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
