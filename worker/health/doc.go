// Package health answers whether a worker is alive and whether it is ready, over HTTP.
//
// Alive is about this process alone: its loops make progress. It does not depend on the database, because no restart of the
// worker repairs that. Ready is about work: the worker is registered, its lease holds, the last renewal was answered, and it
// claims.
//
//	GET /livez    200 or 503, with why in one line; with Accept: application/json the same as an object
//	GET /readyz   as well
//	GET /metrics  what Config.Metrics shows
//
// A server listens on the loopback interface unless its address says otherwise. It asks for no password and shows no secret: it
// does not show what runs, only how much.
package health
