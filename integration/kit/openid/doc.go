// Package openid is an OpenID provider for tests, on loopback. New starts one, which ends with its test. A test visits it in the
// place of a browser, and says what is wrong with the next token by the provider's fields, which it changes while nothing is
// asked. It never knows what signs in there.
package openid
