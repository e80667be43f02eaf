package queue

import (
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func TestCounts_AreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	counts := dagrun.Counts{Total: 28, Open: 1, Succeeded: 2, Failed: 3, Skipped: 4, UpstreamFailed: 5, Canceled: 6, Replaced: 7}
	if got, err := decodeCounts([]byte(encodeCounts(counts))); err != nil || got != counts {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodeCounts(nil); err != nil || got != (dagrun.Counts{}) {
		t.Errorf("%+v, %v", got, err)
	}
}
