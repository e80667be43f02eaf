package pglocal

import (
	"testing"
)

func TestSmoke(t *testing.T) {
	s, err := Start(t.Context(), Config{Throwaway: true, Say: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(s.URL(""), s.SocketURL("x"), s.PID(), s.Dir())
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
