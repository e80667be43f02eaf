package signin

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/integration/kit/openid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin returns the URL on which a user signs in at the provider, and the browser's attempt.
func begin(t *testing.T, i *openid.Provider, change func(*ProviderConfig)) (*Provider, Attempt) {
	t.Helper()
	config := ProviderConfig{Issuer: i.URL, ClientID: openid.ClientID, ClientSecret: openid.ClientSecret, Callback: "http://localhost/login/callback", NameClaim: "email", GroupsClaim: "groups"}
	if change != nil {
		change(&config)
	}
	p := NewProvider(config)
	t.Cleanup(p.Close)
	to, attempt, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, i.URL+"/authorize?") || u.Query().Get("code_challenge_method") != "S256" || strings.Contains(to, attempt.Verifier) {
		t.Fatalf("it leads to %s, %v", to, err)
	}
	i.Visit(u.Query())
	return p, attempt
}

func TestProvider_SaysWhoSignedIn(t *testing.T) {
	t.Parallel()
	i := openid.New(t)
	p, attempt := begin(t, i, nil)
	back := url.Values{"state": {attempt.State}, "code": {"the-code"}}
	person, err := p.Finish(t.Context(), back, attempt)
	if err != nil || person.Name != "ana@example.org" || len(person.Groups) != 2 || person.Groups[1] != "ops" {
		t.Fatalf("%+v, %v", person, err)
	}
	if _, err := p.Finish(t.Context(), back, attempt); !errors.Is(err, ErrToken) || strings.Contains(err.Error(), "the-code") {
		t.Errorf("the same answer again: %v", err)
	}
	if person, err := p.Verify(t.Context(), i.IDToken()); err != nil || person.Name != "ana@example.org" {
		t.Errorf("a program's token: %+v, %v", person, err)
	}
	bySub, attempt := begin(t, i, func(c *ProviderConfig) { c.NameClaim, c.GroupsClaim = "sub", "" })
	if person, err := bySub.Finish(t.Context(), url.Values{"state": {attempt.State}, "code": {"the-code"}}, attempt); err != nil || person.Name != "1234" || person.Groups != nil {
		t.Errorf("%+v, %v", person, err)
	}
}

func TestProvider_RefusesWhatDoesNotHold(t *testing.T) {
	t.Parallel()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		claims, header map[string]any
		sign           *rsa.PrivateKey
		query          url.Values
		attempt        func(*Attempt)
		config         func(*ProviderConfig)
	}{
		"issuer":              {claims: map[string]any{"iss": "https://evil.example"}},
		"audience":            {claims: map[string]any{"aud": "other"}},
		"several, none named": {claims: map[string]any{"aud": []string{openid.ClientID, "other"}}},
		"for another":         {claims: map[string]any{"aud": []string{openid.ClientID, "other"}, "azp": "other"}},
		"azp of another":      {claims: map[string]any{"azp": "other"}},
		"expired":             {claims: map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}},
		"nonce":               {claims: map[string]any{"nonce": "another"}},
		"no nonce":            {claims: map[string]any{"nonce": ""}},
		"address unverified":  {claims: map[string]any{"email_verified": false}},
		"verified as text":    {claims: map[string]any{"email_verified": "true"}},
		"no name":             {claims: map[string]any{"email": ""}},
		"name is no text":     {claims: map[string]any{"email": []string{"ana@example.org"}}},
		"no signature":        {header: map[string]any{"alg": "none"}},
		"other algorithm":     {header: map[string]any{"alg": "HS256"}},
		"other key":           {sign: other},
		"state":               {query: url.Values{"state": {"another"}, "code": {"the-code"}}},
		"no state":            {query: url.Values{"code": {"the-code"}}, attempt: func(a *Attempt) { a.State = "" }},
		"error":               {query: url.Values{"error": {"access_denied"}}},
		"verifier":            {attempt: func(a *Attempt) { a.Verifier = "another" }},
		"client secret":       {config: func(c *ProviderConfig) { c.ClientSecret = "another" }},
		"code":                {query: url.Values{"code": {"another-code"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := openid.New(t)
			p, attempt := begin(t, i, c.config)
			i.Claims, i.Header, i.Sign = c.claims, c.header, c.sign
			query := url.Values{"state": {attempt.State}, "code": {"the-code"}}
			maps.Copy(query, c.query)
			if c.query != nil && c.query.Get("code") == "" {
				query.Del("code")
			}
			if c.attempt != nil {
				c.attempt(&attempt)
			}
			person, err := p.Finish(t.Context(), query, attempt)
			if !errors.Is(err, ErrToken) {
				t.Errorf("%+v, %v", person, err)
			}
			for _, secret := range []string{openid.ClientSecret, "the-code", "another-code", attempt.Verifier} {
				if err != nil && secret != "" && secret != "another" && strings.Contains(err.Error(), secret) {
					t.Errorf("the error tells %s: %v", secret, err)
				}
			}
		})
	}
}

func TestProvider_IsLookedUpAgain(t *testing.T) {
	t.Parallel()
	i := openid.New(t)
	i.Away = true
	p := NewProvider(ProviderConfig{Issuer: i.URL, ClientID: openid.ClientID})
	defer p.Close()
	if _, _, err := p.Begin(t.Context()); !errors.Is(err, ErrAway) || strings.Contains(err.Error(), openid.Code) {
		t.Errorf("%v", err)
	}
	i.Away = false
	if _, _, err := p.Begin(t.Context()); err != nil {
		t.Errorf("%v", err)
	}
}

func TestProvider_IsAwayLater(t *testing.T) {
	t.Parallel()
	i := openid.New(t)
	p, attempt := begin(t, i, nil)
	back := url.Values{"state": {attempt.State}, "code": {openid.Code}}
	i.Away = true
	if _, err := p.Finish(t.Context(), back, attempt); !errors.Is(err, ErrAway) || errors.Is(err, ErrToken) || strings.Contains(err.Error(), openid.Code) {
		t.Errorf("%v", err)
	}
	i.Away = false
	if person, err := p.Finish(t.Context(), back, attempt); err != nil || person.Name != "ana@example.org" {
		t.Errorf("it is back: %+v, %v", person, err)
	}
}

// TestProvider_KeepsItsSecrets has a provider that redirects to another server, which must get no request.
func TestProvider_KeepsItsSecrets(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s is sent on to somebody else", r.Method, r.URL)
	}))
	defer other.Close()
	i := openid.New(t)
	p, attempt := begin(t, i, nil)
	i.LeadsTo = other.URL + "/?code=" + openid.Code
	_, err := p.Finish(t.Context(), url.Values{"state": {attempt.State}, "code": {openid.Code}}, attempt)
	if !errors.Is(err, ErrAway) || strings.Contains(err.Error(), openid.Code) {
		t.Errorf("%v", err)
	}
}

func TestProvider_BoundsAnswers(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"padding": %q, "issuer": %q, "authorization_endpoint": "/", "token_endpoint": "/", "jwks_uri": "/"}`, strings.Repeat("x", 2*answerBytesMax), server.URL)
	}))
	defer server.Close()
	p := NewProvider(ProviderConfig{Issuer: server.URL, ClientID: openid.ClientID})
	defer p.Close()
	if _, _, err := p.Begin(t.Context()); !errors.Is(err, ErrAway) || len(err.Error()) > 1000 {
		t.Errorf("an answer without end: %.1000v", err)
	}
}
