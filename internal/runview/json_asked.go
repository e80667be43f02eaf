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

// ErrorJSON is an error as programs get it, below the key error.
type ErrorJSON struct {
	Code    string  `json:"code"` // a word of the table in docs/cli.md
	Message string  `json:"message"`
	Hint    *string `json:"hint"`
}

// ControlJSON is a request to a run and what became of it. No outcome: the run's driver has not decided yet.
type ControlJSON struct {
	ID        *int64     `json:"id"` // null: a new run was made, nothing was asked of an old one
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

// NewControlJSON returns a request as programs get it. retryOf is the run of which the request made a new one; 0: it made none.
func NewControlJSON(c *queue.Control, retryOf queue.RunID) ControlJSON {
	return ControlJSON{
		RunOrNull(queue.RunID(c.ID)), int64(c.Run), TextOrNull(c.Step), TextOrNull(c.Item), c.Verb.String(), TextOrNull(c.By), TimeOrNull(c.At),
		TimeOrNull(c.DecidedAt), TextOrNull(string(c.Outcome)), TextOrNull(c.State), TextOrNull(c.Message), RunOrNull(retryOf),
	}
}

// MadeControl returns the answer to a retry that made a new run, which needs no decision.
func MadeControl(made *queue.Run) queue.Control {
	return queue.Control{
		Run: made.ID, Verb: dagrun.VerbRetry, By: made.SubmittedBy, At: made.CreatedAt, DecidedAt: made.CreatedAt,
		Outcome: dagrun.Applied, State: made.State,
	}
}

// AskedOf names the run that a request is about, with its step: run 41, or run 41 load.
func AskedOf(c *queue.Control) string {
	if c.Step == "" {
		return fmt.Sprintf("run %d", c.Run)
	}
	return fmt.Sprintf("run %d %s", c.Run, Printable(TaskName(c.Step, c.Item)))
}

// RefusalText says why a run refused a request.
func RefusalText(c *queue.Control) string {
	message := Printable(c.Message)
	if strings.HasPrefix(message, "run ") {
		return message
	}
	return AskedOf(c) + ": " + message
}

// RefusalHint says what a refused request leaves to do.
func RefusalHint(c *queue.Control) string {
	return fmt.Sprintf("`oarlock status %d` shows where it is", c.Run)
}

// StreamNames are the names of streams by their number; what Oarlock itself says comes from oarlock.
var StreamNames = []string{"oarlock", "stdout", "stderr"}

// ChunkJSON is a stored piece of a log as programs get it.
type ChunkJSON struct {
	Seq     int        `json:"seq"`
	Stream  string     `json:"stream"`
	At      *time.Time `json:"at"`
	Attempt int        `json:"attempt"`
	Text    *string    `json:"text,omitempty"`
	Base64  *string    `json:"base64,omitempty"` // of what is no UTF-8
	Final   bool       `json:"final"`
	Dropped int64      `json:"dropped_bytes"`
	Reason  *string    `json:"reason"`
	Step    *string    `json:"step"` // null: the one that was asked for
	Item    *string    `json:"item"`
}

// NewChunkJSON returns a piece of a log as programs get it: bytes that are no UTF-8 as base64.
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
