package sql

import (
	"strings"
	"testing"
)

func TestWithout(t *testing.T) {
	t.Parallel()
	const nested = "WITH a AS (SELECT 1)\n-- part b\n, b AS (\n  -- part c\n  SELECT 3\n  -- end c\n)\n-- end b\nSELECT\n"
	for _, tt := range []struct {
		name, text string
		parts      []string
		want       string // or how it panics, behind "!"
	}{
		{"whole", nested, nil, "WITH a AS (SELECT 1)\n, b AS (\n  SELECT 3\n)\nSELECT\n"},
		{"inner", nested, []string{"c"}, "WITH a AS (SELECT 1)\n, b AS (\n)\nSELECT\n"},
		{"outer", nested, []string{"b"}, "WITH a AS (SELECT 1)\nSELECT\n"},
		{"twice", "-- part a\n1\n-- end a\n2\n-- part a\n3\n-- end a\n", []string{"a"}, "2\n"},
		{"unknown", nested, []string{"d"}, "!not there"},
		{"open", "-- part a\n1\n", []string{"a"}, "!do not end"},
		{"closed", "1\n-- end a\n", nil, "!not open"},
		{"crossed", "-- part a\n-- part b\n-- end a\n-- end b\n", nil, "!not open"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				want, panics := strings.CutPrefix(tt.want, "!")
				if got := recover(); (got != nil) != panics || panics && !strings.Contains(got.(string), want) {
					t.Errorf("panics with %v, want %q", got, tt.want)
				}
			}()
			if got := without("test", tt.text, tt.parts); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
