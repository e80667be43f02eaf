package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/golden"
	"github.com/oarlock-dev/oarlock/integration/kit/screen"
	"github.com/oarlock-dev/oarlock/queue"
)

// namedPage returns a page with names and texts in many scripts.
func namedPage() *runPage {
	two := 2
	return &runPage{
		now: at(20),
		run: &queue.Run{
			ID: 9, DAG: "letters", Version: 1, Generation: 1, State: "failed", Reason: "step send failed: exit 2", Queue: "default",
			Params: json.RawMessage(`{"title": "שלום 20", "where": "東京 支店", "who": "👩‍🚀 Ana"}`), Labels: map[string]string{"לקוח": "12", "城市": "京都"},
			Trigger: "manual", Epoch: 1, Worker: "w1", SubmittedBy: "ana", CreatedAt: at(0), StartedAt: at(1), FinishedAt: at(19),
		},
		tasks: []queue.Task{
			{Step: "send", Kind: "foreach", State: "failed", Attempt: 1, StartedAt: at(1), FinishedAt: at(19), Reason: "2 of 5 items failed"},
			{Step: "send", Item: "plain.txt", Kind: "foreach", State: "succeeded", Reason: "ran", Attempt: 1, StartedAt: at(1), FinishedAt: at(1.5)},
			{Step: "send", Item: "שלום 20", Kind: "foreach", State: "failed", Reason: "exit 2", ExitCode: &two, Attempt: 2, StartedAt: at(1), FinishedAt: at(12)},
			{Step: "send", Item: "請求書の写し.pdf", Kind: "foreach", State: "succeeded", Reason: "ran", Attempt: 1, StartedAt: at(2), FinishedAt: at(4)},
			{Step: "send", Item: "👩‍🚀🇫🇷 e\u0301te\u0301", Kind: "foreach", State: "failed", Reason: "نفدت المهلة 30", Attempt: 1, StartedAt: at(3), FinishedAt: at(19)},
			{Step: "send", Item: strings.Repeat("a-long-name-", 4) + "x", Kind: "foreach", State: "succeeded", Reason: "cached", Attempt: 1, StartedAt: at(3), FinishedAt: at(4)},
		},
		tails: map[int][]string{2: {"לא נמצא: 404", "smtp: the server said that it knows nobody of this name, and that it will not look any further for one"}},
	}
}

func TestStatus_FitsTheTerminal(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]*runPage{"failed": failedPage(), "named": namedPage()} {
		for _, columns := range []int{40, 80, 120} {
			page.columns = columns - 1
			for _, page.painter = range []painter{newPainter(true), newPainter(false)} { // the text is the same with and without colours
				tty := &terminal{Screen: screen.New(columns, 60)}
				if _, err := fmt.Fprint(tty, page); err != nil {
					t.Fatal(err)
				}
				golden.Equal(t, filepath.Join("testdata", "status", fmt.Sprintf("%s.%d.txt", name, columns)), tty.Screen.String())
			}
		}
	}
}
