package metric

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
		// Another word and signs between name and value.
		"secret key: abc":                 "secret key: ***",
		"Secret Access Key: wJalr":        "Secret Access Key: ***",
		"aws secret access key = wJalr":   "aws secret access key = ***",
		`password = """hunter2"""`:        `password = """***"""`,
		"password is hunter2":             "password is ***",
		`password == "hunter2"`:           `password == "***"`,
		"password -> hunter2":             "password -> ***",
		"Password - hunter2":              "Password - ***",
		"Bearer token: abc":               "Bearer *** ***",
		"Bearer+opaque":                   "Bearer+***",
		`password=" hunter2 x"`:           `password="***"`,
		`{"password":"","user":"bob"}`:    `{"password":"","user":"bob"}`,
		"the password":                    "the password",
		"user[password]=hunter2&commit=1": "user[password]=***&commit=1",
		"user%5Bpassword%5D=hunter2&a=1":  "user%5Bpassword%5D=***&a=1",
		`os.environ["DB_PASSWORD"]="a b"`: `os.environ["DB_PASSWORD"]="***"`,
		// Pairs, and names that are values.
		`{"name":"DB_PASSWORD","value":"hunter2"}`:                                     `{"name":"DB_PASSWORD","value":"***"}`,
		`{"name":"X-Api-Key","value":"k-123"}`:                                         `{"name":"X-Api-Key","value":"***"}`,
		`{"name":"Cookie","value":"sid=abc"}`:                                          `{"name":"Cookie","value":***`,
		"{name: DB_PASSWORD, value: hunter2}":                                          "{name: DB_PASSWORD, value: ***",
		`<param name="password" value="hunter2"/>`:                                     `<param name="password" value="***"/>`,
		`('X-Api-Key', 'k-123')`:                                                       `('X-Api-Key', '***')`,
		`"secret":{"value":"abc"}`:                                                     `"secret":{"value":"***"}`,
		`{"grant_type":"password","password":"hunter2"}`:                               `{"grant_type":"***","***":"***"}`,
		`{"key":"api_token","value":{"stringValue":"hunter2"}}`:                        `{"key":"api_token","value":{"stringValue":"***"}}`,
		`{"key":"pwd", "value": {"bytes_value": "hunter2"}}`:                           `{"key":"pwd", "value": {"bytes_value": "***"}}`,
		`"key":"tokens","value":{"arrayValue":{"values":[{"stringValue":"hunter2"}]}}`: `"key":"tokens","value":{"arrayValue":{"values":[{"stringValue":"***"}]}}`,
		`{\"key\":\"api_token\",\"value\":{\"stringValue\":\"hunter2\"}}`:              `{\"key\":\"api_token\",\"value\":{\"stringValue\":\"***\"}}`,
		`credentials:{"user":"bob","password":"hunter2"}`:                              `credentials:{"***":"bob","password":"***"}`,
		// Quotes within quotes.
		`""password"":""hunter2"",""n"":1`:                   `""password"":""***"",""n"":1`,
		`{"password":"hun\"ter2secretrest"}`:                 `{"password":"***"}`,
		`{\"password\":\"hun\\\"ter2\",\"n\":1}`:             `{\"password\":\"***\",\"n\":1}`,
		`password='it''s me' x`:                              `password='***' x`,
		`"SecretString":"{\"user\":\"u\",\"pin\":\"1234\"}"`: `"SecretString":"***"`,
		`password="hunter2`:                                  `password="***`,
		// Names.
		"SECRET_KEY_BASE=abc":               "SECRET_KEY_BASE=***",
		"DB_PASSWORD_PROD=abc":              "DB_PASSWORD_PROD=***",
		"passwordConfirmation=abc":          "passwordConfirmation=***",
		"password2: abc":                    "password2: ***",
		"api key: abc":                      "api key: ***",
		"private key: abc":                  "private key: ***",
		`"auth":"dTpw"`:                     `"auth":"***"`,
		"_auth=dTpw":                        "_auth=***",
		"REDISCLI_AUTH=abc":                 "REDISCLI_AUTH=***",
		"X-Auth-Key: abc":                   "X-Auth-Key: ***",
		"DD-APPLICATION-KEY: abc":           "DD-APPLICATION-KEY: ***",
		"X-License-Key: abc":                "X-License-Key: ***",
		"AccountKey=abc==;x=1":              "AccountKey=***;x=1",
		"x-functions-key: abc":              "x-functions-key: ***",
		"Ocp-Apim-Subscription-Key: abc":    "Ocp-Apim-Subscription-Key: ***",
		"https://h/?a=1&sig=ab%2Fc":         "https://h/?a=1&sig=***",
		"https://h/?X-Amz-Signature=ab&y=1": "https://h/?X-Amz-Signature=***&y=1",
		"https://h/?key=AIzaabc&x=1":        "https://h/?key=***&x=1",
		"DB_PASSWORDS=x1":                   "DB_PASSWORDS=***",
		"passwords: x1":                     "passwords: ***",
		"secrets=abc":                       "secrets=***",
		"API_KEYS=k-1":                      "API_KEYS=***",
		"API_KEYS_PROD=k-1":                 "API_KEYS_PROD=***",
		`{"tokens":["abc"]}`:                `{"tokens":["***"]}`,
		`{"apiKeyValue":"k-1"}`:             `{"apiKeyValue":"***"}`,
		"credentialsJson=abc":               "credentialsJson=***",
		"bearerAuth=abc":                    "bearerAuth=***",
		"passphrases=x1":                    "passphrases=***",
		"AccessKeyId: abc":                  "AccessKeyId: ***",
		"tokenID=abc":                       "tokenID=***",
		"credentials abc":                   "credentials ***",
		// URLs and data sources.
		"smtp://user@example.com:hunter2@mail:587":          "smtp://user@example.com:***@mail:587",
		"postgres://app@srv:hunter2@srv.postgres.azure.com": "postgres://app@srv:***@srv.postgres.azure.com",
		`postgres://u:p'w2"hunter@db`:                       "postgres://u:***@db",
		"amqp://u:hun|ter2@mq":                              "amqp://u:***@mq",
		"http://h:80/p:1|c|@0.1":                            "http://h:80/p:1|c|@0.1",
		"root:hunter2@tcp(db:3306)/x":                       "root:***@tcp(db:3306)/x",
		"dsn=root:hunter2@/db":                              "dsn=root:***@/db",
		// A line of a key in PEM, without what is around it.
		"MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC7VJTUt9Us8cKj":               "***",
		"b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW+/AQ==\r": "***",
		"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08":               "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"HttpServerRequestsInFlightOfAllConnectionsP99":                                  "HttpServerRequestsInFlightOfAllConnectionsP99",
		"MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEA:1|x":                               "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEA:1|x",
		// Ordinary metrics.
		"tokens:1|c":                     "tokens:1|c",
		"api_token_requests_total:1|c":   "api_token_requests_total:1|c",
		"secret-santa:1|x":               "secret-santa:1|x",
		"apiKeyUses:1|c":                 "apiKeyUses:1|c",
		"SECRETARY=x1":                   "SECRETARY=x1",
		"passRate=x1":                    "passRate=x1",
		"tokens are counted":             "tokens are counted",
		"requests.key:1|c|#authority:eu": "requests.key:1|c|#authority:eu",
		"tokens_used:5|x":                "tokens_used:5|x",
		"token_count:5|x":                "token_count:5|x",
		"password_resets:7.5|c":          "password_resets:7.5|c",
		"http_auth:1|c":                  "http_auth:1|c",
		"authorized:1|x":                 "authorized:1|x",
		"monkey:1|x":                     "monkey:1|x",
		"keyspace:1|x":                   "keyspace:1|x",
		"routing-key:abc":                "routing-key:abc",
		"hits:1|x|#token,env:prod":       "hits:1|x|#token,env:prod",
		"token_count is a counter":       "token_count is a counter",
	} {
		if got := Mask(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		if got := Excerpt([]byte(line)); got != want {
			t.Errorf("excerpt of %q: %q, want %q", line, got, want)
		}
	}
	if got := MaskAbout(`value is "hunter2"; must be a number`, []byte("password:hunter2|c"), 0); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	if got := MaskAbout(`"hunter2" is no number`, []byte("password=ab:hunter2|c"), 0); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	for _, secret := range []string{`hun"ter2`, `hun\ter2`, "hun\xffter2", "hunter2\x01"} { // a message escapes it
		got := MaskAbout(fmt.Sprintf("%q is no number", secret), []byte("password:"+secret+"|c"), 0)
		if want := `"***" is no number`; got != want {
			t.Errorf("%q: %s, want %s", secret, got, want)
		}
		if got := MaskAbout(fmt.Sprintf("%q is no number", secret[3:]), []byte("password:"+secret+"|c"), 0); got != `"***" is no number` {
			t.Errorf("the end of %q: %s", secret, got)
		}
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
		if got := MaskAbout(message, []byte(line), 0); strings.Contains(got, "eyJ") || !strings.Contains(got, "not a number") {
			t.Errorf("%q: %s", line, got)
		}
	}
	if got := Mask(`"{\"token\":\"hunter2\"}" is not a line`); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	if got := Mask("token:ab password:abcdef"); strings.Contains(got, "cdef") {
		t.Error(got)
	}
	if got, want := MaskAbout(`rate is "1.5"`, []byte("token:1|c|@1.5"), 0), `rate is "1.5"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// hostileLines make work of masking: many names, values within values, words, and periods.
func hostileLines(size int) map[string]string {
	all := map[string]string{"rising backslashes": risingBackslashes(size)}
	for _, part := range []string{
		"token:", "token ", "token+", "token:x,", `token="`, "token:'password:\"pass:`", `"token",`, "cookie:", "token=\"\"\"",
		"://a:b@", "a:b@/", "eyJa.b.", "secret key value ", "token=,,,,", "token- ", `pwd=\"a\\"`, `pwd="pwd='`,
	} {
		all[part] = strings.Repeat(part, size/len(part))
	}
	for _, part := range []string{`pwd="""`, `pwd="a`, "pwd=\\'", "a ", "abcd ", "'\"", "aaaa"} {
		all["in quotes: "+part] = "pwd=`" + strings.Repeat(part, size/len(part))
	}
	words := []byte("pwd='")
	for i := 0; len(words) < size; i++ {
		words = append(words, byte(i), byte(i>>8), byte(i*7), byte(i*13), ' ')
	}
	all["in quotes: all bytes"] = string(words)
	return all
}

