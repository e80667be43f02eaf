package dagrun

import "slices"

// forever limits every delay to a thousand years, so that no sum of times overflows.
const forever Duration = 1000 * 365 * 24 * 3600 * 1000

// finalKinds are the failure kinds that a policy retries only if it names them.
var finalKinds = []FailureKind{KindOutput, KindConfig, KindPublish, KindLost, KindRejected, KindChild}

// allows reports whether the policy retries a failed body that was retried the given number of times.
func (p *RetryPolicy) allows(res Result, retries int) bool {
	switch {
	case res.Permanent || res.Kind == KindConfig || retries >= p.Limit:
		return false
	case p.Kinds == nil && slices.Contains(finalKinds, res.Kind), p.Kinds != nil && !slices.Contains(p.Kinds, res.Kind):
		return false
	default:
		return res.Kind != KindExit || len(p.ExitCodes) == 0 || slices.Contains(p.ExitCodes, res.ExitCode)
	}
}

// allowsPublish is allows for a publish. KindPublish, which allows would treat as final, is retried.
func (p *RetryPolicy) allowsPublish(res Result, tries int) bool {
	if res.Kind == KindPublish {
		return !res.Permanent && tries < p.Limit
	}
	return p.allows(res, tries)
}

// retry schedules the next attempt after a failed one.
func (r *Run) retry(t *task, res Result) {
	r.closeAttempt(t, TaskFailed, res)
	t.NextAt, t.Deadline, t.Ref = after(r.now, r.backoff(t, t.Retries)), 0, ""
	t.Retries++
	r.to(t, TaskRetrying)
}

// backoff returns the delay before the next retry, after the given number of retries.
func (r *Run) backoff(t *task, retries int) Duration {
	p := &t.step.Retry
	return p.jitter(p.delay(retries), hash(r.opts.Seed, r.graph.TaskName(t.ID), t.Attempt+retries))
}

// delay returns the interval, multiplied by Backoff for each retry, up to MaxInterval.
func (p *RetryPolicy) delay(retries int) Duration {
	most := float64(forever)
	if p.MaxInterval > 0 {
		most = float64(p.MaxInterval)
	}
	d := float64(p.Interval)
	for i := 0; i < retries && p.Backoff > 1 && d > 0 && d < most; i++ {
		d = float64(d * p.Backoff)
	}
	return Duration(min(d, most))
}

// jitter changes a delay by up to the share Jitter in either direction, by an amount that the hash selects.
func (p *RetryPolicy) jitter(d Duration, hash uint64) Duration {
	share := float64(p.Jitter * float64(d))
	unit := float64(hash>>11) / (1 << 53) // 0 ≤ unit < 1
	return max(d+Duration(float64(share*(2*unit-1))), 0)
}

// hash is FNV-1a with a final mix. It gives the same number for the same attempt of the same run on every machine.
func hash(seed uint64, name string, n int) uint64 {
	h := uint64(14695981039346656037) ^ seed
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= uint64(n) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// after returns t + d and does not overflow.
func after(t Time, d Duration) Time { return t + Time(min(d, forever)) }
