package cli

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// TestAsk_TakesTheCommandsThatPagesShow has a shell run each command. A command is right if it fails only for want of a
// database.
func TestAsk_TakesTheCommandsThatPagesShow(t *testing.T) {
	t.Parallel()
	hostile := `it's "$HOME" --now; -x`
	for _, ask := range []queue.Ask{
		{Verb: dagrun.VerbCancel},
		{Verb: dagrun.VerbCancel, Now: true},
		{Verb: dagrun.VerbCancel, Step: "resize", Item: hostile},
		{Verb: dagrun.VerbPause},
		{Verb: dagrun.VerbPause, Step: "load"},
		{Verb: dagrun.VerbResume, Step: "load", Item: "-x"},
		{Verb: dagrun.VerbRetry},
		{Verb: dagrun.VerbRetry, Mode: dagrun.RetryAll},
		{Verb: dagrun.VerbRetry, Mode: dagrun.RetryFrom, Step: "load"},
		{Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Step: "resize", Item: hostile},
		{Verb: dagrun.VerbApprove, Step: "confirm", Outputs: map[string]string{"ticket": hostile}},
		{Verb: dagrun.VerbApprove, Step: "confirm", Outputs: map[string]string{"comment": hostile}},
		{Verb: dagrun.VerbReject, Step: "confirm", Reason: hostile},
		{Verb: dagrun.VerbReject, Step: "confirm", Reason: "-x"},
		{Verb: dagrun.VerbMark, Step: "load", As: dagrun.TaskSucceeded, Outputs: json.RawMessage(`{"rows": 7, "n": "7", "all": ["a b"]}`)},
		{Verb: dagrun.VerbMark, Step: "load", As: dagrun.TaskSkipped},
	} {
		ask.Run = 41
		command := runview.AskCommand(&ask)
		words, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+command).Output()
		if err != nil {
			t.Fatal(err)
		}
		args := strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")[1:]
		got := invoke(t, testEnv(), append(args, "--database-url", "postgres://ana@127.0.0.1:1/app")...)
		if got.exit != exitUnreachable {
			t.Errorf("%s: exit %d: %s", command, got.exit, got.stderr)
		}
	}
}
