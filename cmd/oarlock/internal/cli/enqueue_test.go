package cli

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// The command line accepts the commands that the web pages show.
func TestEnqueue_TakesTheCommandsOfPages(t *testing.T) {
	t.Parallel()
	params := map[string]string{"day": "it's 2026", "more": `{"a": ["$HOME"]}`, "dash": "-p"}
	at := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	command := runview.EnqueueCommand(&queue.Request{DAG: "etl", Key: "-k", RunAt: at, Priority: new(-5), Queue: "big", Labels: map[string]string{"team": "a b"}}, params)
	o := enqueueOptions{at: at.Format(time.RFC3339)}
	for command, want := range map[string][]string{
		command:                                {"enqueue", "--param=dash=-p", "--param=day=it's 2026", `--param=more={"a": ["$HOME"]}`, "--key=-k", "--at=" + o.at, "--priority=-5", "--queue=big", "--label=team=a b", "--", "etl"},
		runview.RerunCommand(41, params, true): {"retry", "--latest", "--param=dash=-p", "--param=day=it's 2026", `--param=more={"a": ["$HOME"]}`, "--", "41"},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+command).Output()
		if err != nil {
			t.Fatal(err)
		}
		line, err := arrange(newApp(&env{Env: testEnv()}), strings.Split(strings.TrimSpace(string(out)), "\n")[1:])
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if diff := cmp.Diff(want, line.words("oarlock")[1:]); diff != "" {
			t.Error(diff)
		}
	}
	request, err := o.request("etl", time.Now())
	if err != nil || !request.RunAt.Equal(at) {
		t.Errorf("%v, %v", request.RunAt, err)
	}
}
