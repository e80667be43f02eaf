package signin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"golang.org/x/crypto/bcrypt"
)

func TestProxy_IsBelievedAlone(t *testing.T) {
	t.Parallel()
	p := &Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, UserHeader: "X-Forwarded-User", GroupsHeader: "X-Forwarded-Groups"}
	ana := http.Header{"X-Forwarded-User": {" ana "}, "X-Forwarded-Groups": {"dev, ops,, more"}}
	for name, c := range map[string]struct {
		peer    string
		headers http.Header
		want    string
		err     error
	}{
		"proxy":            {"10.1.2.3:40000", ana, "ana [dev ops more]", nil},
		"proxy by IPv6":    {"[fd00::1]:1", ana, "ana [dev ops more]", nil},
		"mapped":           {"[::ffff:10.1.2.3]:1", ana, "ana [dev ops more]", nil},
		"stranger":         {"192.0.2.1:1", ana, "", ErrStranger},
		"stranger's proxy": {"192.0.2.1:1", http.Header{"X-Forwarded-User": {"ana"}, "X-Forwarded-For": {"10.0.0.1"}}, "", ErrStranger},
		"no address":       {"@", ana, "", ErrStranger},
		"nobody":           {"10.1.2.3:1", http.Header{}, "", ErrNobody},
		"empty":            {"10.1.2.3:1", http.Header{"X-Forwarded-User": {"  "}}, "", ErrNobody},
		"two":              {"10.1.2.3:1", http.Header{"X-Forwarded-User": {"ana", "eve"}}, "", ErrNobody},
		"no groups":        {"10.1.2.3:1", http.Header{"X-Forwarded-User": {"ana"}}, "ana []", nil},
		"groups twice":     {"10.1.2.3:1", http.Header{"X-Forwarded-User": {"ana"}, "X-Forwarded-Groups": {"ops", "dev"}}, "", ErrNobody},
		"underscores":      {"10.1.2.3:1", http.Header{"X_forwarded_user": {"eve"}}, "", ErrNobody},
		"groups so":        {"10.1.2.3:1", http.Header{"X-Forwarded-User": {"ana"}, "X_forwarded_groups": {"ops"}}, "ana []", nil},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr, r.Header = c.peer, c.headers
		person, err := p.Person(r)
		if got := fmt.Sprint(person.Name, " ", person.Groups); !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.want, c.err)
		}
	}
}

func ExampleRoles_Of() {
	roles := Roles{Reader: []string{"*"}, Submitter: []string{"group:dev"}, Operator: []string{"ana", "group:ops"}}
	fmt.Println(roles.Of(Person{Name: "ana"}))
	fmt.Println(roles.Of(Person{Name: "eve", Groups: []string{"dev"}}))
	fmt.Println(roles.Of(Person{Name: "group:ops"}))
	// Output:
	// operator
	// submitter
	// reader
}

func ExampleProxy_Person() {
	proxy := &Proxy{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, UserHeader: "X-Forwarded-User", GroupsHeader: "X-Forwarded-Groups"}
	request := &http.Request{RemoteAddr: "10.0.0.1:40000", Header: http.Header{"X-Forwarded-User": {"ana"}, "X-Forwarded-Groups": {"dev, ops"}}}
	fmt.Println(proxy.Person(request))
	request.RemoteAddr = "192.0.2.1:40000"
	_, err := proxy.Person(request)
	fmt.Println(err)
	// Output:
	// {ana [dev ops]} <nil>
	// the request does not come from a trusted proxy
}

func TestRoles_GiveNobodyNothing(t *testing.T) {
	t.Parallel()
	all := Roles{Reader: []string{"*"}, Operator: []string{"", "group:"}}
	if role := all.Of(Person{}); role != "" {
		t.Errorf("who has not said a name is %s", role)
	}
	if role := all.Of(Person{Name: "*", Groups: []string{"*"}}); role != Reader {
		t.Errorf("a person called * is %s", role)
	}
}

func hashOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

