package cli

import (
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
)

// newLogger returns a logger to standard error. It writes coloured lines on a terminal and JSON elsewhere, unless the
// settings choose a format.
func newLogger(e *env) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(e.settings.Text("log_level"))); err != nil {
		panic("cli: log_level was checked when the settings were loaded: " + err.Error())
	}
	format := e.settings.Text("log_format")
	if format == "text" || format == "auto" && e.StderrTTY {
		return slog.New(tint.NewTextHandler(e.Stderr, &tint.Options{
			Level: level, TimeFormat: time.TimeOnly, NoColor: !bool(e.stderrPaint()),
		}))
	}
	return slog.New(slog.NewJSONHandler(e.Stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: readableDuration}))
}

// readableDuration writes durations as texts such as 1.033s, since a bare number has no visible unit.
func readableDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
