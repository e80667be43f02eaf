package dagrun

import "testing"

func TestExplain(t *testing.T) {
	t.Parallel()
	busy := spec("scan each=a+b", "b", "c", "d <- b, scan", "ask approval timeout", "later wait", "sub child", "k cache=k", "p publish=up", "fly")
	busy.Steps[0].Foreach.MaxConcurrent = 1
	busy.Steps[1].Retry = RetryPolicy{Limit: 1, Interval: 5000}
	busy.Steps[2].Pool = "heavy"
	busy.Handlers = spec("x", "@exit").Handlers
	d := newDrive(t, busy, Options{})
	d.play("begin", "grant b", "exit3 b", "waits later", "named sub", "grant p", "end p", "grant fly", "cancel fly")
	for task, want := range map[string]string{
		"scan": "2 of 2 items open", "scan/a": "waits for a slot", "scan/b": "max_concurrent 1 of scan reached",
		"b": "exit 3; retries in 5s", "c": "pool heavy", "d": "waits for: b, scan", "ask": "waits for approval, times out in 1s",
		"later": "waits until in 1m", "sub": "child run 77", "k": "looking in the cache", "p": "pool up",
		"fly": "being canceled: canceled by ana", "@exit": "waits for the steps", "d~1": "no such task",
	} {
		if got := d.run.Explain(d.id(task)); got != want {
			t.Errorf("%s: %q, want %q", task, got, want)
		}
	}
}

func TestExplain_SaysWhatHoldsTheRunUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, spec, moves, task, want, reason string }{
		{"paused run", "a", "begin,pause", "a", "run paused by ana", "run paused by ana"},
		{"paused task", "a", "begin,pause a", "a", "paused by ana", "step a: paused by ana"},
		{"no driver", "a", "", "a", "waits for a driver", ""},
		{"draining", "a", "begin,grant b,drain", "a", "this driver is draining: another one will go on", ""},
		{"ended", "a", "begin,grant a,exit3 a", "a", "exit 3", ""},
		{"blocked", "a", "begin,grant b,exit3 b", "c", "upstream failed: b", ""},
		{"cancelling", "a", "begin,grant a,cancel", "a", "being canceled: canceled by ana", "canceled by ana"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDrive(t, spec("a", "b", "c <- b"), Options{})
			if c.name == "paused task" {
				d = newDrive(t, spec("a"), Options{})
			}
			if c.moves != "" {
				d.play(split(c.moves)...)
			}
			if got := d.run.Explain(d.id(c.task)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := d.run.Reason(); got != c.reason {
				t.Errorf("run: %q, want %q", got, c.reason)
			}
		})
	}
}

func TestExplain_NamesTheLimitOfTheRun(t *testing.T) {
	t.Parallel()
	s := spec("a", "b", "@init")
	s.MaxActive = 1
	d := newDrive(t, s, Options{})
	d.play("begin")
	if got := d.run.Explain(d.id("b")); got != "waits for: @init" {
		t.Error(got)
	}
	d.play("grant @init", "end @init", "grant a")
	if got := d.run.Explain(d.id("b")); got != "max_active_steps 1 reached" {
		t.Error(got)
	}
}

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
