package openid

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// The client's id and secret, and the code that the provider returns.
const (
	ClientID     = "pages"
	ClientSecret = "s3cret-of-the-pages"
	Code         = "the-code"
)

// Provider signs every visitor in as Ana, with the code Code. Changes of its fields apply to the next token.
type Provider struct {
	URL     string
	Claims  map[string]any // replace the right claims
	Header  map[string]any
	Sign    *rsa.PrivateKey // nil: its own key
	Asked   url.Values      // the query of the browser's visit
	Away    bool            // the provider answers only 502
	LeadsTo string          // all requests are redirected there; "": none is

	key  *rsa.PrivateKey
	used bool // the code was exchanged
}

// New starts a provider, which ends with the test.
func New(tb testing.TB) *Provider {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	i := &Provider{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": encode(key.N.Bytes()), "e": encode([]byte{1, 0, 1}),
		}}})
	})
	mux.HandleFunc("/token", i.token)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.Away {
			http.Error(w, Code, http.StatusBadGateway) // a proxy in front of a provider may show the request
			return
		}
		if i.LeadsTo != "" {
			http.Redirect(w, r, i.LeadsTo, http.StatusTemporaryRedirect)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // a client that has gone fails its test
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Visit stands for a browser's visit to the provider: the visitor signs in, and may exchange one code.
func (i *Provider) Visit(query url.Values) { i.Asked, i.used = query, false }

// token exchanges a code once, for a client with the secret and the verifier.
func (i *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if id != ClientID || secret != ClientSecret || i.used || r.FormValue("code") != Code || encode(sum[:]) != i.Asked.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]string{"error": "invalid_grant", "error_description": r.FormValue("code")})
		return
	}
	i.used = true
	answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": i.IDToken()})
}

// IDToken returns the next token.
func (i *Provider) IDToken() string {
	claims := map[string]any{
		"iss": i.URL, "aud": ClientID, "sub": "1234", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "nonce": i.Asked.Get("nonce"),
		"email": "ana@example.org", "email_verified": true, "groups": []string{"dev", "ops"},
	}
	maps.Copy(claims, i.Claims)
	header := map[string]any{"alg": "RS256", "kid": "one"}
	maps.Copy(header, i.Header)
	h, _ := json.Marshal(header) //nolint:errchkjson // of texts, numbers and lists
	c, _ := json.Marshal(claims) //nolint:errchkjson // as above
	signed := encode(h) + "." + encode(c)
	if header["alg"] == "none" {
		return signed + "."
	}
	key := i.key
	if i.Sign != nil {
		key = i.Sign
	}
	sum := sha256.Sum256([]byte(signed))
	signature, _ := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return signed + "." + encode(signature)
}
