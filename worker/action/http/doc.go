// Package http executes http.request steps, and probes for waits that wait for an HTTP answer.
//
// An address is checked when it is dialled, after its name was resolved. Link-local addresses, where clouds serve the machine's
// credentials, are denied unless the worker's configuration allows them. Headers and body of a step, credentials above all,
// follow no redirect to another host.
//
// An Action is safe for concurrent use. It does not know the graph or the database.
package http
