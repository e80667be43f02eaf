package queue

import (
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// Definition is a version of a DAG, ready to be driven. It is shared and must not be changed.
type Definition struct {
	Spec  *dagspec.Spec
	Graph *dagrun.Graph
}

// LogQuery picks chunks of one attempt's log, in their order. Without a Step, what a Store reads is the logs of all tasks
// of the run, one attempt after the other, and FollowLogs yields them as they come.
type LogQuery struct {
	Run     RunID
	Step    string // as in Ask
	Item    string
	Alt     int
	Attempt int    // 0: the task's latest; FollowLogs goes on with later ones
	After   int    // as many chunks of it are known already: those numbered from After on are returned
	Limit   int    // 0: as many as the store gives at once; FollowLogs has no limit
	Last    *Chunk // without a Step: the last chunk of the page before
}
