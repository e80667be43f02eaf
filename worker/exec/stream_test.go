package exec

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// writerFunc does something each time it is written to.
type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestStream_TakesWhatIsInThePipeWhenStopped(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	entered, free := make(chan struct{}, 10), make(chan struct{})
	s, theirs := newStream(t, writerFunc(func(p []byte) {
		entered <- struct{}{}
		<-free
		got.Write(p)
	}))
	go s.copy()
	_, _ = io.WriteString(theirs, "a")
	<-entered
	_, _ = io.WriteString(theirs, strings.Repeat("b", 60_000))
	if err := s.from.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	close(free)
	s.stop()
	if got.Len() != 60_001 || s.ended {
		t.Errorf("got %d bytes, ended %v; the other end is open", got.Len(), s.ended)
	}
}

func TestStream_IsNotHeldUpByWhoWritesOn(t *testing.T) {
	t.Parallel()
	var theirs *os.File
	total := 0
	s, w := newStream(t, writerFunc(func(p []byte) {
		total += len(p)
		_, _ = theirs.Write(p)
	}))
	theirs = w
	_, _ = io.WriteString(theirs, "on and on")
	if err := s.from.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	s.copy()
	if total == 0 || total > 1<<20 {
		t.Errorf("read %d bytes", total)
	}
}

func newStream(t *testing.T, to io.Writer) (*stream, *os.File) {
	t.Helper()
	s, end, err := openStream(to)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(end), "pipe")
	t.Cleanup(func() {
		s.from.Close()
		theirs.Close()
	})
	return s, theirs
}
