package integration

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// secretCall is a request to a URL that is a secret, or contains one.
type secretCall struct {
	name, secret string
	with         string // the settings in the DAG; "": the secret is the URL
	want         string // the end of the task, with its reason
}

// hook is a service with secret addresses. It returns them in every answer. Requests to the other host go to strange.
func hook(t *testing.T) (url, tls string, strange chan http.Header) {
	t.Helper()
	strange = make(chan http.Header, 2)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		strange <- r.Header
		if r.URL.Path != "/again" {
			http.Redirect(w, r, "/again", http.StatusFound)
		}
	}))
	t.Cleanup(other.Close)
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	var mux http.ServeMux
	mux.HandleFunc("/echo/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.RequestURI)
		fmt.Fprintf(w, "http://%s%s %s %s", r.Host, r.RequestURI, r.URL.Path, r.Header.Get("Authorization"))
	})
	mux.HandleFunc("/unknown/", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "Cannot %s %s\n{\"path\":\"%s\"}\n%s", r.Method, r.RequestURI, strings.ReplaceAll(r.URL.Path, "/", `\/`), html.EscapeString(r.URL.RequestURI()))
	})
	mux.HandleFunc("/cut/", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, strings.Repeat("x", 4096-30)+r.RequestURI)
	})
	mux.HandleFunc("/encodes/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %x no route %s", base64.StdEncoding.EncodeToString([]byte(r.RequestURI)), r.RequestURI, strings.TrimSuffix(r.URL.Path, "/"))
	})
	mux.HandleFunc("/named/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-"+strings.TrimPrefix(r.URL.Path, "/named/"), "y")
	})
	mux.HandleFunc("/common/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "localhost and 127.0.0.1 are everywhere, %s is not: %s", r.Host, r.RequestURI)
	})
	mux.HandleFunc("/moved/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
	mux.HandleFunc("/broken/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Path+"%zz")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/slow/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server, secure := httptest.NewServer(&mux), httptest.NewTLSServer(&mux)
	t.Cleanup(server.Close)
	t.Cleanup(secure.Close)
	return server.URL, secure.URL, strange
}

func secretCalls(url, tls string) []secretCall {
	gone := httptest.NewServer(nil)
	gone.Close()
	part := `url: "` + url + `/echo/bot${secrets.HOOK}/send?key=${secrets.HOOK}", headers: {Authorization: "Bearer ${secrets.HOOK}"}`
	whole := `url: "${secrets.HOOK}"`
	return []secretCall{
		{"answers", url + "/echo/battery-staple?key=swallow", whole, "succeeded: "},
		{"decodes", url + "/echo/battery%2Dstaple/swall%6Fw", whole, "succeeded: "},
		{"signs", strings.Replace(url, "//", "//bot:battery-staple@", 1) + "/echo/in", whole, "succeeded: "},
		{"part", "12345:battery-staple", part, "succeeded: "},
		{"unknown", url + "/unknown/battery-staple?a=1&key=swallow", whole + `, method: POST, body: {text: hello}`, "failed: status 404"},
		{"cut", url + "/cut/correct-battery-staple-horse", whole, "failed: status 404"},
		{"encodes", url + "/encodes/battery-staple/", whole, "succeeded: "},
		{"named", url + "/named/correct-battery-staple", whole, "succeeded: "},
		{"port", "battery-staple.invalid:8080", `url: "http://${secrets.HOOK}/x"`, "failed: dial tcp: lookup ***"},
		{"common", strings.Replace(url, "127.0.0.1", "localhost", 1) + "/common/battery-staple", whole, "succeeded: "},
		{"plain", url + "/common/battery-staple", whole, "succeeded: "},
		{"foreign", "http://bÜcher-lesen.invalid:8080/battery-staple", whole, "failed: dial tcp: lookup ***"},
		{"moved", url + "/moved/battery-staple", whole + `, headers: {X-Api-Key: "${secrets.HOOK}", Authorization: "${secrets.HOOK}"}`, "succeeded: "},
		{"broken", url + "/broken/battery-staple", whole, `failed: failed to parse Location header "***%zz": `},
		{"slow", url + "/slow/battery-staple", whole + `, timeout: 50ms`, "failed: there was no answer within 50ms"},
		{"refuses", gone.URL + "/battery-staple", whole, "failed: dial tcp ***: connect: connection refused"},
		{"untrusted", tls + "/echo/battery-staple", whole, "failed: tls: failed to verify certificate: x509: "},
		{"unsafe", strings.Replace(url, "http:", "https:", 1) + "/echo/battery-staple", whole, "failed: http: server gave HTTP response to HTTPS client"},
		{"lost", "http://battery-staple.invalid/swallow", whole, "failed: dial tcp: lookup ***"},
		{"denied", "http://169.254.169.254/battery-staple", whole, "failed: dial tcp ***:80: address *** is denied"},
		{"nothing", "correct-horse", whole, "failed: with.url must be an http or https URL: check the value that the worker has for ${secrets.HOOK}"},
	}
}

// Requests to secret URLs end in every way: no row, no log and no error contains the URL, or a piece of it.
func TestSecretURL_IsNowhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	url, tls, strange := hook(t)
	calls := secretCalls(url, tls)
	settings := []string{"secrets_env=HOOK_*"}
	dag := "name: hooks\nsteps:\n"
	for _, c := range calls {
		settings = append(settings, "$HOOK_"+c.name+"="+c.secret)
		dag += fmt.Sprintf("  - id: %s\n    action: http.request\n    continue_on: failed\n    cache: {key: '\"k\"'}\n", c.name) +
			fmt.Sprintf("    secrets: [{name: HOOK, from: env, key: HOOK_%s}]\n    with: {%s}\n", c.name, c.with)
	}
	b.put(t, dag)
	w := b.worker(t, "w1", settings...)
	run := b.enqueue(t, "hooks", nil)
	b.await(t, run)
	tasks, err := b.Tasks(t.Context(), run)
	if err != nil || len(tasks) != len(calls) {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	for i, c := range calls {
		task := &tasks[i]
		if got := fmt.Sprintf("%s: %s", task.State, task.Reason); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
		log, wants := b.logOf(t, run, c.name, ""), "${secrets.HOOK}"
		if c.name == "part" {
			wants = url + "/echo/bot${secrets.HOOK}/send: 200 in "
		}
		if strings.HasPrefix(c.want, "failed: with.") {
			wants = ""
		}
		if !strings.Contains(log, wants) {
			t.Errorf("%s says %q, want %q", c.name, log, wants)
		}
		if body := string(task.Outputs); strings.Contains(c.secret, "/common/") && !strings.Contains(body, "localhost and 127.0.0.1 are everywhere, *** is not: ***") {
			t.Errorf("%s: the answer became %s", c.name, body)
		}
		basic := base64.StdEncoding.EncodeToString([]byte("bot:battery-staple"))
		encoded := base64.RawStdEncoding.EncodeToString([]byte("/encodes/battery-staple/"))
		shown := log + task.Reason + string(task.Outputs)
		for _, piece := range []string{strings.TrimPrefix(url, "http://"), "staple", "swall", "horse", "xn--", basic, encoded, fmt.Sprintf("%x", "battery-staple")} {
			if c.name != "part" && strings.Contains(shown+strings.ToLower(shown), piece) {
				t.Errorf("%s shows %s: %s", c.name, piece, shown)
			}
		}
	}
	close(strange)
	if len(strange) != 2 {
		t.Errorf("%d redirects were followed to the other host, want 2", len(strange))
	}
	for headers := range strange {
		for name, values := range headers {
			if strings.Contains(strings.Join(values, " "), "staple") {
				t.Errorf("the other host got %s", name)
			}
		}
	}
	if _, err := b.db.Conn(t).Exec(t.Context(), read(t, "testdata/secrets.sql")); err != nil {
		t.Errorf("what no row may hold: %v", err)
	}
	if said := w.said.String(); strings.Contains(said, "staple") || strings.Contains(said, "swallow") || strings.Contains(said, "horse") {
		t.Errorf("the worker's log holds a secret: %s", said)
	}
}
