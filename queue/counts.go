package queue

import (
	"encoding/json"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// storedCounts is how runs.counts keeps dagrun.Counts, in the words that states have elsewhere.
type storedCounts struct {
	Total          int `json:"total"`
	Open           int `json:"open"`
	Succeeded      int `json:"succeeded"`
	Failed         int `json:"failed"`
	Skipped        int `json:"skipped"`
	UpstreamFailed int `json:"upstream_failed"`
	Canceled       int `json:"canceled"`
	Replaced       int `json:"replaced"`
}

func encodeCounts(c dagrun.Counts) string {
	text, err := json.Marshal(storedCounts(c))
	if err != nil {
		panic(fmt.Sprintf("queue: counts that cannot be written as JSON: %v: %v", c, err))
	}
	return string(text)
}

// decodeCounts takes null for zeros: a run that never started has none.
func decodeCounts(text []byte) (dagrun.Counts, error) {
	var c storedCounts
	if len(text) == 0 {
		return dagrun.Counts{}, nil
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return dagrun.Counts{}, fmt.Errorf("counts %q: %w", text, err)
	}
	return dagrun.Counts(c), nil
}
