package runview

import (
	"fmt"
	"strconv"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// PoolSlots returns the slots of a pool, such as 5, or 2 a key. It returns "" if the pool does not limit them.
func PoolSlots(l queue.PoolLimits) string {
	if l.Slots == 0 {
		return ""
	}
	return strconv.Itoa(l.Slots) + ofKey(l)
}

// PoolRate returns the rate of a pool, such as 100/1m, burst 20. It returns "" if the pool has none.
func PoolRate(l queue.PoolLimits) string {
	if l.Rate == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%s%s, burst %d", l.Rate, dagspec.Duration(l.Per.Milliseconds()), ofKey(l), l.Burst)
}

func ofKey(l queue.PoolLimits) string {
	if l.PerKey {
		return " a key"
	}
	return ""
}
