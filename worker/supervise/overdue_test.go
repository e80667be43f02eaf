//go:build linux

package supervise

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

// judge returns a guard with a driver process that missed its deadline, and the driver process's end of the pipe. There is no
// real process.
func judge(t *testing.T) (g *supervisor, out *os.File) {
	t.Helper()
	p, err := openPipes()
	must(t, err)
	closeAll(p.null, p.theirIn)
	a, err := newAlarm()
	must(t, err)
	g = &supervisor{alarm: a, lockFile: &lockFile{}, Config: Config{Limits: Limits{}.complete()}}
	g.driver = newDriver(os.Getpid(), p)
	g.expect(boottime.Now(), errDeadline)
	out = os.NewFile(uintptr(p.theirOut), "out")
	t.Cleanup(func() {
		g.driver.hangUp()
		out.Close()
		a.close()
	})
	return g, out
}

func extendTo(at time.Duration) request { return request{Extend: &at} }

func TestGuard_HearsBeforeItJudges(t *testing.T) {
	t.Parallel()
	now := boottime.Now()
	for name, test := range map[string]struct {
		sent []request
		want error
	}{
		"nothing":              {nil, errDeadline},
		"renewed":              {[]request{extendTo(now), extendTo(now + time.Hour)}, nil},
		"no lease":             {[]request{extendTo(0)}, nil},
		"attached":             {[]request{{Attached: true}}, nil},
		"renewed, and in vain": {[]request{extendTo(1), extendTo(2)}, errDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, out := judge(t)
			for _, r := range test.sent {
				must(t, send(out, r))
			}
			if err := g.overdue(); !errors.Is(err, test.want) {
				t.Errorf("overdue: %v, want %v", err, test.want)
			}
		})
	}
}

func TestGuard_HearsWholeLines(t *testing.T) {
	t.Parallel()
	g, out := judge(t)
	write := func(text string) {
		_, err := out.WriteString(text)
		must(t, err)
	}
	write(`{"extend":36`)
	if err := g.overdue(); !errors.Is(err, errDeadline) {
		t.Errorf("half a request: %v", err)
	}
	write("00000000000000000}\n")
	if err := g.overdue(); err != nil {
		t.Errorf("a whole one: %v", err)
	}
	write(strings.Repeat("x", lineBytes))
	g.takeRequests()
	if err := g.overdue(); err == nil || len(err.Error()) > 2*lineShown {
		t.Errorf("a line without end: %v", err)
	}
}

func TestGuard_JudgesWhoSendsForEver(t *testing.T) {
	t.Parallel()
	g, out := judge(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for send(out, extendTo(1)) == nil {
		}
	}()
	if err := g.overdue(); !errors.Is(err, errDeadline) {
		t.Errorf("overdue: %v", err)
	}
	g.driver.hangUp()
	<-sent
}

func TestGuard_JudgesWithoutAPipe(t *testing.T) {
	t.Parallel()
	g, out := judge(t)
	out.Close()
	for range 2 {
		if err := g.overdue(); !errors.Is(err, errDeadline) {
			t.Errorf("overdue: %v", err)
		}
	}
}
