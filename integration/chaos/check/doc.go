// Package check judges what happened in a fault run: transitions of runs and tasks (S), what tasks wrote outside the database
// (W), logs (G), what clients were told (A), and how work was shared (C).
//
// Its functions take records of the past and return what must not have happened. They know no database, no processes and no
// clock: which of two things came first is read from the order of an audit trail or of a witness file, never from times. Two rules
// are about times: C2 about those at which a sampler looked, by its own clock, and C3 about those of the trail, by the server's.
package check
