package metric

import (
	"fmt"
	"strings"
	"testing"
)

func TestSecretsAreMasked(t *testing.T) {
	for line, want := range map[string]string{
		"Authorization: Bearer eyJhbGci.x":              "Authorization: ***",
		"authorization=Basic dTpw==":                    "authorization=***",
		"Bearer eyJhbGci":                               "Bearer ***",
		"X-Api-Key: k-123":                              "X-Api-Key: ***",
		`{"password":"hunter2","n":1}`:                  `{"password":"***","n":1}`,
		"GET /?access_token=abc&x=1 HTTP":               "GET /?access_token=***&x=1 HTTP",
		"hits:1|x|#token:abc,env:prod":                  "hits:1|x|#token:***,env:prod",
		"client_secret: s3cr3t":                         "client_secret: ***",
		"m:1|q|#token:abc,password:def":                 "m:1|q|#token:***,password:***",
		"password=abc&api_key=def;pwd=gh":               "password=***&api_key=***;pwd=***",
		"Cookie: sid=abc; theme=x":                      "Cookie: ***",
		"apikey=k-123":                                  "apikey=***",
		"passwd: hunter2":                               "passwd: ***",
		"aws_secret_access_key=a/b+c=":                  "aws_secret_access_key=***",
		"private_key: abc":                              "private_key: ***",
		"SECRET_KEY=abc&accessKey=def":                  "SECRET_KEY=***&accessKey=***",
		"passphrase: abc":                               "passphrase: ***",
		"https://u:hunter2@host/":                       "https://u:***@host/",
		"secret:ab,cdef;gh&ij|c":                        "secret:***|c",
		`{"password":"a,b c'd","n":1}`:                  `{"password":"***","n":1}`,
		"a=password:x;b=1":                              "a=password:***;b=1",
		"pass: hunter2":                                 "pass: ***",
		"credentials=abc":                               "credentials=***",
		"a?token%3Dabc%26x%3D1":                         "a?token%3D***%26x%3D1",
		"Basic dTpwYXNz":                                "Basic ***",
		"AUTH hunter2":                                  "AUTH ***",
		"AUTH user hunter2":                             "AUTH ***",
		"AUTH PLAIN AGEAYg==":                           "AUTH PLAIN ***",
		"https://ghp_0123456789abcdef@h/":               "https://***@h/",
		"ssh://git@host/git":                            "ssh://git@host/git",
		"basic:1|c":                                     "basic:1|c",
		"auth:1|x":                                      "auth:1|x",
		"author:1|x":                                    "author:1|x",
		"passes:1|x":                                    "passes:1|x",
		"tokens:1|c|@7":                                 "tokens:1|c|@7",
		"secretary:1|g":                                 "secretary:1|g",
		"password":                                      "password",
		"'password' => 'hunter2'":                       "'password' => '***'",
		"token := abcd":                                 "token := ***",
		"Bearer%20eyJhbGci":                             "Bearer%20***",
		"token%20abcd":                                  "token%20***",
		"Authorization%3A%20Bearer%20abcd":              "Authorization%3A%20***",
		"client_secret%22%3A%22abcd":                    "client_secret%22%3A%22***",
		"<password>hunter2":                             "<password>***",
		"x:eyJhbGciOi.eyJzdWIi.c2ln|c":                  "x:***|c",
		"https://ghp_0123456789abcdef:x-oauth-basic@h/": "https://***:***@h/",
		"https://sk_live_0123456789:@h":                 "https://***:@h",
		"redis://:ab/cd==@host":                         "redis://:***@host",
		"mysql://root:p@ss@host/db":                     "mysql://root:***@host/db",
		"Basic%20dXNlcjpwYXNz":                          "Basic%20***",
		"authorization%3DBasic%20dXNlcjpw":              "authorization%3D***",
		`\\\"password\\\":\\\"hunter2`:                  `\\\"password\\\":\\\"***`,
		`password: [ "hunter2" ]`:                       `password: [ "***" ]`,
		`password=("hunter2","b")`:                      `password=("***","b")`,
		"http://10.0.0.1:8080/a":                        "http://10.0.0.1:8080/a",
		"x:eyJhbGciOiJub25lIn0.eyJzdWI":                 "x:***", // cut off
	} {
		if got := Mask(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		if got := Excerpt([]byte(line)); got != want {
			t.Errorf("excerpt of %q: %q, want %q", line, got, want)
		}
	}
	if got := MaskAbout(`value is "hunter2"; must be a number`, []byte("password:hunter2|c")); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	if got := MaskAbout(`"hunter2" is no number`, []byte("password=ab:hunter2|c")); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	// An excerpt is cut after it was masked: the end of a secret may be what tells that it is one.
	cut := []byte(strings.Repeat("x", 80) + " postgres://billing:" + strings.Repeat("horse", 20) + "@db.internal")
	if got := Excerpt(cut); strings.Contains(got, "horse") || len(got) > excerptLength+3 {
		t.Error(got)
	}
	// A message quotes the beginning of a long value, and escapes control characters.
	long := strings.Repeat("eyJhbGci.", 50)
	for line, quoted := range map[string]string{
		"authorization: Bearer " + long + "|c": " Bearer " + long,
		"token:" + long + "|c":                 long,
		"secret:\x01\"" + long + "|c":          "\x01\"" + long,
		"token:ab|g\npassword:ab" + long:       "ab" + long,
	} {
		message := fmt.Sprintf("%q is not a number", TruncateArgs([]any{quoted})...)
		if got := MaskAbout(message, []byte(line)); strings.Contains(got, "eyJ") || !strings.Contains(got, "not a number") {
			t.Errorf("%q: %s", line, got)
		}
	}
	if got := Mask(`"{\"token\":\"hunter2\"}" is not a line`); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	if got := Mask("token:ab password:abcdef"); strings.Contains(got, "cdef") {
		t.Error(got)
	}
	if got, want := MaskAbout(`rate is "1.5"`, []byte("token:1|c|@1.5")), `rate is "1.5"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
