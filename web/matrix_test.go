package web

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/signin"
)

var (
	otherText  = regexp.MustCompile(`formaction="([^"]*)"`)
	formText   = regexp.MustCompile(`(?s)<form[^>]*method="post"[^>]*action="([^"]*)"[^>]*>(.*?)</form>`)
	hiddenText = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
	anchorText = regexp.MustCompile(`<a [^>]*href="(/[^"#]*)`)
)

// offered is a form of a page.
type offered struct {
	page, action string
	hidden       []string // names and values
}

// crawl follows all links from the list of runs, and returns the forms that pages offer, by their actions.
func (b *siteBundle) crawl(t *testing.T) map[string]offered {
	t.Helper()
	all, seen := map[string]offered{}, map[string]bool{}
	for next := []string{"/runs", "/dags", "/schedules", "/approvals"}; len(next) > 0; next = next[1:] {
		path := next[0]
		if seen[path] || len(seen) > 400 || strings.HasPrefix(path, "/theme") || strings.HasPrefix(path, "/asset") {
			continue
		}
		seen[path] = true
		w := b.send(t, http.MethodGet, path)
		if w.Code == http.StatusForbidden && path != "/dags" { // the crawl starts there, whether or not a page links to it
			t.Errorf("a link leads to %s, which is refused", path)
		}
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			continue
		}
		for _, m := range anchorText.FindAllStringSubmatch(w.Body.String(), -1) {
			next = append(next, html.UnescapeString(m[1]))
		}
		for _, m := range formText.FindAllStringSubmatch(w.Body.String(), -1) {
			f := offered{page: path, action: html.UnescapeString(m[1])}
			for _, h := range hiddenText.FindAllStringSubmatch(m[2], -1) {
				f.hidden = append(f.hidden, html.UnescapeString(h[1]), html.UnescapeString(h[2]))
			}
			all[pathOnly(f.action)] = f
			for _, other := range otherText.FindAllStringSubmatch(m[2], -1) {
				f.action = html.UnescapeString(other[1])
				all[pathOnly(f.action)] = f
			}
		}
	}
	return all
}

func pathOnly(address string) string {
	path, _, _ := strings.Cut(address, "?")
	return path
}

