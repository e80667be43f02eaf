package dagrun

import "testing"

func TestExplain_SaysTimesAsPeopleDo(t *testing.T) {
	t.Parallel()
	for ms, want := range map[Duration]string{
		0: "0s", 40: "40ms", 1499: "1s", 59_992: "1m", 3*3_600_000 + 59*60_000 + 59_992: "4h", 90_000_000: "1d1h", 3_600_000 + 61_000: "1h1m",
	} {
		if got := ms.about(); got != want {
			t.Errorf("%d ms are %s, want %s", int64(ms), got, want)
		}
	}
}