// risingBackslashes is a line with values in quotes, of which each is within all those before it, and a tail of words.
func risingBackslashes(size int) string {
	var line strings.Builder
	line.WriteString("17 ")
	for slashes := range 30 * size / 4096 {
		for _, quote := range []string{`"`, "'", "`"} {
			opening := "pwd=" + strings.Repeat(`\`, slashes) + strings.Repeat(quote, 2*(40-slashes%40)+1)
			if line.Len()+len(opening) < size/2 {
				line.WriteString(opening)
			}
		}
	}
	for line.Len() < size {
		line.WriteString(" a")
	}
	return line.String()
}

// However many names a line has, and however its values are within each other, the bytes that are searched and the words
// that are compared are a few times its length.
func TestMaskingIsLinear(t *testing.T) {
	for name, line := range hostileLines(16 << 10) {
		searched, whole, inWords := 0, 0, 0
		for _, s := range namedSecrets(line) {
			searched += s.end - s.begin
		}
		spans := secretsOf(line)
		for i, s := range spans {
			whole += s.end - s.begin
			if i > 0 && s.begin <= spans[i-1].end {
				t.Fatalf("%q: secrets overlap", name)
			}
		}
		for _, word := range wordsOf(line, spans) {
			inWords += len(word)
		}
		if searched > (mostAgain+3)*len(line) || whole > len(line) || inWords > 2*len(line) {
			t.Errorf("%q: %d bytes were searched, of secrets %d, of words %d, in a line of %d", name, searched, whole, inWords, len(line))
		}
	}
}

// The words of secrets, and what replaces them, take little memory. Expressions have pools of their own.
func TestMemoryOfMasking(t *testing.T) {
	bytesOf := func(mask func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mask()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, line := range hostileLines(mostMasked + 64) {
		line = line[:mostMasked]
		spans := secretsOf(line)
		if taken := bytesOf(func() { replaceAll(line, wordsOf(line, spans)) }); taken > 2<<20 {
			t.Errorf("%q: %d bytes of memory", name, taken)
		}
	}
}

// A flood of lines that may have secrets is not searched for them: they are masked as a whole, and others are not.
func TestAFloodIsNotSearched(t *testing.T) {
	const secret = "b:1|c|#token:hunter2"
	synctest.Test(t, func(t *testing.T) {
		about := func() string { return MaskAbout(`the value is "hunter2", not "1"`, []byte(secret), 0) }
		if got := Mask(secret) + about(); got != `b:1|c|#token:***`+`the value is "***", not "1"` {
			t.Error(got)
		}
		long, whole := strings.Repeat(secret+" ", mostMasked)[:mostMasked], 0
		for range 100 {
			if Mask(long) == masked {
				whole++
			}
		}
		if searched := (100 - whole) * len(long); searched == 0 || searched > maxSearched {
			t.Errorf("%d bytes are searched in a second, want at most %d", searched, maxSearched)
		}
		if got := Mask(secret) + about(); got != masked+`the value is "***", not "***"` {
			t.Error(got)
		}
		if got := Mask("hits:1|x") + MaskAbout(`"x" is no type`, []byte("hits:1|x"), 0); got != "hits:1|x"+`"x" is no type` {
			t.Error(got)
		}
		time.Sleep(time.Second)
		if got := Mask(secret) + about(); got != `b:1|c|#token:***`+`the value is "***", not "1"` {
			t.Error(got)
		}
	})
}

