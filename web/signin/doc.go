// Package signin finds out who sends a request: by the word of a proxy, a file of passwords, or an OpenID provider. Roles say what
// such a person may do.
//
// A caller that was told who somebody is keeps that for as long as it likes: nothing here has sessions. It asks a Limiter
// before it checks a password. All types may be used from many goroutines at once. No error has a password, a code or a
// token in it. The package never knows the database, nor what a page shows.
package signin
