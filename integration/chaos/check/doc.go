// Package check judges a fault run: the transitions of runs and tasks (S), what tasks wrote outside the database (W),
// logs (G), the answers that clients got (A), and how work was shared (C).
//
// Its functions take records of the past and return what must not have happened. They know no database, no processes and
// no clock. Which of two events came first follows from the order of an audit trail or of a witness file, never from
// times. Only two rules use times: C2 the times at which a sampler looked, by its own clock, and C3 the times of the
// trail, by the server's clock.
package check
