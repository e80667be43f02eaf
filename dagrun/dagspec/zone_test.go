package dagspec

import (
	"os"
	"os/exec"
	"testing"
	"time"
	_ "time/tzdata"
)

// The time zone of a worker must not decide what an expression gives. The zone is a variable of a process, so that each zone gets
// a process of its own.
func TestDate_IsTheSameInEachTimeZoneOfAWorker(t *testing.T) {
	t.Parallel()
	const mark = "OARLOCK_TEST_ZONE"
	if os.Getenv(mark) == "" {
		for _, zone := range []string{"UTC", "Europe/Paris", "America/New_York"} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
			cmd.Env = append(os.Environ(), "TZ="+zone, mark+"=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s", zone, out)
			}
		}
		return
	}
	for text, want := range map[string]string{
		`format(date("2026-03-28T12:00:00+01:00").AddDate(0, 0, 1).UTC(), "2006-01-02T15:04")`: "2026-03-29T11:00",
		`format(date("2026-07-28T12:00:00+02:00"), "MST")`:                                     "+0200",
		`format(date("28 Jul 26 12:00 CEST").UTC(), "15:04")`:                                  "12:00",
		`format(date("2026-07-28"), "15:04 MST")`:                                              "00:00 UTC",
		`format(date("28.07.2026", "02.01.2006"), "2006-01-02 MST")`:                           "2026-07-28 UTC",
		`format(date("28.07.2026", "02.01.2006", "Europe/Paris"), "2006-01-02 MST")`:           "2026-07-28 CEST",
		`format(date(timezone("Europe/Paris"), "2026-07-28T12:00:00+02:00"), "MST")`:           "CEST",
	} {
		e, problems := newNames(&Spec{}).compile(text, wantText)
		if len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		m := newMeter(exprUnits)
		if got, err := e.run(map[string]any{meterName: m}, m); got != want {
			t.Errorf("%s in %s: %v, %v, want %s", text, time.Local, got, err, want)
		}
	}
}
