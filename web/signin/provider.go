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

// Why nobody is known by a provider's word.
var (
	// ErrToken: it does not hold, or is not for this server.
	ErrToken = errors.New("the provider's answer does not hold")
	// ErrAway: the provider cannot be reached.
	ErrAway = errors.New("the provider does not answer")
)

// ProviderConfig says how to reach an OpenID provider, and which of its claims count.
type ProviderConfig struct {
	Issuer, ClientID, ClientSecret string
	Callback                       string   // URL that the provider leads back to
	Scopes                         []string // besides openid
	NameClaim                      string   // sub, preferred_username, or email, which has to be verified
	GroupsClaim                    string   // "": none are read
}

// Provider is an OpenID provider. It is looked up when it is first needed, and again until it answers: a server starts without it.
type Provider struct {
	config ProviderConfig
	client *http.Client

	mu    sync.Mutex
	found *oidc.Provider
}

// NewProvider returns a provider, which the caller closes.
func NewProvider(c ProviderConfig) *Provider {
	return &Provider{config: c, client: &http.Client{
		Timeout: providerTimeout, Transport: &providerTransport{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}},
	}}
}

// Close ends connections that are kept.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// providerTransport takes answers that say something, up to answerBytesMax of each. It turns all others into errors of their own,
// since a gateway's page may show what it was asked, and a redirect would send code and secret on to another server.
type providerTransport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *providerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	refusal := r.Method == http.MethodPost && answer.StatusCode >= 400 && answer.StatusCode < 500 // of a code
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

// Attempt is what a browser keeps while somebody signs in, so that nobody else's answer is taken for its own.
type Attempt struct{ State, Nonce, Verifier string }

// Begin returns where somebody signs in.
func (p *Provider) Begin(ctx context.Context) (to string, a Attempt, err error) {
	found, err := p.look(ctx)
	if err != nil {
		return "", a, err
	}
	a = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return p.oauth(found).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// Finish takes the query that the provider led back with, and returns who signed in.
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
		return Person{}, fmt.Errorf("%w: it takes the code for no sign-in", ErrToken) // what it said may have the code in it
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

// Verify returns whom a token is about that a program sends.
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

// look finds out what the provider says of itself, once.
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

// verify checks signature, issuer, audience, expiry, and that a token for several audiences was made for us.
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

// person reads the claims that count.
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

// texts are those of a claim that is a text, or a list of some.
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
