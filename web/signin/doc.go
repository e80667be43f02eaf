// Package signin identifies the user of a request: by the headers of a proxy, a file of passwords, or an OpenID provider. Roles
// say what the user may do.
//
// The package has no sessions: the caller decides for how long a user stays identified. The caller asks a Limiter before it
// checks a password. All types are safe for concurrent use. No error contains a password, a code or a token. The package knows
// neither the database nor the pages.
package signin
