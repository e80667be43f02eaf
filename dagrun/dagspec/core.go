package dagspec

import "github.com/oarlock-dev/oarlock/dagrun"

func (p *RetryPolicy) core() dagrun.RetryPolicy {
	if p == nil {
		return dagrun.RetryPolicy{}
	}
	out := dagrun.RetryPolicy{
		Limit: p.Limit, Interval: p.Interval.core(), Backoff: p.Backoff, MaxInterval: p.MaxInterval.core(), Jitter: p.Jitter,
		ExitCodes: p.ExitCode,
	}
	for _, k := range p.Kinds {
		out.Kinds = append(out.Kinds, dagrun.FailureKind(k))
	}
	return out
}

func (c ContinueOn) core() dagrun.ContinueOn {
	return dagrun.ContinueOn{Failed: c.Failure, Skipped: c.Skipped, ExitCodes: c.ExitCode, MarkSuccess: c.MarkSuccess}
}

func (r *Result) core() (*dagrun.Result, error) {
	out := &dagrun.Result{ExitCode: r.ExitCode, HasExit: true}
	if r.ExitCode != 0 {
		out.Kind = dagrun.KindExit
	}
	if len(r.Outputs) == 0 {
		return out, nil
	}
	outputs, err := compactJSON(r.Outputs)
	out.Outputs = outputs
	return out, err
}
