package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	providerTimeout = 10 * time.Second
	answerBytesMax  = 1 << 20
)

// Reasons for which a provider's answer identifies no user.
var (
	// ErrToken means that the answer or token is not valid, or is not for this server.
	ErrToken = errors.New("the provider's answer does not hold")
	// ErrAway means that the provider cannot be reached.
	ErrAway = errors.New("the provider does not answer")
)

// ProviderConfig is how to reach an OpenID provider, and which claims to read.
type ProviderConfig struct {
	Issuer, ClientID, ClientSecret string
	Callback                       string   // URL to which the provider redirects back
	Scopes                         []string // besides openid
	NameClaim                      string   // sub, preferred_username or email; an email must be verified
	GroupsClaim                    string   // "": no groups are read
}

// Provider is an OpenID provider. Its configuration is fetched when it is first needed, so a server starts even if the provider
// is down.
type Provider struct {
	config ProviderConfig
	client *http.Client

	mu    sync.Mutex
	found *oidc.Provider
}

// NewProvider returns a provider without a connection to it. The caller closes it.
func NewProvider(c ProviderConfig) *Provider {
	return &Provider{config: c, client: &http.Client{
		Timeout: providerTimeout, Transport: &providerTransport{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}},
	}}
}

// Close closes idle connections. The provider can still be used.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// providerTransport returns answers with status 2xx, and 4xx answers to a POST, up to answerBytesMax each. It turns all others
// into errors without their body: an error page of a gateway may repeat the request, and a redirect would send code and secret to
// another server.
type providerTransport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *providerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	refusal := r.Method == http.MethodPost && answer.StatusCode >= 400 && answer.StatusCode < 500 // the provider refuses a code
	if answer.StatusCode >= 300 && !refusal {
		answer.Body.Close()
		return nil, fmt.Errorf("the provider answers with status %d", answer.StatusCode)
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, answerBytesMax), answer.Body}
	return answer, nil
}

// Attempt is one sign-in in progress, kept in the user's browser. By it Finish refuses an answer to the attempt of another
// browser.
type Attempt struct{ State, Nonce, Verifier string }

// Begin returns the URL of the provider on which the user signs in, and the Attempt that the caller keeps in the user's browser for
// Finish. It returns ErrAway if the provider cannot be reached.
func (p *Provider) Begin(ctx context.Context) (to string, a Attempt, err error) {
	found, err := p.look(ctx)
	if err != nil {
		return "", a, err
	}
	a = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return p.oauth(found).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// Finish returns the person that signed in. query is the query of the provider's redirect back, and a the Attempt that Begin
// returned to this browser. It returns ErrToken if the redirect answers another attempt or the person is not signed in, and ErrAway
// if the provider cannot be reached.
func (p *Provider) Finish(ctx context.Context, query url.Values, a Attempt) (Person, error) {
	if a.State == "" || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(a.State)) != 1 {
		return Person{}, fmt.Errorf("%w: it answers another attempt", ErrToken)
	}
	if query.Get("code") == "" {
		return Person{}, fmt.Errorf("%w: it did not sign you in", ErrToken)
	}
	found, err := p.look(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(found).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(a.Verifier))
	if unreached, ok := errors.AsType[*url.Error](err); ok {
		return Person{}, fmt.Errorf("%w: exchange a code: %w", ErrAway, unreached)
	}
	if err != nil {
		return Person{}, fmt.Errorf("%w: it takes the code for no sign-in", ErrToken) // the provider's message may contain the code
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := p.verify(ctx, found, raw)
	if err != nil {
		return Person{}, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return Person{}, fmt.Errorf("%w: its token is of another attempt", ErrToken)
	}
	return p.person(id)
}

// Verify returns the person in an ID token that a program sent. It returns ErrToken if the token is not valid for this server, and
// ErrAway if the provider's configuration cannot be fetched.
func (p *Provider) Verify(ctx context.Context, token string) (Person, error) {
	found, err := p.look(ctx)
	if err != nil {
		return Person{}, err
	}
	id, err := p.verify(oidc.ClientContext(ctx, p.client), found, token)
	if err != nil {
		return Person{}, err
	}
	return p.person(id)
}

// look returns the provider's configuration. It fetches it until that succeeds once, and then keeps it. It returns ErrAway if it
// cannot be fetched.
func (p *Provider) look(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	found := p.found
	p.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: look up %s: %w", ErrAway, p.config.Issuer, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = found
	return found, nil
}

func (p *Provider) oauth(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, RedirectURL: p.config.Callback,
		Endpoint: found.Endpoint(), Scopes: append([]string{oidc.ScopeOpenID}, p.config.Scopes...),
	}
}

// verify checks signature, issuer, audience and expiry of the ID token raw, and returns ErrToken if one is wrong. If the token has
// an azp, that must name this client, and a token for several audiences must have one.
func (p *Provider) verify(ctx context.Context, found *oidc.Provider, raw string) (*oidc.IDToken, error) {
	id, err := found.Verifier(&oidc.Config{ClientID: p.config.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: its token is not valid", ErrToken)
	}
	var claims struct {
		For string `json:"azp"`
	}
	if err := id.Claims(&claims); err != nil || len(id.Audience) > 1 && claims.For == "" || claims.For != "" && claims.For != p.config.ClientID {
		return nil, fmt.Errorf("%w: its token is for another program", ErrToken)
	}
	return id, nil
}

// person returns the name and groups in the claims of a token. It returns ErrToken if the claim of the name is missing, or is an
// email address that the provider has not verified.
func (p *Provider) person(id *oidc.IDToken) (Person, error) {
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return Person{}, fmt.Errorf("%w: its claims cannot be read", ErrToken)
	}
	name, _ := claims[p.config.NameClaim].(string)
	if p.config.NameClaim == "email" && claims["email_verified"] != true {
		return Person{}, fmt.Errorf("%w: it has not verified the address", ErrToken)
	}
	if name == "" {
		return Person{}, fmt.Errorf("%w: its token has no %s", ErrToken, p.config.NameClaim)
	}
	return Person{Name: name, Groups: texts(claims[p.config.GroupsClaim])}, nil
}

// texts returns the strings in a claim that is a string or a list, each once. It returns nil for any other claim.
func texts(claim any) []string {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		all := make([]string, 0, len(v))
		for _, one := range v {
			if text, ok := one.(string); ok && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}
