package metric

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Mask replaces what looks like a secret in a rejected line: the values that follow words such as
// authorization, cookie, basic, bearer, token, password, credential, secret and api-key, and the password of a URL,
// or the token before its host. A client may send credentials to the wrong port, and rejected lines are logged and listed.
func Mask(line string) string {
	for _, secret := range secretsOf(line) {
		line = strings.ReplaceAll(line, secret, masked)
	}
	return line
}

// MaskAbout masks the secrets of a line in a message about it, which may quote a value alone, its
// beginning, or its escaped form.
func MaskAbout(message string, line []byte) string {
	for _, secret := range secretsOf(string(line)) {
		if len(secret) < leastSecret {
			continue
		}
		message = strings.ReplaceAll(message, secret, masked)
		message = quotation.ReplaceAllStringFunc(message, func(quoted string) string {
			if hasPartOf(quoted, secret) {
				return `"` + masked + `"`
			}
			return quoted
		})
	}
	return Mask(message)
}

// hasPartOf reports whether a quotation is a part of a secret, or has leastPart bytes in a row of what a message may quote
// of it.
func hasPartOf(text, secret string) bool {
	if whole := strings.Trim(text, `"`); len(whole) >= leastSecret && strings.Contains(secret, whole) {
		return true
	}
	secret = secret[:min(len(secret), 4*MaxQuoted)]
	for i := 0; i+leastPart <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+leastPart]) {
			return true
		}
	}
	return false
}

const (
	masked = "***"
	// leastSecret is the shortest value that is masked wherever a message has it.
	leastSecret = 4
	// leastPart is the shortest part of a secret for which the quotation that has it is masked.
	leastPart = 8
)

// words has one of each match of the expressions below, and is faster to look for.
var words = []string{"auth", "cookie", "basic", "bearer", "token", "pass", "pwd", "credential", "secret", "key", "://", "eyj"}

// blank is a space, also in a URL.
const blank = `(?:\s|%20)`

var (
	quotation   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	wholeHeader = regexp.MustCompile(`(?i)(?:authorization|cookie)\\*["']?` + blank + `*(?:[:=]|%3[ad])` + blank + `*(.+)`)
	secretWord  = regexp.MustCompile(`(?i)(?:bearer|token|pass(?:w(?:or)?d|phrase)?|pwd|credentials?|secret(?:[-_]access[-_]key)?|(?:api|access|secret|private)[-_]?key)` +
		`(?:\\*["']|%22)?(?:` + blank + `*(?:=>|:=|[:=>]|%3[ad])` + blank + `*|` + blank + `+)(?:[\[({]` + blank + `*)*(?:\\+|%22)?(?:"([^"]+)|'([^']+)|([^\s"'|][^\s|]*))`)
	// jwt is a token by its form alone: JSON begins so in base64.
	jwt = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*|eyJ[\w-]{12,}\.[\w-]+`) // the end may be cut off
	// basicAuth has the credentials of a header without its name, and the argument of a command of Redis or SMTP.
	basicAuth   = regexp.MustCompile(`(?i)\b(?:basic|auth(?:` + blank + `+plain)?)` + blank + `+([^\s|]{4,}(?:\s+[^\s|]+)?)`)
	urlPassword = regexp.MustCompile(`://[^\s/:@]*:([^\s"'|]+)@`)         // up to the last @: the password may have one, and slashes
	urlToken    = regexp.MustCompile(`://([^\s/:@]{16,})(?::[^\s/@]*)?@`) // a shorter one is a user's name
	// nextKey begins the key after an unquoted value. A "," or "&" alone may be of the secret.
	nextKey = regexp.MustCompile(`(?i)(?:[&,;]|%26|%2c|%3b)["']?[\w.-]+["']?(?:[:=]|%3[ad])`)
)

// secretsOf returns the secrets of a line, the longest first.
func secretsOf(line string) (all []string) {
	lower := strings.ToLower(line)
	if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(lower, word) }) {
		return nil
	}
	for _, found := range wholeHeader.FindAllStringSubmatch(line, -1) {
		all = append(append(all, found[1]), strings.Fields(found[1])...)
	}
	for rest := line; ; {
		at := secretWord.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		begin, end := max(at[2], at[4], at[6]), at[1]
		if next := nextKey.FindStringIndex(rest[begin:end]); next != nil && begin == at[6] {
			end = begin + next[0] // that key may have a secret, too
		}
		all, rest = append(all, rest[begin:end]), rest[end:]
	}
	all = append(all, jwt.FindAllString(line, -1)...)
	for _, alone := range []*regexp.Regexp{basicAuth, urlPassword, urlToken} {
		for _, found := range alone.FindAllStringSubmatch(line, -1) {
			all = append(all, found[1])
		}
	}
	all = slices.DeleteFunc(all, func(secret string) bool { return secret == "" })
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return all
}
