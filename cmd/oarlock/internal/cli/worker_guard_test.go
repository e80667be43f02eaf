package cli

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/worker/supervise"
)

func TestSayGuard_SaysSentencesWithFields(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	e := &env{log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: readableDuration}))}
	w3 := guarded{"w3", "/s"}
	e.sayGuard(w3, supervise.Event{Kind: supervise.Waiting, PID: 7})
	e.sayGuard(w3, supervise.Event{Kind: supervise.Waiting})
	e.sayGuard(w3, supervise.Event{Kind: supervise.Freed, Took: 1033456789})
	e.sayGuard(w3, supervise.Event{Kind: supervise.Ended, PID: 7, Code: 9, Took: 1033 * time.Millisecond})
	e.sayGuard(w3, supervise.Event{Kind: supervise.Ended, PID: 7, Code: 9, Took: time.Second, Last: true})
	e.sayGuard(w3, supervise.Event{Kind: supervise.Delayed, Wait: 123456789})
	e.sayGuard(w3, supervise.Event{Kind: supervise.Uncontained, Err: errors.New("read-only file system")})
	for _, want := range []string{
		`"msg":"guard: another worker named w3 runs on this host (pid 7) with state_dir /s: this worker waits until the other worker ends; give this worker another --name","pid":7}`,
		`"msg":"guard: another worker named w3 runs on this host with state_dir /s: this worker waits until the other worker ends; give this worker another --name"}`,
		`"msg":"guard: the other worker named w3 has ended: this worker goes on","took":"1.033s"}`,
		`"msg":"guard: the driver process of worker w3 ended: the guard starts another one","pid":7,"code":9,"took":"1.033s"}`,
		`"msg":"guard: the driver process of worker w3 ended","pid":7,"code":9,"took":"1s"}`,
		`"msg":"guard: the next driver process of worker w3 starts after a pause, because the last driver processes ended early","wait":"123ms"}`,
		`"level":"INFO","msg":"guard: worker w3 has no cgroup of its own: `,
		`only if guard and driver process are killed at the same moment","why":"read-only file system"}`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in\n%s", want, out.String())
		}
	}
}

// Text and JSON logs write a duration in the same way.
func TestSayGuard_WritesDurationsAlikeInTextAndJSON(t *testing.T) {
	t.Parallel()
	event := supervise.Event{Kind: supervise.Swept, Took: 1033456789}
	for format, want := range map[string]string{"text": "took=1.033s", "json": `"took":"1.033s"`} {
		var out strings.Builder
		settings := map[string]string{"OARLOCK_LOG_FORMAT": format, "OARLOCK_LOG_LEVEL": "debug", "NO_COLOR": "1"}
		e := &env{Env: testEnv()}
		e.Stderr, e.Lookup = &out, func(name string) (string, bool) { value, ok := settings[name]; return value, ok }
		if err := e.decide(nil); err != nil {
			t.Fatal(err)
		}
		e.log = newLogger(e)
		e.sayGuard(guarded{"w3", "/s"}, event)
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "no process is left of the former process of worker w3") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}
