// Package dagrun decides what a run does next, from events alone.
//
// It is a state machine and nothing else: no clock, no I/O, no goroutines, no randomness, no knowledge of
// commands, SQL, leases or YAML. The same graph, options and events give the same decisions, byte for byte.
//
// # The loop
//
// A driver owns one Run and repeats four moves:
//
//	run, _ := dagrun.New(graph, options)             // or Restore(graph, options, saved)
//	run.Step(dagrun.Event{Kind: dagrun.EvBegin, At: now})
//	for !run.Over() {
//		if ready, ok := run.Ready(); ok {
//			for _, w := range ready.Wants { … gate … }  // a slot that is free now: Step(EvGranted), then Ready again
//			commit(ready.Records)                       // one fenced commit; refused: Step what moved, Ready again
//			perform(ready.Actions)                      // only after the commit
//			run.Advance()
//		}
//		run.Step(next event, or a Tick at ready.WakeAt)
//	}
//
// # What the caller owes
//
//   - The first event of a drive is EvBegin. Only EvSettled, EvDriveLimit, EvRefuse and EvControl events may come before it
//     (in a restored run): results a former driver settled but did not record, the notice that too many
//     drives were lost, and requests nobody has decided yet.
//   - Records first, actions after. A crash between the two must lose nothing but time.
//   - Advance acknowledges everything the last Ready showed. Between that Ready and Advance no event is stepped; when the
//     commit is refused (an inbox that moved), or to hand in grants, step the events instead and call Ready again: it
//     shows the old and the new together.
//   - Any prefix of Records.Tasks, in order, is a state that Restore continues from: a journal may split a large
//     batch there. Attempts go with or before their task; Controls, Notes and Run go with the last piece.
//   - Time never runs backwards: an event with an earlier At is taken as of the latest time seen.
//   - What Ready returns is valid until the next Step or Advance and must not be changed.
//
// A Run serves one drive of one generation: after it parked, drained or ended (Over) it answers ErrOver.
//
// A Run is not safe for concurrent use; a Graph is immutable and may be shared by any number of runs.
package dagrun
