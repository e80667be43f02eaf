package main

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figure is what rounds gave.
type Figure struct {
	Rounds []float64 `json:"rounds"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
}

func newFigure(rounds []float64) Figure {
	if len(rounds) == 0 {
		return Figure{}
	}
	return Figure{rounds, quantile(rounds, 0.5), slices.Min(rounds), slices.Max(rounds)}
}

// quantile is a value of the list: the smallest that is not below the share q of them.
func quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		var none T
		return none
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// short writes a number with about three digits that matter.
func short(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1000:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case size >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func thousands(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// rate is a number of things per second.
func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spread describes the middle of durations and their tail, in milliseconds.
func spread(took []time.Duration) Values {
	return Values{msMedian: milliseconds(quantile(took, 0.5)), msP99: milliseconds(quantile(took, 0.99))}
}

// Names of metrics that several cases share.
const (
	stepsPerSecond    = "steps/s"
	runsPerSecond     = "runs/s"
	microsPerStep     = "µs/step"
	msMedian          = "median ms"
	msP99             = "p99 ms"
	notifiesUnwatched = "notifications of unwatched runs"
)
