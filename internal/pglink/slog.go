package pglink

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/tracelog"
)

// TraceLogger returns a logger for pgx that passes its trace to log. Statements and errors get the debug level: at the error level
// each error would be logged twice, because the caller of a statement reports its error. Messages about pgx's own internals get
// levelTrace. The trace has no arguments, and none of the values that messages about bad data quote.
func TraceLogger(log *slog.Logger) tracelog.Logger {
	return tracelog.LoggerFunc(func(ctx context.Context, level tracelog.LogLevel, msg string, data map[string]any) {
		log.LogAttrs(ctx, traceLevel(level), "postgres: "+strings.ToLower(msg), traceAttrs(data)...)
	})
}

// levelTrace is below debug: for messages of pgx about its own internals.
const levelTrace = slog.LevelDebug - 4

func traceLevel(level tracelog.LogLevel) slog.Level {
	if level >= tracelog.LogLevelDebug {
		return levelTrace
	}
	return slog.LevelDebug
}

func traceAttrs(data map[string]any) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(data))
	for _, key := range slices.Sorted(maps.Keys(data)) {
		switch value := data[key].(type) {
		case []any: // the arguments
		case error:
			attrs = append(attrs, slog.String(key, errorText(value)))
		case string:
			attrs = append(attrs, slog.String(key, shorten(Redact(value))))
		default:
			attrs = append(attrs, slog.Any(traceKey(key), value))
		}
	}
	return attrs
}

// errorText returns the text of an error for the log. It cuts out the values that errors of class 22 (bad data) quote, and redacts
// any other error.
func errorText(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && strings.HasPrefix(pg.Code, "22") {
		return quotedValue.ReplaceAllString(pg.Error(), "…")
	}
	return Redact(err.Error())
}

var quotedValue = regexp.MustCompile(`(?s)".*"`)

const maxLoggedBytes = 300

func shorten(s string) string {
	if len(s) <= maxLoggedBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxLoggedBytes], "") + "…"
}

// traceKey returns the key for a trace value. It renames "time", which slog uses for the time of the record.
func traceKey(key string) string {
	if key == tracelog.DefaultTraceLogConfig().TimeKey {
		return "took"
	}
	return key
}

// Component returns a logger for a library that writes to log. Its records begin with the name, go through Redact, and have shift
// added to their level: slog.LevelDebug - slog.LevelInfo makes debug of a library's info. goose takes the logger by WithSlog, River
// in its Config.
func Component(log *slog.Logger, name string, shift slog.Level) *slog.Logger {
	return slog.New(component{Handler: log.Handler(), shift: shift, prefix: name + ": "})
}

type component struct {
	slog.Handler
	shift  slog.Level
	prefix string
}

func (c component) Enabled(ctx context.Context, level slog.Level) bool {
	return c.Handler.Enabled(ctx, level+c.shift)
}

func (c component) Handle(ctx context.Context, r slog.Record) error {
	moved := slog.NewRecord(r.Time, r.Level+c.shift, c.prefix+Redact(strings.TrimPrefix(r.Message, c.prefix)), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		moved.AddAttrs(redactAttr(a))
		return true
	})
	return c.Handler.Handle(ctx, moved)
}

func (c component) WithAttrs(attrs []slog.Attr) slog.Handler {
	redacted := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		redacted[i] = redactAttr(a)
	}
	c.Handler = c.Handler.WithAttrs(redacted)
	return c
}

func (c component) WithGroup(name string) slog.Handler {
	c.Handler = c.Handler.WithGroup(name)
	return c
}

func redactAttr(a slog.Attr) slog.Attr {
	switch value := a.Value.Resolve(); value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Redact(value.String()))
	case slog.KindGroup:
		group := slices.Clone(value.Group())
		for i := range group {
			group[i] = redactAttr(group[i])
		}
		a.Value = slog.GroupValue(group...)
	case slog.KindAny:
		if err, ok := value.Any().(error); ok {
			a.Value = slog.StringValue(errorText(err))
		}
	}
	return a
}
