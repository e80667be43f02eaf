package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	themeCookie = "oarlock_theme"
	themeLasts  = 365 * 24 * time.Hour
)

var themes = []string{"auto", "light", "dark"}

// themeOf returns the theme that the reader chose; auto follows the system.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && slices.Contains(themes, c.Value) {
		return c.Value
	}
	return themes[0]
}

// theme stores the theme that the reader chose in a cookie, and redirects back to the reader's page.
func (s *server) theme(w http.ResponseWriter, r *http.Request) error {
	to := r.FormValue("to")
	if !slices.Contains(themes, to) {
		return &refusal{status: http.StatusBadRequest, message: "This theme does not exist.", hint: "There are " + strings.Join(themes, ", ") + "."}
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // it holds no secret, and loopback has no TLS
		Name: themeCookie, Value: to, Path: s.options.Base + "/", MaxAge: int(themeLasts.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	s.redirect(w, r, safeBack(r.FormValue("back")))
	return nil
}

// safeBack returns back if it is a path on this server; else the path of the list of runs. A redirect to it cannot leave the
// site.
func safeBack(back string) string {
	const home = "/runs"
	u, err := url.Parse(back)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.User != nil, u.Opaque != "":
		return home
	case !strings.HasPrefix(back, "/"), strings.HasPrefix(back, "//"), strings.ContainsAny(back, "\\\r\n\t"), strings.Contains(u.Path, "//"),
		slices.Contains(strings.Split(u.Path, "/"), ".."):
		return home
	}
	return u.RequestURI()
}