func writePasswords(t *testing.T, file, text string, at time.Time) {
	t.Helper()
	err := os.WriteFile(file, []byte(text), 0o600)
	if err == nil {
		err = os.Chtimes(file, at, at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPasswords_AreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	file, day := filepath.Join(t.TempDir(), "htpasswd"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	writePasswords(t, file, "# people\n\nana:"+hashOf(t, "right")+"\n", day)
	p, err := ReadPasswords(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, password string
		want           bool
	}{{"ana", "right", true}, {"ana", "wrong", false}, {"ana", "", false}, {"eve", "right", false}, {"eve", "nobody has this password", false}, {"", "", false}} {
		if got := p.Check(c.name, c.password); got != c.want {
			t.Errorf("%s %s: %t", c.name, c.password, got)
		}
	}
	if changed, err := p.Changed(); changed || err != nil {
		t.Errorf("it is read again: %t, %v", changed, err)
	}
	writePasswords(t, file, "eve:"+hashOf(t, "new")+"\n", day.Add(time.Hour))
	if changed, err := p.Changed(); !changed || err != nil || p.Check("ana", "right") || !p.Check("eve", "new") {
		t.Errorf("changed: %t, %v", changed, err)
	}
	writePasswords(t, file, "nonsense\n", day.Add(2*time.Hour))
	if changed, err := p.Changed(); changed || err == nil || !p.Check("eve", "new") {
		t.Errorf("a file that cannot be read takes away what was there: %t, %v", changed, err)
	}
}

func TestPasswords_TakeBcryptOnly(t *testing.T) {
	t.Parallel()
	good := "ana:" + hashOf(t, "x")
	for name, text := range map[string]string{
		"md5": "eve:$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00", "sha1": "eve:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=", "crypt": "eve:bGTDEpCSsrdSg",
		"cut short": "eve:" + hashOf(t, "x")[:59], "more behind": "eve:" + hashOf(t, "x") + ":secret", "other letters": "eve:" + strings.Replace(hashOf(t, "x"), "$04$", "$04$!", 1)[:60],
		"no such cost": "eve:" + strings.Replace(hashOf(t, "x"), "$04$", "$99$", 1), "plain": "eve:secret", "no name": ":" + hashOf(t, "x"), "no hash": "eve", "twice": good,
	} {
		file := filepath.Join(t.TempDir(), "htpasswd")
		writePasswords(t, file, good+"\n"+text+"\n", time.Now())
		if _, err := ReadPasswords(file); err == nil || !strings.Contains(err.Error(), file+":2: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPasswords_TakeHtpasswdsHashes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "htpasswd")
	hash := strings.Replace(hashOf(t, "right"), "$2a$", "$2y$", 1) // as htpasswd -B writes it
	writePasswords(t, file, "ana:"+hash+"\r\n", time.Now())
	if p, err := ReadPasswords(file); err != nil || !p.Check("ana", "right") || p.Check("ana", "wrong") {
		t.Errorf("%v", err)
	}
}

func TestPasswords_AreSlowForUnknownNames(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "htpasswd")
	dear := strings.Replace(hashOf(t, "x"), "$04$", "$31$", 1) // checking it takes a day, which reading the file must not need
	writePasswords(t, file, "ana:"+hashOf(t, "x")+"\neve:"+dear+"\nbob:"+hashOf(t, "x")+"\n", time.Now())
	p, err := ReadPasswords(file)
	if err != nil {
		t.Fatal(err)
	}
	if cost, err := bcrypt.Cost(p.decoy); err != nil || cost != 31 {
		t.Errorf("an unknown name costs %d, %v", cost, err)
	}
	writePasswords(t, file, "ana:"+hashOf(t, "x")+"\n", time.Now().Add(time.Hour))
	if _, err := p.Changed(); err != nil {
		t.Fatal(err)
	}
	if err := bcrypt.CompareHashAndPassword(p.decoy, []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("what stands in for an unknown name is not compared to the end: %v", err)
	}
}

// allows reports whether the limiter lets a wrong attempt through.
func allows(l *Limiter, keys ...string) bool {
	_, ok := l.Allow(keys...)
	return ok
}

func TestLimiter_TakesBackWhatWasRight(t *testing.T) {
	t.Parallel()
	l := NewLimiter()
	l.now = func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
	for i := range 20 {
		undo, ok := l.Allow("address a", "name ana")
		if !ok {
			t.Fatalf("attempt %d is refused", i)
		}
		undo()
	}
	for range attemptsPerMinute {
		allows(l, "address a", "name ana")
	}
	if allows(l, "address a", "name bob") || !allows(l, "address b", "name bob") {
		t.Error("wrong ones are not counted")
	}
}

func TestLimiter_CountsByKey(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := NewLimiter()
	l.now = func() time.Time { return now }
	for i := range 5 {
		if !allows(l, "address a", fmt.Sprint("name ", i)) {
			t.Errorf("attempt %d is refused", i)
		}
	}
	if allows(l, "address a", "name of nobody yet") || !allows(l, "address b", "name 0") {
		t.Error("it does not count by address")
	}
	if !l.IsSpent("address a") || l.IsSpent("address b") || l.IsSpent("address of nobody yet") {
		t.Error("it does not know which are spent")
	}
	if now = now.Add(12 * time.Second); !allows(l, "address a") || allows(l, "address a") {
		t.Error("a twelfth second does not give one attempt back")
	}
	for i := range 3 * limitedKeysMax {
		allows(l, fmt.Sprint("address ", i))
	}
	if len(l.keys) > limitedKeysMax {
		t.Errorf("%d keys", len(l.keys))
	}
}

func TestLimiter_OutlastsFloodsOfNames(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := NewLimiter()
	l.now = func() time.Time { return now }
	for range attemptsPerMinute {
		allows(l, "address a", "name ana")
	}
	for i := range 3 * limitedKeysMax {
		if allows(l, "address a", fmt.Sprint("name ", i)) {
			t.Fatalf("attempt %d with another name is allowed", i)
		}
	}
	if allows(l, "address b", "name ana") {
		t.Error("other names make room for more attempts at one")
	}
	now = now.Add(time.Minute)
	if !allows(l, "address a", "name ana") {
		t.Error("a minute later it is still refused")
	}
}

func TestLimiter_KeepsNoNames(t *testing.T) {
	t.Parallel()
	l := NewLimiter()
	name := strings.Repeat("x", 1<<20) // a header has room for it
	kept := weak.Make(unsafe.StringData(name))
	allows(l, name)
	runtime.GC()
	if kept.Value() != nil {
		t.Error("a long name takes its length of memory")
	}
	runtime.KeepAlive(l)
}
