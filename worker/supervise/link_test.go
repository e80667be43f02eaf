//go:build linux

package supervise

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

func TestLink_WithoutAGuardDoesNothing(t *testing.T) {
	t.Parallel()
	var l *Link
	l.Close()
	if err := errors.Join(l.Extend(1), l.Use("x"), l.Forget("x"), l.Sweep(t.Context())); err != nil {
		t.Error(err)
	}
	if l.Containment() != "none" || l.Cgroup() != "" || l.Replaces() != nil || l.Gone() != nil {
		t.Errorf("containment %s, cgroup %q, replaces %v, gone %v", l.Containment(), l.Cgroup(), l.Replaces(), l.Gone())
	}
}

func TestAttach_NeedsTheDescriptorsThatAGuardNamed(t *testing.T) {
	for _, value := range []string{"", "1", "3:1 4:2 5:3", "3:0 4:0 5:0"} {
		t.Setenv(marker, value)
		if l, ok := Attach(); ok {
			t.Errorf("%q: attached: %v", value, l.Containment())
		}
		if _, set := os.LookupEnv(marker); set {
			t.Errorf("%q is left for tasks", value)
		}
	}
	if l, ok := Attach(); ok || l != nil {
		t.Error("attached to nothing")
	}
}

// pair returns a link, and the guard's ends of its pipes.
func pair(t *testing.T) (l *Link, in, out *os.File) {
	t.Helper()
	p, err := openPipes()
	must(t, err)
	closeAll(p.null)
	l = newLink(os.NewFile(uintptr(p.theirIn), "in"), os.NewFile(uintptr(p.theirOut), "out"))
	in, out = os.NewFile(uintptr(p.ourIn), "in"), os.NewFile(uintptr(p.ourOut), "out")
	t.Cleanup(func() {
		in.Close()
		out.Close()
		l.Close()
	})
	return l, in, out
}

func TestLink_UseWaitsForTheLockFile(t *testing.T) {
	t.Parallel()
	l, in, out := pair(t)
	used := make(chan error, 1)
	go func() { used <- l.Use("w1") }()
	s := lines(in)
	if !s.Scan() {
		t.Fatal("nothing was asked")
	}
	var r request
	must(t, json.Unmarshal(s.Bytes(), &r))
	select {
	case err := <-used:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	must(t, send(out, answer{N: r.N + 5})) // the answer to another request
	must(t, send(out, answer{N: r.N, Err: "disk full"}))
	if err := <-used; err == nil || err.Error() != "guard: disk full" {
		t.Errorf("error %v", err)
	}
	if len(l.used) != 0 {
		t.Errorf("uses %v", l.used)
	}
}

func TestLink_SaysThatTheGuardIsGone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(in, out *os.File){
		"dead":    func(in, out *os.File) { in.Close(); out.Close() },
		"not one": func(_, out *os.File) { _, _ = out.WriteString("what?\n") },
		"too long": func(_, out *os.File) {
			_, _ = out.Write(slices.Repeat([]byte("x"), lineBytes-1))
			_, _ = out.WriteString("yz")
		},
		"half dead": func(_, out *os.File) { out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, in, out := pair(t)
			used := make(chan error, 1)
			go func() { used <- l.Use("w1") }()
			if s := lines(in); !s.Scan() {
				t.Fatal("nothing was asked")
			}
			end(in, out)
			<-l.Gone()
			if err := <-used; !errors.Is(err, ErrGone) {
				t.Errorf("use: %v", err)
			}
			if err := l.Extend(time.Hour); !errors.Is(err, ErrGone) {
				t.Errorf("extend: %v", err)
			}
		})
	}
}
