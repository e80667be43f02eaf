package pglink_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/tracelog"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// logbook collects what is logged, as text without times.
type logbook struct{ await.Buffer }

func (l *logbook) handler(level slog.Level) slog.Handler {
	return slog.NewTextHandler(l, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

func TestTraceLogger_TranslatesAndHidesValues(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		level tracelog.LogLevel
		data  map[string]any
		want  string
	}{
		"arguments":       {tracelog.LogLevelInfo, map[string]any{"args": []any{"s3cret"}, "pid": 7, "time": 3}, `level=DEBUG msg="postgres: query" pid=7 took=3`},
		"error":           {tracelog.LogLevelError, map[string]any{"err": errors.New("broken")}, `level=DEBUG msg="postgres: query" err=broken`},
		"bad data":        {tracelog.LogLevelError, map[string]any{"err": &pgconn.PgError{Severity: "ERROR", Code: "22P02", Message: `invalid: "s3c"ret"`}}, `level=DEBUG msg="postgres: query" err="ERROR: invalid: … (SQLSTATE 22P02)"`},
		"inner workings":  {tracelog.LogLevelDebug, nil, `level=DEBUG-4 msg="postgres: query"`},
		"a very long one": {tracelog.LogLevelInfo, map[string]any{"sql": strings.Repeat("ä", 200)}, `level=DEBUG msg="postgres: query" sql=` + strings.Repeat("ä", 150) + "…"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logbook
			pglink.TraceLogger(slog.New(log.handler(slog.LevelDebug-4))).Log(t.Context(), c.level, "Query", c.data)
			if got := strings.TrimSpace(log.String()); got != c.want {
				t.Errorf("logged %s\nwant   %s", got, c.want)
			}
		})
	}
}

func TestComponent_SaysWhoSpeaksAndMovesLevels(t *testing.T) {
	t.Parallel()
	var book logbook
	log := pglink.Component(slog.New(book.handler(slog.LevelDebug)), "river", slog.LevelDebug-slog.LevelInfo)
	log.Info("started")
	log.Debug("nobody wants to know")
	log.Error("lost postgres://ana:s3cret@db/app", "err", errors.New("password=s3cret"), "n", 1)
	log.With("url", "postgres://ana:s3cret@db/app").WithGroup("g").Warn("river: again", slog.Group("h", "dsn", "password=s3cret"))
	want := `level=DEBUG msg="river: started"
level=WARN msg="river: lost postgres://ana:xxxxx@db/app" err="password=xxxxx" n=1
level=INFO msg="river: again" url=postgres://ana:xxxxx@db/app g.h.dsn="password=xxxxx"
`
	if got := book.String(); got != want {
		t.Errorf("logged\n%swant\n%s", got, want)
	}
}