// Nor is a flood of other lines looked at for what may be secrets, which takes no memory.
func TestAFloodIsNotLookedAt(t *testing.T) {
	const secret = "b:1|c|#token:hunter2"
	synctest.Test(t, func(t *testing.T) {
		long, whole := strings.Repeat("\xff", mostMasked), 0
		for range 2000 {
			if Mask(long) == masked {
				whole++
			}
		}
		if seen := (2000 - whole) * len(long); seen == 0 || seen > maxLooked {
			t.Errorf("%d bytes are looked at in a second, want at most %d", seen, maxLooked)
		}
		if got := Mask("") + Mask(secret) + MaskAbout(`"x" is no type`, []byte("hits:1|x"), 0); got != masked+masked {
			t.Error(got)
		}
		time.Sleep(time.Second)
		if got := Mask(long) + Mask(secret); got != long+"b:1|c|#token:***" {
			t.Error(got)
		}
		time.Sleep(time.Second)
		if n := testing.AllocsPerRun(100, func() { mayHaveSecrets(long) }); n != 0 {
			t.Errorf("a look takes memory %v times", n)
		}
	})
}

// Every mark of a secret is seen, in any case and at any end of a text, and no beginning of one is.
func TestMarksAreSeen(t *testing.T) {
	for i, marks := range append([][]string{nameMarks}, marksOfForms()...) {
		for _, mark := range marks {
			for _, text := range []string{"= " + mark, strings.ToUpper(mark) + " =", "xx" + mark + ",x"} {
				if marksOf(text)>>i&1 == 0 {
					t.Errorf("%q is not seen in %q", mark, text)
				}
			}
			if text := "= " + mark[:len(mark)-1]; marksOf(text)>>i&1 != 0 {
				t.Errorf("%q is seen in %q", mark, text)
			}
		}
	}
}

