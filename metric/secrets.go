package metric

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// A secret is found by its name: from there, quotes, brackets, blanks and signs lead to its value, perhaps by another word,
// as in "secret access key" or "password is". It is a rule of thumb: too much is masked rather than too little.

// Parts of the expressions. Names come in URLs and JSON, so each sign may be escaped.
const (
	blank  = `(?:[\s+]|%20)`
	quote  = `(?:\\*["'\x60]|%2[27])`
	closes = `(?:` + quote + `|[\])}>]|%[57]d)*` // what may stand after a name
	opens  = `(?:[\[({<]|%[57]b|` + blank + `)*` // and before a value
	comma  = blank + `*(?:,|%2c)` + blank + `*`
	sign   = `(?:` + blank + `*(?:[:=>]|%3[ade]|[-–—]+(?:>|` + blank + `)))+`

	// secretName is a name whose value may follow after a blank.
	secretName = `(?:bearer|token|pass(?:w(?:or)?d|phrase|code)?|pwd|credentials?|secret|` + ofKey + `(?:[-_]|` + blank + `)?key)`
	ofKey      = `(?:api|app|application|access|secret|private|account|auth|licen[cs]e|subscription|functions?|encryption|signing)`
	// camelName is one with an ending in upper case, as apiKeyValue: what precedes it is in lower case, as it isn't in SECRETARY.
	camelName = `(?-i:[Bb]earer|[Tt]oken|[Pp]ass(?:w(?:or)?d|phrase|code)|[Pp]wd|[Cc]redential|[Ss]ecret|(?i:` + ofKey +
		`[-_]?)[Kk]ey)(?-i:s?[A-Z]\w*)`
	// likelyName is a name that needs a sign before its value: a plural, one with an ending, as in DB_PASSWORD_PROD, "auth"
	// alone, and parameters of a URL.
	likelyName = secretName + `(?:s|s?[-_\d][\w-]*)|` + camelName + `|_auth|` + quote + `auth|(?:[?&]|%26|%3f)(?:key|[\w-]*sig(?:nature)?)`
	further    = closes + `(?:` + blank + `+(?:access|key|value|is|was)\b)*` + closes
	// leads is the way to a value by a sign, perhaps that of a field or two, or by the comma of a pair.
	leads = further + `(?:(?:[:=,\[({<\])}>]|%2c|%3[ad]|%[57][bd]|` + blank + `|` + quote + `)*\b` + field + `\b` + closes + `)*` + sign +
		`|` + closes + quote + comma
	// field is "value", or that of its type, as in OTLP's {"value":{"stringValue":"…"}}.
	field = `(?:(?:string|bytes|int|double|array)_?)?values?`
)

var (
	// secretValue has: the name, if it needs a sign; the quotes that open the value, or its first character.
	secretValue = regexp.MustCompile(`(?i)(?:(?:(` + likelyName + `)|` + secretName + `)(?:` + leads + `)|` +
		secretName + further + blank + `+)` + opens + `(?:(\\*(?:"+|'+|\x60+))|(?:%2[27])?([^\s|"'\x60:=>]))`)
	// metricValue is a number where a metric has its own, as in "password_resets:1|c".
	metricValue = regexp.MustCompile(`^[-+]?[\d.]+\|`)
	// afterWord ends an unquoted value: a blank, a bar, or the key that follows. A "," or "&" alone may be of the secret.
	afterWord = regexp.MustCompile(`(?i)[\s|]|(?:[&,;]|%26|%2c|%3b)["']?[\w.-]+["']?(?:[:=]|%3[ad])|$`)
	// forms are secrets that are told by what is around them.
	forms = []form{
		{[]string{"authorization", "cookie"}, regexp.MustCompile(`(?i)(?:authorization|cookie)(?:` + leads + `)` + blank + `*(.+)`)},
		// A JWT: JSON begins so in base64. The end may be cut off.
		{[]string{"eyj"}, regexp.MustCompile(`(eyJ[\w-]+\.[\w-]+\.[\w-]*|eyJ[\w-]{12,}\.[\w-]+)`)},
		// The credentials of a header without its name, and the argument of a command of Redis or SMTP.
		{[]string{"basic", "auth"},
			regexp.MustCompile(`(?i)\b(?:basic|auth(?:` + blank + `+plain)?)` + blank + `+([^\s|]{4,}(?:\s+[^\s|]+)?)`)},
		// The password of a URL, up to the last @: it may have one, as may the user's name, and slashes, quotes and bars. What
		// follows "|@" is a sample rate.
		{[]string{"://"}, regexp.MustCompile(`://[^\s/:]*:(\S*[^\s|])@`)},
		// A token before the host of a URL: a shorter one is a user's name.
		{[]string{"://"}, regexp.MustCompile(`://([^\s/:@]{16,})(?::[^\s/@]*)?@`)},
		// The password in the name of a data source, as of MySQL.
		{[]string{"@/", "("}, regexp.MustCompile(`[^\s/:@]+:([^\s/]\S*)@(?:\w*\(|/)`)},
	}
)

// form is an expression with the secret as its group. marks are in lower case: a match has one of them.
type form struct {
	marks  []string
	secret *regexp.Regexp
}

// waySigns are the characters of which the way from a name to its value has one: a metric's name alone has none.
const waySigns = " \t\r\n\f+%:=>,"

// nameMarks are the marks of secretValue.
var nameMarks = []string{"auth", "bearer", "token", "pass", "pwd", "credential", "secret", "key", "sig"}

// found is a set of expressions: bit 0 is secretValue, bit i+1 the form i.
type found uint

func (f found) names() bool     { return f&1 != 0 }
func (f found) form(i int) bool { return f>>(i+1)&1 != 0 }

