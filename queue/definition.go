package queue

import (
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// Definition is a version of a DAG, ready to be driven. It is shared and must not be changed.
type Definition struct {
	Spec  *dagspec.Spec
	Graph *dagrun.Graph
	Path  string // of the file it was put from last, on the host where that was done; "" for none
}

// LogQuery picks chunks of one attempt's log, in their order. Without a Step, what a Store reads is the logs of all tasks
// of the run: ReadLogs one attempt after the other, a LogReader and FollowLogs in the order of their arrival.
type LogQuery struct {
	Run     RunID
	Step    string // as in Ask
	Item    string
	Alt     int
	Attempt int    // 0: the task's latest; FollowLogs goes on with later ones
	From    int    // the number of the first chunk that is wanted
	Limit   int    // 0: as many as the store gives at once; FollowLogs has no limit
	Last    *Chunk // without a Step: the last chunk of the page before

	// For a LogReader and FollowLogs.
	Whole  bool      // all tasks of the Step, its items and replacements; Item and Alt do not count
	Latest bool      // of tasks that have a log at first, the latest attempt and later ones
	Lines  int       // of logs that are there at first, from the chunk on in which the last so many lines may begin; 0: all
	Since  time.Time // of logs that are there at first, what arrived from then on
}
