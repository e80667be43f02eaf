package runview

import (
	"errors"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// ErrUnknownZone means that a time has no offset, and this machine does not know its time zone.
var ErrUnknownZone = errors.New("unknown zone")

// localLayouts are layouts of times without a zone.
var localLayouts = []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime, "2006-01-02T15:04:05"}

// ReadTime reads a time: "now", RFC 3339, or a date with or without a time of day. ok is false if the text is none of these. A time
// without an offset is in zone. zone is nil if this machine does not know the zone, and then such a time is an ErrUnknownZone.
func ReadTime(text string, now time.Time, zone *time.Location) (at time.Time, ok bool, err error) {
	if text == "now" {
		return now, true, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true, nil
	}
	for _, layout := range localLayouts {
		local, err := time.Parse(layout, text)
		switch {
		case err != nil:
		case zone == nil:
			return at, false, ErrUnknownZone
		default:
			at := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, zone)
			if at.Day() != local.Day() { // the day has no such midnight in its zone, and Go returned an hour earlier
				at = at.Add(time.Hour)
			}
			return at, true, nil
		}
	}
	return at, false, nil
}

// ReadPast is ReadTime for times in the past: it also reads an age, such as 7d. It returns ok false if the text is neither.
func ReadPast(text string, now time.Time, zone *time.Location) (at time.Time, ok bool, err error) {
	if at, ok, err := ReadTime(text, now, zone); ok || err != nil {
		return at, ok, err
	}
	ago, err := dagspec.ParseDuration(text)
	if err != nil {
		return time.Time{}, false, nil //nolint:nilerr // it is neither, which is no error here
	}
	return now.Add(-ago.Std()), true, nil
}

// KnownZone returns a time zone by name, or nil if this machine does not know it.
func KnownZone(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return zone
}
