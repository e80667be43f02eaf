// Package dagrun decides what a run does next, from events alone.
//
// It is a state machine and nothing else: no clock, no I/O, no goroutines, no randomness, no knowledge of
// commands, SQL, leases or YAML. The same graph, options and events give the same decisions, byte for byte.
//
// # The loop
//
// A driver owns one Run, which [New] or [Restore] makes, and repeats four moves. The package's example is such a driver.
//
//   - [Run.Step] hands the run an event: first EvBegin, then each thing that happened, or EvTick once [Ready.WakeAt] has come.
//   - [Run.Ready] shows what follows. For a want that a free slot can serve the driver steps EvGranted, and calls Ready again.
//   - The driver commits [Ready.Records] in one fenced commit. If the commit is refused, it steps the events that it had not
//     seen, and calls Ready again.
//   - [Run.Advance] acknowledges the commit. Only now does the driver perform [Ready.Actions], which it copied before.
//
// # What the caller owes
//
//   - The first event of a drive is EvBegin. Only EvSettled, EvDriveLimit, EvRefuse and EvControl events may come before it
//     (in a restored run): results a former driver settled but did not record, the notice that too many
//     drives were lost, and requests that no driver has decided yet. Retries and marks that no driver has decided must come
//     before it, in the order of their IDs: a crash may have stored a part of what they reset.
//   - Records first, actions after. A crash between the two must lose nothing but time.
//   - Advance acknowledges everything the last Ready showed. Between that Ready and Advance no event is stepped; when the
//     commit is refused (an inbox that moved), or to hand in grants, step the events instead and call Ready again: it
//     shows the old and the new together.
//   - Any prefix of Records.Tasks, in order, is a state that Restore continues from: a journal may split a large
//     batch there. An attempt goes into the same piece as its task: until then the stored row of the task is the record of the
//     attempt. Controls, Notes and Run go with the last piece.
//   - Time never runs backwards: an event with an earlier At is taken as of the latest time seen.
//   - The result of Ready is valid until the next Step or Advance and must not be changed.
//
// A Run serves one drive of one generation: after it parked, drained or ended (Over) it answers ErrOver.
//
// A Run is not safe for concurrent use; a Graph is immutable and may be shared by any number of runs.
package dagrun