func marksOfForms() (all [][]string) {
	for _, f := range forms {
		all = append(all, f.marks)
	}
	return all
}

func BenchmarkLookForMarks(b *testing.B) {
	for name, part := range map[string]string{
		"no UTF-8": "\xff", "ordinary": "http_requests_total.eu-west-1:320|ms|#env:prod", "beginnings": "credentiatokebearesecreauthorizatio", "padding": strings.Repeat("aB3", 14) + strings.Repeat("=", mostMasked),
	} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(part, mostMasked)[:mostMasked]
			b.SetBytes(mostMasked)
			b.ReportAllocs()
			for b.Loop() {
				mayHaveSecrets(text)
			}
		})
	}
}

// The end of a quoted value may be behind the one that it is in, and a message may be about the end of a long line.
func TestSecretsBehindOthers(t *testing.T) {
	if got := Mask(`token='password="a' hunter2" x`); strings.Contains(got, "hunter2") || !strings.HasSuffix(got, " x") {
		t.Error(got)
	}
	if got := Mask(risingBackslashes(4000) + " hunter2"); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	line := []byte(strings.Repeat("x", 50_000) + " token:hunter2|c")
	if got := MaskAbout(`"hunter2" is not a number`, line, len(line)-5); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	for _, at := range []int{-1, 0, len(line), 1 << 20} { // of a fault that is elsewhere
		if got, want := MaskAbout("is too long", line, at), "is too long"; got != want {
			t.Errorf("at %d: %s", at, got)
		}
	}
}

// A secret is not shown, whatever is before and behind it, and however it is quoted.
func FuzzMask(f *testing.F) {
	for _, before := range []string{"", "x:1|c|#", `{"token":"`, "secret: '", "basic ", "token_", `password="\`, "://u:"} {
		f.Add(before, "", uint8(len(before)))
		f.Add(before, `"}|c`, uint8(len(before)+1))
	}
	ways := []string{" password=%s", ` "password":"%s"`, ` "password" : "a\"%s"`, " secret access key: %s", " {'name': 'API_TOKEN', 'value': '%s'}",
		" user[password]=%s", " https://u@h:x'%s@h ", ` ""password"":""%s""`, " Authorization: Basic %s"}
	f.Fuzz(func(t *testing.T, before, behind string, way uint8) {
		for _, secret := range []string{"hunter2hunter2", "hunter2\x01hun\\ter2"} {
			line := before + fmt.Sprintf(ways[int(way)%len(ways)], secret) + behind
			line = line[:min(len(line), mostMasked)]
			if got := mask(line); strings.Contains(got, secret) {
				t.Errorf("%q: %q", line, got)
			}
			quoted := strconv.Quote(secret)
			if got := maskAbout(quoted+" is not a number", line); strings.Contains(got, strings.Trim(quoted, `"`)) {
				t.Errorf("%q in a message: %q", line, got)
			}
		}
	})
}
