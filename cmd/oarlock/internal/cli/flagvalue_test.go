package cli

import (
	"maps"
	"testing"
	"time"
)

func TestPairs_TakesEachNameOnce(t *testing.T) {
	t.Parallel()
	got, err := pairs("-p", []string{"a=1", "b=x=y,z", "c="})
	if want := map[string]string{"a": "1", "b": "x=y,z", "c": ""}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, words := range [][]string{{"a"}, {"=1"}, {"a=1", "a=2"}} {
		if _, err := pairs("-p", words); err == nil {
			t.Errorf("%q was taken", words)
		}
	}
	if got, err := pairs("-p", nil); got != nil || err != nil {
		t.Errorf("nothing is %v, %v", got, err)
	}
}

func TestMoment_IsAgoOrATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for word, want := range map[string]time.Time{
		"":                     {},
		"90s":                  now.Add(-90 * time.Second),
		"1d12h":                now.Add(-36 * time.Hour),
		"2026-11-20T03:00:00Z": time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC),
		"2026-11-20":           time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local),
		"2026-11-20T03:04":     time.Date(2026, 11, 20, 3, 4, 0, 0, time.Local),
		"2026-11-20 03:04:05":  time.Date(2026, 11, 20, 3, 4, 5, 0, time.Local),
		"now":                  now,
	} {
		if got, err := moment(word, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v, want %v", word, got, err, want)
		}
	}
	santiago, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]time.Time{
		"2026-11-20": time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC),
		"2026-09-06": time.Date(2026, 9, 6, 4, 0, 0, 0, time.UTC), // its day begins at 01:00
		"1d":         now.Add(-24 * time.Hour),
	} {
		if got, err := momentIn("--from", word, now, santiago); err != nil || !got.Equal(want) {
			t.Errorf("%q in Santiago is %v, %v, want %v", word, got, err, want)
		}
	}
	if got, err := momentIn("--from", "2026-11-20", now, nil); err == nil {
		t.Errorf("a date of a zone that is not known was taken for %v", got)
	}
	for _, word := range []string{"2", "yesterday", "-2h", "2026-13-01"} {
		if got, err := moment(word, now); err == nil {
			t.Errorf("%q was taken for %v", word, got)
		}
	}
}

func TestUpcoming_IsATimeOrFromNowOn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for word, want := range map[string]time.Time{
		"": {}, "+10m": now.Add(10 * time.Minute), "+1d": now.Add(24 * time.Hour), "2026-11-20T06:00:00+01:00": time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC),
		"now": now, "2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), "2026-11-20 06:07": time.Date(2026, 11, 20, 6, 7, 0, 0, time.UTC),
	} {
		if got, err := upcoming("--at", word, now, time.UTC); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v, want %v", word, got, err, want)
		}
	}
	for _, word := range []string{"10m", "+10", "+-1m", "tomorrow", "2026-11-20 6"} {
		if got, err := upcoming("--at", word, now, time.UTC); err == nil {
			t.Errorf("%q was taken for %v", word, got)
		}
	}
}
