package runview

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// ErrorJSON is the JSON of an error, under the key error.
type ErrorJSON struct {
	Code    string  `json:"code"` // a word of the table in docs/cli.md
	Message string  `json:"message"`
	Hint    *string `json:"hint"`
}

// ControlJSON is the JSON of a request to a run and its outcome. It has no outcome while the run's driver has not decided
// the request.
type ControlJSON struct {
	ID        *int64     `json:"id"` // null: a new run was made, and the old run got no request
	Run       int64      `json:"run"`
	Step      *string    `json:"step"`
	Item      *string    `json:"item"`
	Verb      string     `json:"verb"`
	By        *string    `json:"by"`
	At        *time.Time `json:"at"`
	DecidedAt *time.Time `json:"decided_at"`
	Outcome   *string    `json:"outcome"`
	State     *string    `json:"state"`
	Message   *string    `json:"message"`
	RetryOf   *int64     `json:"retry_of"`
}

// NewControlJSON returns the JSON of a request. retryOf is the run from which the request made a new run, or 0.
func NewControlJSON(c *queue.Control, retryOf queue.RunID) ControlJSON {
	return ControlJSON{
		RunOrNull(queue.RunID(c.ID)), int64(c.Run), TextOrNull(c.Step), TextOrNull(c.Item), c.Verb.String(), TextOrNull(c.By), TimeOrNull(c.At),
		TimeOrNull(c.DecidedAt), TextOrNull(string(c.Outcome)), TextOrNull(c.State), TextOrNull(c.Message), RunOrNull(retryOf),
	}
}

// MadeControl returns the answer to a retry that made a new run, as an applied control: no driver has to decide it. made is the new
// run.
func MadeControl(made *queue.Run) queue.Control {
	return queue.Control{
		Run: made.ID, Verb: dagrun.VerbRetry, By: made.SubmittedBy, At: made.CreatedAt, DecidedAt: made.CreatedAt,
		Outcome: dagrun.Applied, State: made.State,
	}
}

// AskedOf returns the run of a request, with the task if the request is for one: "run 41", or "run 41 load".
func AskedOf(c *queue.Control) string {
	if c.Step == "" {
		return fmt.Sprintf("run %d", c.Run)
	}
	return fmt.Sprintf("run %d %s", c.Run, Printable(TaskName(c.Step, c.Item)))
}

// RefusalText returns the reason why a run refused a request. It begins with the run of the request.
func RefusalText(c *queue.Control) string {
	message := refusalMessage(c)
	if strings.HasPrefix(message, "run ") {
		return message
	}
	return AskedOf(c) + ": " + message
}

// refusalMessage returns the reason of a refusal, with the run and the task of the request in the commands that the reason names.
func refusalMessage(c *queue.Control) string {
	message := strings.ReplaceAll(c.Message, "oarlock retry RUN", fmt.Sprintf("oarlock retry %d", c.Run))
	if c.Step != "" {
		message = strings.ReplaceAll(message, "--step STEP/ITEM", "--step "+ShellWord(c.Step)+"/ITEM")
		message = strings.ReplaceAll(message, "--from STEP", "--from "+ShellWord(TaskName(c.Step, c.Item)))
	}
	return Printable(message)
}

// RefusalHint returns the hint for a refused request: the command that shows the state of the run.
func RefusalHint(c *queue.Control) string {
	return fmt.Sprintf("`oarlock status %d` shows the state of the run", c.Run)
}

// StreamNames are the names of streams by their number. Oarlock's own messages have the stream oarlock.
var StreamNames = []string{"oarlock", "stdout", "stderr"}

// ChunkJSON is the JSON of a stored chunk of a log.
type ChunkJSON struct {
	Seq     int        `json:"seq"`
	Stream  string     `json:"stream"`
	At      *time.Time `json:"at"`
	Attempt int        `json:"attempt"`
	Text    *string    `json:"text,omitempty"`
	Base64  *string    `json:"base64,omitempty"` // bytes that are not UTF-8
	Final   bool       `json:"final"`
	Dropped int64      `json:"dropped_bytes"`
	Reason  *string    `json:"reason"`
	Step    *string    `json:"step"` // null: the step that was asked for
	Item    *string    `json:"item"`
}

// NewChunkJSON returns the JSON of a chunk of a log. Bytes that are not UTF-8 become base64.
func NewChunkJSON(c *queue.Chunk) ChunkJSON {
	j := ChunkJSON{
		Seq: c.Seq, Stream: StreamNames[c.Stream], At: TimeOrNull(c.At), Attempt: c.Attempt, Final: c.Final, Dropped: c.Dropped,
		Reason: TextOrNull(c.Reason), Step: TextOrNull(c.Step), Item: TextOrNull(c.Task.Item),
	}
	if utf8.Valid(c.Data) {
		j.Text = new(string(c.Data))
	} else {
		j.Base64 = new(base64.StdEncoding.EncodeToString(c.Data))
	}
	return j
}
