// Package http executes http.request steps, and asks for waits that wait for an answer.
//
// An address is checked when it is dialled, after its name was resolved: link-local addresses, where clouds keep
// credentials of the machine, are denied unless the worker's configuration allows them. What a step sends, credentials
// above all, follows no redirect to another host.
//
// An Action is safe for concurrent use. It knows no graph and no database.
package http
