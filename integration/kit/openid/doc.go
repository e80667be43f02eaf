// Package openid is an OpenID provider for tests, on loopback. New starts a provider, which ends with its test. The test
// visits it in place of a browser. To make the next token wrong, the test changes the provider's fields while no request
// is under way. The package knows nothing of the program that signs users in.
package openid
