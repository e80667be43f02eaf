package await

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTrue_WaitsUntilItHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		True(t, "half a minute is over", func() bool { looks++; return time.Since(began) >= patience/2 })
		if took := time.Since(began); took > patience/2+maxInterval || looks < int(patience/2/maxInterval) {
			t.Errorf("it took %v and %d looks", took, looks)
		}
	})
}
