package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// parseDAG reads a dag block.
func parseDAG(lines []string) (dagrun.Spec, error) {
	p := dagParser{bodies: map[string]dagrun.Step{}}
	for _, prefix := range []string{"~", ""} { // replacements first, since steps refer to them
		for _, line := range lines {
			if strings.HasPrefix(line, "~") != (prefix == "~") {
				continue
			}
			if err := p.line(line); err != nil {
				return p.spec, fmt.Errorf("%q: %w", line, err)
			}
		}
	}
	return p.spec, nil
}

type dagParser struct {
	spec   dagrun.Spec
	bodies map[string]dagrun.Step // by name, for replace(…)
}

func (p *dagParser) line(line string) error {
	words := strings.Fields(line)
	if words[0] == "run:" {
		return p.options(words[1:])
	}
	step := dagrun.Step{Name: words[0]}
	rest := words[1:]
	if len(rest) > 0 && rest[0] == "<-" {
		rest = parents(&step, rest[1:])
	}
	for _, word := range rest {
		key, value, _ := strings.Cut(word, "=")
		set, ok := stepKeys[key]
		if !ok {
			return fmt.Errorf("%q is no key of a step", key)
		}
		if err := set(p, &step, value); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	switch step.Name[0] {
	case '~':
		p.bodies[step.Name[1:]] = step
	case '@':
		p.spec.Handlers = append(p.spec.Handlers, step)
	default:
		p.spec.Steps = append(p.spec.Steps, step)
	}
	return nil
}

// parents reads words as parents, up to the first key=value.
func parents(step *dagrun.Step, words []string) []string {
	for i, word := range words {
		name, state, _ := strings.Cut(word, ":")
		edge := dagrun.Edge{Step: name}
		if state != "" {
			var err error
			if edge.State, err = dagrun.ParseEdgeState(state); err != nil {
				return words[i:]
			}
		}
		if strings.Contains(word, "=") || stepKeys[word] != nil {
			return words[i:]
		}
		step.Depends = append(step.Depends, edge)
	}
	return nil
}

func (p *dagParser) options(words []string) error {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "timeout":
			p.spec.Timeout, err = duration(value)
		case "max_active":
			p.spec.MaxActive, err = strconv.Atoi(value)
		case "fail_fast":
			p.spec.FailFast = true
		default:
			err = fmt.Errorf("%q is no option of a run", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type setter func(p *dagParser, s *dagrun.Step, value string) error

var stepKeys = map[string]setter{
	"when": func(_ *dagParser, s *dagrun.Step, v string) error { s.When = condition(v); return nil },
	"when_per_item": func(_ *dagParser, s *dagrun.Step, v string) error {
		s.When, s.WhenPerItem = condition(v), true
		return nil
	},
	"rule": func(_ *dagParser, s *dagrun.Step, v string) (err error) {
		s.Rule, err = dagrun.ParseRule(v)
		return err
	},
	"body": func(_ *dagParser, s *dagrun.Step, v string) (err error) {
		s.Body, err = dagrun.ParseBody(v)
		return err
	},
	"prompt": func(_ *dagParser, s *dagrun.Step, v string) error { approvalOf(s).Prompt = text(v); return nil },
	"inputs": func(_ *dagParser, s *dagrun.Step, v string) error {
		approvalOf(s).Inputs = dagrun.JSON(v)
		return nil
	},
	"approvers": func(_ *dagParser, s *dagrun.Step, v string) error {
		approvalOf(s).Approvers = strings.Split(v, ",")
		return nil
	},
	"result": func(_ *dagParser, s *dagrun.Step, v string) (err error) {
		s.Result, err = parseResult(strings.Split(v, ","))
		return err
	},
	"cache": func(_ *dagParser, s *dagrun.Step, v string) error { s.CacheKey = text(v); return nil },
	"publish": func(_ *dagParser, s *dagrun.Step, v string) error {
		s.Publish, s.PublishPools = true, pools(v)
		return nil
	},
	"publish_timeout": func(_ *dagParser, s *dagrun.Step, v string) (err error) {
		s.PublishTimeout, err = duration(v)
		return err
	},
	"slots":       func(_ *dagParser, s *dagrun.Step, v string) (err error) { s.Slots, err = strconv.Atoi(v); return err },
	"pool":        func(_ *dagParser, s *dagrun.Step, v string) error { s.Pools = pools(v); return nil },
	"priority":    func(_ *dagParser, s *dagrun.Step, v string) error { s.PriorityExpr = number(v); return nil },
	"timeout":     func(_ *dagParser, s *dagrun.Step, v string) (err error) { s.Timeout, err = duration(v); return err },
	"retry":       func(_ *dagParser, s *dagrun.Step, v string) error { return parseRetry(&s.Retry, v) },
	"on_error":    func(p *dagParser, s *dagrun.Step, v string) error { return p.onError(s, v) },
	"continue_on": func(_ *dagParser, s *dagrun.Step, v string) error { return parseContinue(&s.ContinueOn, v) },
	"skip_exit":   func(_ *dagParser, s *dagrun.Step, v string) (err error) { s.SkipExit, err = numbers(v); return err },
	"on_lost": func(_ *dagParser, s *dagrun.Step, v string) (err error) {
		s.OnLost, err = dagrun.ParseOnLost(v)
		return err
	},
	"foreach": func(_ *dagParser, s *dagrun.Step, v string) error {
		s.Foreach = &dagrun.Foreach{Items: keys(v)}
		return nil
	},
	"max_concurrent": func(_ *dagParser, s *dagrun.Step, v string) (err error) {
		s.Foreach.MaxConcurrent, err = strconv.Atoi(v)
		return err
	},
	"max_items": func(_ *dagParser, s *dagrun.Step, v string) (err error) {
		s.Foreach.MaxItems, err = strconv.Atoi(v)
		return err
	},
	"item_fail_fast": func(_ *dagParser, s *dagrun.Step, _ string) error { s.Foreach.FailFast = true; return nil },
}

// approvalOf returns the approval of a step, and makes it if there is none.
func approvalOf(s *dagrun.Step) *dagrun.Approval {
	if s.Approval == nil {
		s.Approval = &dagrun.Approval{}
	}
	return s.Approval
}

// pools reads names of pools with commas between.
func pools(v string) (uses []dagrun.PoolUse) {
	for _, name := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' }) {
		uses = append(uses, dagrun.PoolUse{Pool: name, Weight: 1})
	}
	return uses
}

// parseRetry reads limit[/interval[/backoff[/max]]] and then ,jitter:x ,exit:n+n ,kinds:a+b in any order.
func parseRetry(r *dagrun.RetryPolicy, v string) error {
	head, rest, _ := strings.Cut(v, ",")
	part := append(strings.Split(head, "/"), "", "", "")
	var errs [4]error
	r.Limit, errs[0] = strconv.Atoi(part[0])
	if part[1] != "" {
		r.Interval, errs[1] = duration(part[1])
	}
	if part[2] != "" {
		r.Backoff, errs[2] = strconv.ParseFloat(part[2], 64)
	}
	if part[3] != "" {
		r.MaxInterval, errs[3] = duration(part[3])
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return retryExtras(r, rest)
}

func retryExtras(r *dagrun.RetryPolicy, extras string) error {
	for extra := range strings.SplitSeq(extras, ",") {
		key, value, _ := strings.Cut(extra, ":")
		var err error
		switch key {
		case "":
		case "jitter":
			r.Jitter, err = strconv.ParseFloat(value, 64)
		case "exit":
			r.ExitCodes, err = numbers(value)
		case "kinds":
			for kind := range strings.SplitSeq(value, "+") {
				r.Kinds = append(r.Kinds, dagrun.FailureKind(kind))
			}
		default:
			err = fmt.Errorf("%q is no part of a retry policy", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onError reads rules separated by ; each condition:do, where do may be replace(a,b), or ask(planner,a,b).
func (p *dagParser) onError(s *dagrun.Step, v string) error {
	for rule := range strings.SplitSeq(v, ";") {
		when, do, ok := strings.Cut(rule, ":")
		if !ok {
			return fmt.Errorf("rule %q: write condition:do", rule)
		}
		name, args, _ := strings.Cut(strings.TrimSuffix(do, ")"), "(")
		parsed, err := dagrun.ParseDo(name)
		if err != nil {
			return err
		}
		r := dagrun.ErrorRule{When: condition(when), Do: parsed}
		for body := range strings.SplitSeq(args, ",") {
			if args == "" {
				break
			}
			with, known := p.bodies[body]
			if !known {
				return fmt.Errorf("no line ~%s above", body)
			}
			r.With = append(r.With, with)
		}
		if parsed == dagrun.DoAsk {
			r.Ask, r.With, r.Chooser = &r.With[0], r.With[1:], chooser{}
		}
		s.OnError = append(s.OnError, r)
	}
	return nil
}

func parseContinue(c *dagrun.ContinueOn, v string) error {
	for word := range strings.SplitSeq(v, ",") {
		key, value, _ := strings.Cut(word, ":")
		var err error
		switch key {
		case "failed":
			c.Failed = true
		case "skipped":
			c.Skipped = true
		case "mark_success":
			c.MarkSuccess = true
		case "exit":
			c.ExitCodes, err = numbers(value)
		default:
			err = fmt.Errorf("%q is no part of continue_on", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func numbers(v string) (list []int, err error) {
	for word := range strings.SplitSeq(v, "+") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func duration(v string) (dagrun.Duration, error) {
	d, err := time.ParseDuration(v)
	return dagrun.Duration(d.Milliseconds()), err
}

// parseResult reads how a body ended: nothing or ok for success, or exit:3, signal:9, kind:timeout, out:{…}, permanent,
// settled, unstarted.
func parseResult(words []string) (*dagrun.Result, error) {
	res := &dagrun.Result{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, ":")
		n, notNumber := strconv.Atoi(value)
		switch key {
		case "ok":
		case "exit":
			res.ExitCode, res.HasExit = n, true
			if n != 0 {
				res.Kind = dagrun.KindExit
			}
		case "signal":
			res.Kind, res.Signal, res.ExitCode, res.HasExit = dagrun.KindSignal, n, 128+n, true
		case "kind":
			res.Kind, notNumber = dagrun.FailureKind(value), nil
		case "out":
			res.Outputs, notNumber = dagrun.JSON(value), nil
		case "settled":
			res.Settled, notNumber = true, nil
		case "permanent":
			res.Permanent, notNumber = true, nil
		case "unstarted":
			res.Kind, res.Unstarted, res.Reason, notNumber = dagrun.KindLost, true, "not started: no room", nil
		default:
			return nil, fmt.Errorf("%q is no end of a body", word)
		}
		if notNumber != nil && key != "ok" {
			return nil, fmt.Errorf("%q: %w", word, notNumber)
		}
	}
	return res, nil
}