// mark is a mark of expressions.
type mark struct {
	text string
	of   found
}

// marksByFirst are all marks by their first byte, in both cases.
var marksByFirst = func() (all [256][]mark) {
	add := func(marks []string, of found) {
		for _, text := range marks {
			all[text[0]] = append(all[text[0]], mark{text, of})
		}
	}
	add(nameMarks, 1)
	for i, f := range forms {
		add(f.marks, 1<<(i+1))
	}
	for c := 'A'; c <= 'Z'; c++ {
		all[c] = all[lower(byte(c))]
	}
	return all
}()

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// marksOf returns the expressions that may match in a text, by their marks.
func marksOf(text string) (all found) {
	for i := range len(text) {
		for _, m := range marksByFirst[text[i]] {
			if all&m.of != m.of && beginsWith(text[i:], m.text) {
				all |= m.of
			}
		}
	}
	if all.names() && !strings.ContainsAny(text, waySigns) {
		all &^= 1
	}
	return all
}

// beginsWith reports whether a text, whose first byte is that of a mark, begins with the mark in any case.
func beginsWith(text, mark string) bool {
	if len(text) < len(mark) {
		return false
	}
	for i := 1; i < len(mark); i++ {
		if lower(text[i]) != mark[i] {
			return false
		}
	}
	return true
}

// mayHaveSecrets reports whether a text has the marks of a secret. It takes some nanoseconds a byte, and no memory.
func mayHaveSecrets(text string) bool { return isOfKey(text) || marksOf(text) != 0 }

const (
	// leastOfKey is the shortest line that is taken for one of a key in PEM, which have 64 bytes
	// or 76. Of a longer line, the first mostOfKey bytes are looked at.
	leastOfKey, mostOfKey = 40, 100
	// leastDigits is the number of digits from which a line is taken for base64: a long name, as
	// HttpServerRequestsInFlight, has fewer.
	leastDigits = 3
)

// isOfKey reports whether a line is base64 alone, as those of a private key in PEM.
func isOfKey(line string) bool {
	if len(line) < leastOfKey {
		return false
	}
	digits, uppers, lowers := 0, 0, 0
look:
	for i, c := range []byte(line[:min(len(line), mostOfKey)]) {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case 'A' <= c && c <= 'Z':
			uppers++
		case 'a' <= c && c <= 'z':
			lowers++
		case c == '+', c == '/':
		case i < leastOfKey, strings.Trim(line[i:], "=\r\n") != "": // its end may have these
			return false
		default:
			break look
		}
	}
	return digits >= leastDigits && uppers > 0 && lowers > 0
}

// span is where a secret is.
type span struct{ begin, end int }

// secretsOf returns where the secrets of a line are, in their order. Those that overlap are one, so all of them together
// are no longer than the line.
func secretsOf(line string) []span {
	if isOfKey(line) {
		return []span{{0, len(line)}}
	}
	var all []span
	marks := marksOf(line) // much faster than an expression
	if marks.names() {
		all = namedSecrets(line)
	}
	for i, f := range forms {
		if !marks.form(i) {
			continue
		}
		for _, at := range f.secret.FindAllStringSubmatchIndex(line, -1) {
			all = append(all, span{at[2], at[3]})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	merged := all[:0]
	for _, s := range all {
		if last := len(merged) - 1; last >= 0 && s.begin <= merged[last].end {
			merged[last].end = max(merged[last].end, s.end)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// mostAgain bounds the search within values that are in other values, in lengths of the line.
const mostAgain = 4

// namedSecrets finds values by their names. A value may be the name of the next one, as in "grant_type":"password","password":"…",
// so the search goes on at its beginning; an unquoted one within another ends with it. The end of a quoted one within another
// may be behind it. A hostile line could have the same bytes searched for each of thousands of openings, so after some
// lengths of the line, all that follows is masked.
func namedSecrets(line string) (all []span) {
	again := 0 // bytes that were searched within other values
	for from, end := 0, 0; ; {
		at := secretValue.FindStringSubmatchIndex(line[from:])
		if at == nil {
			return all
		}
		likely, quoted, begin := at[2] >= 0, at[4] >= 0, from+at[1]
		if !quoted {
			begin = from + at[6]
		}
		stop := begin
		switch {
		case likely && !quoted && metricValue.MatchString(line[begin:]):
		case begin < end && again > mostAgain*len(line):
			return append(all, span{begin, len(line)})
		case quoted:
			stop += quotedEnd(line[begin:], line[from+at[4]:begin])
			if begin < end {
				again += stop - begin
			}
		case begin >= end:
			stop += afterWord.FindStringIndex(line[begin:])[0]
		}
		if begin < stop {
			all, end = append(all, span{begin, stop}), max(end, stop)
		}
		from = begin
	}
}

// quotedEnd is the end of a quoted value: as many quotes as open it, or more, and no more backslashes before them. One quote
// isn't closed by two, which stand for one.
func quotedEnd(text, opening string) int {
	quotes := strings.TrimLeft(opening, `\`)
	slashes := len(opening) - len(quotes)
	if len(quotes) == 2 && (text == "" || strings.ContainsRune(" \t,;&|)]}>", rune(text[0]))) {
		return 0 // an empty value
	}
	for i := 0; i < len(text); i++ {
		if text[i] != quotes[0] {
			continue
		}
		before := len(text[:i]) - len(strings.TrimRight(text[:i], `\`))
		run := len(text[i:]) - len(strings.TrimLeft(text[i:], quotes[:1]))
		switch {
		case before > slashes:
		case run >= len(quotes) && (len(quotes) > 1 || run%2 == 1):
			return i - before
		default:
			i += run - 1
		}
	}
	return len(text)
}
