package pglink

import (
	"strings"
	"testing"
)

func TestRedact_HidesCredentialsAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"postgres://ana:s3cret@db:5432/app?sslmode=require":           "postgres://ana:xxxxx@db:5432/app?sslmode=require",
		"postgres://ana:s3@cr/et@db/app?x=a@b":                        "postgres://ana:xxxxx@db/app?x=a@b",
		"postgres://ana:s3?cr#et@db/app":                              "postgres://ana:xxxxx@db/app",
		"postgres://ana@db/app":                                       "postgres://ana@db/app",
		"postgres://db:5432/app?email=a@b":                            "postgres://db:5432/app?email=a@b",
		"postgres://db/app?user=ana&password=s3cret&sslpassword=s3":   "postgres://db/app?user=ana&password=xxxxx&sslpassword=xxxxx",
		"postgres://db/app?pass%77ord=s3cret":                         "postgres://db/app?pass%77ord=xxxxx",
		"host=db user=ana password=s3,c&r;et dbname=app":              "host=db user=ana password=xxxxx dbname=app",
		`host=db password = 's3 \' cret' dbname=app`:                  "host=db password = xxxxx dbname=app",
		"PGPASSWORD=s3cret psql":                                      "PGPASSWORD=xxxxx psql",
		`{"password": "s3 cret", "user": "ana"}`:                      `{"password": xxxxx, "user": "ana"}`,
		"ALTER ROLE ana PASSWORD 's3''cret' LOGIN":                    "ALTER ROLE ana PASSWORD xxxxx LOGIN",
		"dial \"https://ana:s3cret@proxy\": refused":                  "dial \"https://ana:xxxxx@proxy\": refused",
		"two: postgres://a:s3cret@x/1 and mysql://b:s3cret@y/2":       "two: postgres://a:xxxxx@x/1 and mysql://b:xxxxx@y/2",
		"FATAL: password authentication failed for user \"ana\"":      "FATAL: password authentication failed for user \"ana\"",
		"postgres://a:s3cret@h1:5432,h2:5433/db?options=-c%20a%3Db@c": "postgres://a:xxxxx@h1:5432,h2:5433/db?options=-c%20a%3Db@c",
		"":                    "",
		"nothing secret here": "nothing secret here",
	}
	for in, want := range cases {
		if got := Redact(in); got != want {
			t.Errorf("Redact(%q)\n got %q\nwant %q", in, got, want)
		}
	}
}

func TestRedact_IsStable(t *testing.T) {
	t.Parallel()
	once := Redact("postgres://ana:s3cret@db/app?password=s3cret password=s3cret")
	if twice := Redact(once); twice != once {
		t.Errorf("redacting twice changes %q to %q", once, twice)
	}
}

func TestParse_ErrorsNeverShowTheSecret(t *testing.T) {
	t.Parallel()
	const secret = "s3cretpw"
	for _, url := range []string{
		"postgres://ana:" + secret + "@db:port/app",
		"postgres://ana:x@" + secret + "@db:99999999/app",
		"postgres://ana:x/" + secret + "@db/app?sslmode=wrong",
		"postgres://ana:" + secret + "%zz@db/app",
		"postgres://ana:x?" + secret + "@db/app",
		"postgres://ana@db/app?password=" + secret + "&connect_timeout=abc",
		"postgres://ana@db/app?pass%77ord=" + secret + "&connect_timeout=abc",
		"postgres://[ana:" + secret + "@db/app",
		"host=db password='" + secret,
		"host=db password=" + secret + " port=x",
		"host=db password=" + secret + "\\",
		"password=a " + secret,
		"postgres//ana:" + secret + "@db/app",
		"psotgres://ana:" + secret + "@db/app",
		secret,
		"postgres://ana:" + secret + "@db/app?default_query_exec_mode=simple_protocol",
		"postgres://ana:" + secret + "@db/app?default_query_exec_mode=" + secret,
		"postgres://ana:" + secret + "@db/app?pool_max_conns=" + secret,
		"postgres://ana:" + secret + "@db/app?sslrootcert=/none&sslmode=verify-full",
		"postgres://ana:\x00" + secret + "@db/app",
	} {
		_, err := Parse(url, Options{})
		if err == nil {
			continue // odd, but a valid string
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error for %q shows the secret: %v", url, err)
		}
		if !strings.HasPrefix(err.Error(), "database URL: ") {
			t.Errorf("the error for %q does not say what is wrong: %v", url, err)
		}
	}
}
