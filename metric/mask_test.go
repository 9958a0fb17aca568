package metric

import (
	"strings"
	"testing"
)

func TestSecretsAreMasked(t *testing.T) {
	for line, want := range map[string]string{
		"Authorization: Bearer eyJhbGci.x": "Authorization: ***",
		"authorization=Basic dTpw==":       "authorization=***",
		"Bearer eyJhbGci":                  "Bearer ***",
		"X-Api-Key: k-123":                 "X-Api-Key: ***",
		`{"password":"hunter2","n":1}`:     `{"password":"***","n":1}`,
		"GET /?access_token=abc&x=1 HTTP":  "GET /?access_token=***&x=1 HTTP",
		"hits:1|x|#token:abc,env:prod":     "hits:1|x|#token:***,env:prod",
		"client_secret: s3cr3t":            "client_secret: ***",
		"tokens:1|c|@7":                    "tokens:1|c|@7",
		"secretary:1|g":                    "secretary:1|g",
		"password":                         "password",
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
	if got, want := MaskAbout(`rate is "1.5"`, []byte("token:1|c|@1.5")), `rate is "1.5"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