// world has something for each page to show: runs of two submitters, an approval that names one login or none, a worker, a
// schedule.
func (b *siteBundle) world(t *testing.T, approver string, submitters ...*queue.Store) {
	t.Helper()
	var names []string
	with := "{prompt: sure}"
	if approver != "" {
		names, with = []string{approver}, fmt.Sprintf("{prompt: sure, approvers: [%q]}", approver)
	}
	source := fmt.Sprintf("name: pay\nallow: {schedules: true}\nsteps: [{id: ok, action: approval, with: %s}]\n", with)
	spec, err := dagspec.Parse("pay.yaml", []byte(source))
	if err == nil {
		_, err = b.store.PutDAG(t.Context(), spec, source, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range append(submitters, b.store) {
		for _, dag := range []string{"report", "pay"} {
			if _, err := store.Enqueue(t.Context(), queue.Request{DAG: dag}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := store.PutSchedule(t.Context(), "pay", dagspec.Schedule{Name: "own", Cron: "@hourly"}); err != nil {
			t.Fatal(err)
		}
	}
	b.atWork(t, "w1", []string{"default"})
	b.exec(t, `INSERT INTO oarlock.tasks (run_id, step, item, alt, state, generation, attempt, epoch, seq)
		SELECT r.run_id, 0, '', 0, 'waiting', 1, 1, 1, 1 FROM oarlock.runs r JOIN oarlock.dags d USING (dag_id) WHERE d.name = 'pay'`)
	b.exec(t, `INSERT INTO oarlock.approvals_open (run_id, step, item, alt, prompt, inputs, approvers, since)
		SELECT r.run_id, 0, '', 0, 'sure', '[]', $1, now() FROM oarlock.runs r JOIN oarlock.dags d USING (dag_id) WHERE d.name = 'pay'`, names)
}

// wantAllowed posts each form that pages offer, and requires that none is refused for missing rights.
func (b *siteBundle) wantAllowed(t *testing.T, role string, forms map[string]offered) {
	t.Helper()
	delete(forms, "/logout")
	actions := slices.Sorted(maps.Keys(forms))
	for _, action := range slices.Backward(actions) { // trigger and pause before drop, mark before cancel
		f := forms[action]
		w := b.send(t, http.MethodPost, f.action, f.hidden...)
		if w.Code == http.StatusForbidden || w.Code == http.StatusNotFound || w.Code >= http.StatusInternalServerError {
			t.Errorf("%s: %s offers %s, which is answered with %d: %s", role, f.page, f.action, w.Code, plainText(w.Body.String()))
		}
		if to := w.Header().Get("Location"); w.Code == http.StatusSeeOther {
			if led := b.send(t, http.MethodGet, to); led.Code != http.StatusOK {
				t.Errorf("%s: %s leads to %s, which is answered with %d", role, f.action, to, led.Code)
			}
		}
	}
}

// For each role and each way to sign in, pages offer exactly the actions that the database allows.
func TestSite_OffersWhatTheDatabaseAllows(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"postgres", "proxy"} {
		for role, least := range map[string][]string{
			"oarlock_read": nil, "oarlock_submit": {"/runs/1/cancel", "/dags/report/enqueue"}, "approver": {"/runs/4/approve"},
			"oarlock_approve": {"/runs/2/approve", "/runs/4/approve", "/runs/4/reject"},
			"oarlock_admin":   {"/runs/1/cancel", "/queues/default/pause", "/dags/pay/enqueue", "/dags/report/pause", "/runs/4/mark"},
		} {
			t.Run(mode+" "+role, func(t *testing.T) {
				t.Parallel()
				matrix(t, mode, role, least)
			})
		}
	}
}

func matrix(t *testing.T, mode, role string, least []string) {
	t.Helper()
	var name, password string
	var own *queue.Store
	b := setupSite(t, func(b *testBundle, o *SiteOptions) {
		group := role
		if role == "approver" {
			group = "oarlock_submit"
		}
		address := b.db.User(t, "me", group)
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		name = u.User.Username()
		password, _ = u.User.Password()
		if own = openStore(t, address); mode == "postgres" {
			o.Connect = connectTo(b)
			return
		}
		o.Proxy = &signin.Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, UserHeader: "X-Forwarded-User"}
		o.Roles, o.Logins = signin.Roles{Operator: []string{"ana"}}, map[signin.Role]Login{signin.Operator: {Store: own}}
	})
	b.headers = http.Header{"X-Forwarded-User": {"ana"}}
	approver, submitters := "nobody_else", []*queue.Store{}
	if role == "oarlock_submit" {
		submitters = append(submitters, own)
	}
	switch role {
	case "approver":
		approver = name
	case "oarlock_approve":
		approver = "" // any approver may decide then
	}
	b.world(t, approver, append(submitters, openStore(t, b.db.User(t, "other", "oarlock_submit")))...)
	if mode == "postgres" {
		wantAnswer(t, b.send(t, http.MethodPost, "/login", "name", name, "password", password), http.StatusSeeOther, "/runs")
	}
	forms := b.crawl(t)
	for _, action := range least {
		if _, ok := forms[action]; !ok {
			t.Errorf("%s is not offered, of %v", action, slices.Sorted(maps.Keys(forms)))
		}
	}
	if role == "oarlock_read" && len(forms) > 1 {
		t.Errorf("a reader is offered %v", slices.Sorted(maps.Keys(forms)))
	}
	for action := range forms {
		if verb := path.Base(action); role == "oarlock_approve" && verb != "approve" && verb != "reject" && verb != "logout" {
			t.Errorf("an approver is offered %s on %s", action, forms[action].page)
		}
	}
	b.wantAllowed(t, role, forms)
}
